"""A run as files: its documents, a row per query, and what its judge was given."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec.structs import asdict, replace

from eval_pipeline.computing.derived import table_columns
from eval_pipeline.computing.history import Row, computed_parameters, computed_rows, run_file
from eval_pipeline.documents import as_json
from eval_pipeline.errors import UsageError
from eval_pipeline.formulas.definition import PER_QUERY, Definition
from eval_pipeline.settings import Settings, check_overwriting
from eval_pipeline.showing.blocks import CASES, case_metrics, guide_version
from eval_pipeline.showing.marks import states_of_run
from eval_pipeline.showing.plausibility import shown_per_query
from eval_pipeline.showing.run_report import Extraction
from eval_pipeline.showing.scores import metrics_of, scored_configs
from eval_pipeline.showing.show import FORMAT, run_report
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Project, Store
from eval_pipeline.store.runs import RunRow, computed_with, find_run

METRICS = "metrics.json"
CONFIG = "config.json"
EVAL_RESULTS = "eval-results.json"
PER_QUERY_TABLE = "per_query.parquet"
JUDGE_INPUTS = "judge_inputs.jsonl"

DOCUMENTS = (METRICS, CONFIG, EVAL_RESULTS)

Files = dict[str, Callable[[Path], object]]
Numbers = dict[str, Mapping[str, float | None]]


def export_run(project: Project, run_id: str, folder: Path, *, force: bool = False) -> list[Path]:
    """Write the run's files into the folder, over earlier ones; returns their paths."""
    with project.read() as store:
        files = _files_of_run(store, find_run(store.con, run_id))
    return _write_all(folder, files, project.settings, force=force)


def export_documents(project: Project, run_id: str, folder: Path) -> list[Path]:
    """Write only the run's three documents: its numbers, its configuration and its extraction results."""
    with project.read() as store:
        files = _documents(store, find_run(store.con, run_id))
    return _write_all(folder, files, project.settings)


def _files_of_run(store: Store, run: RunRow) -> Files:
    files = _documents(store, run)
    files[PER_QUERY_TABLE] = _as_parquet(_per_query_table(store, run))
    files[JUDGE_INPUTS] = _as_lines(_judge_inputs(store.con, run))
    return files


def _documents(store: Store, run: RunRow) -> Files:
    report = replace(run_report(store, run), states=states_of_run(store, run))
    configured = scored_configs(store.con, {run.run_key: run_file(store.con, run)})
    identity = {"format": FORMAT, "run_id": run.run_id, "dataset": run.dataset}
    config = identity | configured[run.run_key] | identity
    results = _eval_results(store, run, report.extraction)
    return {METRICS: _as_json(report), CONFIG: _as_json(config), EVAL_RESULTS: _as_json(results)}


def _write_all(folder: Path, files: Files, settings: Settings, *, force: bool = False) -> list[Path]:
    """Write the files. Only JSON documents show by their beginning that this program wrote them."""
    for name in files:
        check_overwriting(settings, folder / name, force=force or not name.endswith(".json"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [_write(folder / name, write) for name, write in files.items()]
    except OSError as error:
        raise UsageError(f"{folder} cannot be written to: {error.strerror or error}") from error


def _eval_results(store: Store, run: RunRow, extraction: Extraction | None) -> Row:
    """Every extraction case and their aggregate, with the version of the formulas that computed them."""
    con = store.con
    outcomes: dict[str, dict[str, str]] = {}
    for row in computed_rows(con, "facts.field_outcomes", run):
        outcomes.setdefault(row["case_id"], {})[row["field"]] = row["outcome"]
    cases = [case for case in computed_rows(con, CASES, run) if case["f1"] is not None]
    apart = ("cases", "fields", "failed_cases")
    return {
        "format": FORMAT,
        "run_id": run.run_id,
        "dataset": run.dataset,
        "formula": {
            **computed_with(con, run).get(CASES, {"version": None, "fingerprint": None}),
            "parameters": computed_parameters(con, CASES, run),
            "guide_version": guide_version(store, run),
        },
        "eval_results": [
            {
                "case_id": case["case_id"],
                "metrics": case_metrics(case),
                "field_outcomes": dict(sorted(outcomes.get(case["case_id"], {}).items())),
                "is_data_error": case["total_gt_fields"] == 0,
            }
            for case in cases
        ],
        "aggregate": extraction
        and {name: value for name, value in asdict(extraction).items() if name not in apart},
        "fields": _fields(computed_rows(con, "aggregates.field_accuracy", run)),
        "failed_cases": extraction.failed_cases if extraction else [],
    }


def _fields(rows: Sequence[Row]) -> Row:
    counts = ("omission", "hallucination", "format_error", "wrong_value")
    return {
        row["field"]: {
            "accuracy": row["accuracy"],
            "n": row["n"],
            "errors": {name: row[f"n_{name}"] for name in counts},
        }
        for row in sorted(rows, key=lambda row: str(row["field"]))
    }


def _per_query_table(store: Store, run: RunRow) -> pa.Table:
    """Wide: a row per scored query in golden order, a column per key, unrounded; null where it does not apply."""
    formulas = _formulas_of_queries(store, run)
    values = shown_per_query(store, run, formulas)
    columns: dict[str, pa.Array] = {
        "run_id": pa.array([run.run_id] * len(values), pa.string()),
        "query_id": pa.array(list(values), pa.string()),
    }
    for key in (key for one in formulas for key in one.keys):
        columns[key] = pa.array([metrics.get(key) for metrics in values.values()], pa.float64())
    return pa.table(columns)


def _per_query_numbers(store: Store, run: RunRow) -> Numbers:
    return shown_per_query(store, run, _formulas_of_queries(store, run))


def _formulas_of_queries(store: Store, run: RunRow) -> list[Definition]:
    """Those of the catalogue by name, then the scores of others."""
    registry = metrics_of(store, [run.run_key])
    known = [
        one
        for one in sorted(registry.metrics, key=lambda one: one.name)
        if one.grain == PER_QUERY and registry.applies_to(one, run.dataset)
    ]
    return [*known, *registry.scores.values()]


def _judge_inputs(con: Connection, run: RunRow) -> list[Row]:
    """What the judge was given for every query, whole, as it was delivered; without those that were forgotten."""
    rows = con.execute(
        "select i.query_id, t.text from raw.results x join raw.query_ids i using (query_key) "
        "join raw.texts t on t.text_key = x.judge_input_key where x.run_key = ? order by x.row_no",
        [run.run_key],
    ).fetchall()
    sent = (
        con.execute(
            "select i.query_id, j.ask, j.judge, j.request, t.text from facts.verdicts v "
            "join raw.judgements j on j.run_key = v.run_key and j.judgement_no = v.judgement_no "
            "join raw.query_ids i on i.query_key = v.query_key "
            "join raw.judge_requests q on q.run_key = v.run_key and q.request = j.request "
            "join raw.texts t on t.text_key = q.body_key where v.run_key = ? order by v.judgement_no",
            [run.run_key],
        ).fetchall()
        if table_columns(con, "facts.verdicts")
        else []
    )
    found = [
        {"run_id": run.run_id, "query_id": query_id, "input": _delivered(text)} for query_id, text in rows
    ]
    return found + [
        {"run_id": run.run_id, "query_id": query_id, "ask": ask, "judge": judge, "request": request}
        | {"input": _delivered(text)}
        for query_id, ask, judge, request, text in sent
    ]


def _delivered(text: str) -> Any:
    """A document is kept as JSON, a text as it is; a text that is a JSON document of its own counts as one."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return json.loads(text, parse_constant=str)
    except ValueError:
        return text


def _as_json(document: object) -> Callable[[Path], object]:
    text = json.dumps(as_json(document), ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    return lambda path: path.write_text(text, "utf-8")


def _as_lines(documents: Sequence[Row]) -> Callable[[Path], object]:
    text = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in documents)
    return lambda path: path.write_text(text, "utf-8")


def _as_parquet(table: pa.Table) -> Callable[[Path], object]:
    from pyarrow import parquet

    return lambda path: parquet.write_table(table, path)


def _write(path: Path, write: Callable[[Path], object]) -> Path:
    """All of the file, or what stood there before."""
    path.parent.mkdir(exist_ok=True, parents=True)
    unfinished = path.with_name(path.name + ".part")
    write(unfinished)
    unfinished.replace(path)
    return path
