"""What pages show, collected from the store in one go, and handed to the report to be written."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from eval_pipeline.errors import UnknownName, UsageError
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.pipeline.measure import unwanted_cells, wanted_cells
from eval_pipeline.report.material import (
    ChunkRow,
    FormulaState,
    GateMark,
    MetricFacts,
    PairMaterial,
    QueryRow,
    QueryTexts,
    RunFacts,
    RunMaterial,
    SuiteMaterial,
    SuiteRun,
)
from eval_pipeline.settings import Settings
from eval_pipeline.store import report_rows
from eval_pipeline.store.connect import Connection, open_reader
from eval_pipeline.store.ledger import find_states
from eval_pipeline.store.lock import Tell
from eval_pipeline.store.read import RunRow, computed_with, find_run, per_query_values

HITS_READ: Final = 10
# Below this many queries everything is read; of more only as many as a page lists.
QUERIES_READ: Final = 2_000
RUNS_SHOWN: Final = 400
LABELLED_CHUNKS: Final = "labels.expected_chunks"
SAFE_NAME: Final = re.compile(r"[^\w.@+-]+", re.ASCII)


def run_page(
    settings: Settings, registry: Registry, run_id: str, *, with_text: bool = True, tell: Tell | None = None
) -> str:
    """The page of one run."""
    from eval_pipeline.report.run_page import render_run_page

    return render_run_page(read_run(settings, registry, run_id, with_text=with_text, tell=tell))


def pair_page(
    settings: Settings,
    registry: Registry,
    run_a: str,
    run_b: str,
    *,
    document: Mapping[str, Any] | None = None,
    with_text: bool = True,
    tell: Tell | None = None,
) -> str:
    """The page of two runs; `document` is their comparison where somebody has computed it already."""
    from eval_pipeline.report.pair_page import render_pair_page

    if document is None:
        from eval_pipeline.pipeline.compare import compare

        document = compare(settings, registry, run_a, run_b, tell=tell)
    return render_pair_page(read_pair(settings, registry, document, with_text=with_text, tell=tell))


def suite_page(
    settings: Settings, registry: Registry, *, suite: str | None = None, tell: Tell | None = None
) -> str:
    """The page of one suite, or of all."""
    from eval_pipeline.report.suite_page import render_suite_page

    return render_suite_page(read_suites(settings, registry, suite=suite, tell=tell))


def default_file(settings: Settings, runs: Sequence[str], suite: str | None) -> Path:
    """Where a page goes unless somebody says otherwise."""
    if runs:
        return settings.reports / f"{'..'.join(runs)}.html"
    return settings.reports / ("suites.html" if suite is None else f"suite-{_file_name(suite)}.html")


def _file_name(name: str) -> str:
    """The name as it is, where a file may have it; else made safe, and unlike other names made safe."""
    safe = SAFE_NAME.sub("-", name)[:80]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def write_page(page: str, path: Path) -> None:
    """Put the page into place as a whole."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.draft")
        draft.write_text(page, "utf-8")
        draft.replace(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error


def read_run(
    settings: Settings, registry: Registry, run_id: str, *, with_text: bool = True, tell: Tell | None = None
) -> RunMaterial:
    """Everything that the page of a run shows."""
    from eval_pipeline.pipeline.show import run_document

    with open_reader(settings.db, tell=tell) as con:
        run = find_run(con, run_id)
        queries = [QueryRow(*row) for row in report_rows.query_rows(con, run)]
        formulas = [one for one in registry.formulas if registry.applies_to(one, run.dataset)]
        return RunMaterial(
            document=run_document(con, registry, run),
            facts=_facts(con, [run])[0],
            metrics=metric_facts(registry, run.dataset),
            states=_states(con, registry, [run])[0],
            queries=queries,
            values=per_query_values(con, run, formulas),
            texts=_texts(con, [run], [row.query_key for row in queries[:QUERIES_READ]], queries),
            latencies=report_rows.recorded_latencies(con, run),
            field_errors=_field_errors(con, run),
            with_text=with_text,
        )


def read_pair(
    settings: Settings,
    registry: Registry,
    document: Mapping[str, Any],
    *,
    with_text: bool = True,
    tell: Tell | None = None,
) -> PairMaterial:
    """Everything that the page of two runs shows beside their comparison."""
    from eval_pipeline.report.movements import moved_queries

    moved = {entry["query_id"] for entry in moved_queries(document)[:QUERIES_READ]}
    with open_reader(settings.db, tell=tell) as con:
        a, b = find_run(con, document["run_a"]), find_run(con, document["run_b"])
        rows_a, rows_b = ([QueryRow(*row) for row in report_rows.query_rows(con, run)] for run in (a, b))
        wanted = [row for row in rows_b if row.query_id in moved]
        return PairMaterial(
            document=document,
            facts=_two(_facts(con, [a, b])),
            metrics=metric_facts(registry, a.dataset, b.dataset),
            states=_two(_states(con, registry, [a, b])),
            queries=({row.query_id: row for row in rows_a}, {row.query_id: row for row in rows_b}),
            texts=_texts(con, [a, b], [row.query_key for row in wanted], wanted),
            with_text=with_text,
        )


def _two(entries: Sequence[Any]) -> tuple[Any, Any]:
    first, second = entries
    return first, second


def metric_facts(registry: Registry, *datasets: str) -> list[MetricFacts]:
    """The catalogue's metrics that one of these datasets wants, in its order."""
    return [
        MetricFacts(
            key=key,
            formula=one.short_name,
            base=(one.reading_of or one.name).split(".", 1)[1],
            meaning=one.keys[key],
            applies=one.header.applies,
            undefined=_with_parameters(one.header.undefined, one.header.parameters),
            scale=one.header.scale,
            value_range=one.header.value_range,
            direction=one.header.direction,
            is_chunk_level=LABELLED_CHUNKS in registry.inputs_of(one),
        )
        for key, one in registry.keys().items()
        if any(registry.applies_to(one, dataset) for dataset in datasets)
    ]


def _with_parameters(text: str | None, parameters: Mapping[str, Any]) -> str | None:
    if text is None:
        return None
    for name, value in parameters.items():
        text = text.replace(f"${{{name}}}", str(value))
    return text


def _facts(con: Connection, runs: Sequence[RunRow]) -> list[RunFacts]:
    found = {}
    for row in report_rows.run_facts(con, [run.run_key for run in runs]):
        fields = [*row[1:-1], json.loads(row[-1]).get("config") or {}]
        found[row[0]] = RunFacts(*fields)
    return [found[run.run_key] for run in runs]


def _states(con: Connection, registry: Registry, runs: Sequence[RunRow]) -> list[dict[str, FormulaState]]:
    """Formula → what its values of each run rest on and whether that holds; of other tables only what does not."""
    marks = _marks(con, registry, [run.run_key for run in runs])
    found = []
    for run in runs:
        computed = computed_with(con, run)
        own = marks.get(run.run_key, {})
        states = {}
        for one in registry:
            is_formula = one.schema == "metrics" and registry.applies_to(one, run.dataset)
            mark = own.get(one.name)
            if is_formula or mark:
                known = computed.get(one.name, {})
                state, reason = mark or ("fresh" if one.name in computed else "missing", None)
                states[one.short_name] = FormulaState(
                    one.short_name,
                    known.get("version"),
                    known.get("fingerprint"),
                    state,
                    reason,
                    tuple(one.keys),
                )
        found.append(states)
    return found


def _marks(
    con: Connection, registry: Registry, run_keys: Sequence[int]
) -> dict[int, dict[str, tuple[str, str | None]]]:
    """run_key → definition → (state, reason), of what is not fresh; an aggregate's mark belongs to its formula."""
    find_states(con, wanted_cells(registry), unwanted=unwanted_cells(registry), run_keys=run_keys)
    found: dict[int, dict[str, tuple[str, str | None]]] = {}
    for run_key, definition, reason, is_pinned in report_rows.marked_cells(con):
        mark = ("missing", None) if reason == "missing" else ("pinned" if is_pinned else "stale", reason)
        found.setdefault(run_key, {}).setdefault(definition, mark)
    return found


def _texts(
    con: Connection, runs: Sequence[RunRow], query_keys: Sequence[int], rows: Sequence[QueryRow]
) -> dict[str, QueryTexts]:
    """Query id → what was expected and what each run retrieved."""
    hits = [_chunks(report_rows.hits_of(con, run, query_keys, most=HITS_READ)) for run in runs]
    expected = _chunks(report_rows.expected_chunks(con, runs[-1], query_keys))
    found = {}
    wanted = set(query_keys)
    for row in rows:
        if row.query_key not in wanted:
            continue
        retrieved = [of_run.get(row.query_key, []) for of_run in hits]
        known = {chunk.chunk_id: chunk.text for side in retrieved for chunk in side if chunk.text}
        labelled = [
            ChunkRow(chunk.chunk_id, chunk.text or known.get(chunk.chunk_id))
            for chunk in expected.get(row.query_key, [])
        ]
        found[row.query_id] = QueryTexts(labelled, retrieved)
    return found


def _chunks(rows: Sequence[tuple[Any, ...]]) -> dict[int, list[ChunkRow]]:
    found: dict[int, list[ChunkRow]] = {}
    for query_key, *fields in rows:
        found.setdefault(query_key, []).append(ChunkRow(*fields))
    return found


def _field_errors(con: Connection, run: RunRow) -> dict[str, dict[str, int]]:
    from eval_pipeline.store.read_parts import computed_rows

    kinds = ("omission", "hallucination", "format_error", "wrong_value")
    return {
        row["field"]: {kind: row[f"n_{kind}"] for kind in kinds}
        for row in computed_rows(con, "aggregates.field_accuracy", run)
    }


def read_suites(
    settings: Settings, registry: Registry, *, suite: str | None = None, tell: Tell | None = None
) -> list[SuiteMaterial]:
    """Every suite, or the one that is asked for; runs on several datasets are apart."""
    with open_reader(settings.db, tell=tell) as con:
        found = report_rows.suites(con, suite)
        if not found and suite is not None:
            raise UnknownName("suite", suite, report_rows.suite_names(con))
        if not found:
            raise UsageError("there is no run yet: `eval-pipeline load PATH` takes runs in")
        return [_suite(con, registry, name, dataset) for name, dataset in found]


def _suite(con: Connection, registry: Registry, name: str | None, dataset: str) -> SuiteMaterial:
    rows = report_rows.suite_runs(con, name, dataset)
    shown = rows[-RUNS_SHOWN:]
    keys = [row[0] for row in shown]
    runs = [RunRow(row[0], row[1], dataset, None) for row in shown]
    counts = report_rows.run_counts(con, keys)
    values = report_rows.whole_values(con, keys)
    meanings = report_rows.meanings_behind(con, keys)
    marks = _marks(con, registry, keys)
    replaced = {row[4]: row[1] for row in rows if row[4] is not None}
    drafts = [
        SuiteRun(
            facts,
            night,
            *counts[run_key],
            replaced_by=replaced.get(run_id),
            values=values.get(run_key, {}),
            fingerprints=meanings.get(run_key, {}),
            n_stale=sum(state == "stale" for state, _ in marks.get(run_key, {}).values()),
            is_shown=False,
        )
        for facts, (run_key, run_id, night, _, _) in zip(_facts(con, runs), shown, strict=True)
    ]
    return SuiteMaterial(
        suite=name,
        dataset=dataset,
        runs=with_shown_attempts(drafts),
        n_left_out=len(rows) - len(shown),
        metrics=metric_facts(registry, dataset),
        gate=_gate(registry),
        baseline=_baseline(registry, name, dataset),
    )


def with_shown_attempts(runs: Sequence[SuiteRun]) -> list[SuiteRun]:
    """The runs in their order, with the last complete attempt of each night marked; without one, the last attempt."""
    from dataclasses import replace

    by_night: dict[Any, list[SuiteRun]] = {}
    for run in runs:
        by_night.setdefault(run.night, []).append(run)
    chosen = set()
    for attempts in by_night.values():
        usable = [run for run in attempts if run.replaced_by is None] or attempts
        complete = [run for run in usable if run.is_complete]
        last = max(enumerate(complete or usable), key=lambda place: (place[1].facts.attempt or 0, place[0]))[
            1
        ]
        chosen.add(last.facts.run_id)
    ordered = sorted(enumerate(runs), key=lambda place: (place[1].night, place[0]))
    return [replace(run, is_shown=run.facts.run_id in chosen) for _, run in ordered]


def _gate(registry: Registry) -> dict[str, GateMark]:
    """Metric → how far the gate lets it fall."""
    from eval_pipeline.pipeline.gate_rules import read_gate

    gate = read_gate(registry.config.gate, registry, path=registry.config.path)
    return {
        rule.metric: GateMark(
            rule.is_higher_better, None if rule.target is not None else rule.margin, rule.target
        )
        for rule in gate.rules
        if rule.slice is None
    }


def _baseline(registry: Registry, suite: str | None, dataset: str) -> str | None:
    """The run that others are held against, where eval-pipeline.toml names one for the suite or the dataset."""
    known = registry.config.baselines
    found = known.get(suite or "", known.get(dataset))
    return found if isinstance(found, str) else None
