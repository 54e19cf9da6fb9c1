"""What the examples give, as a bundle: the same files that are delivered otherwise."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from eval_pipeline.computing.history import Row
from eval_pipeline.records import GoldenRow, Result

ONLY_ARCHIVE = "only"
GOLDEN_NAMES = frozenset(one.name for one in msgspec.structs.fields(GoldenRow)) - {"query_id"} | {"question"}
RESULT_NAMES = frozenset(one.name for one in msgspec.structs.fields(Result)) - {"query_id"} | {"hits"}
NAMES_OF_RUNS = frozenset(
    ("extraction", "extractions", "index_report", "spot_checks", "judgements", "results")
)
OTHER_NAMES = frozenset(("archive", "archives", "config", "run", "parameters"))
NAMES = GOLDEN_NAMES | RESULT_NAMES | NAMES_OF_RUNS | OTHER_NAMES


@dataclass(frozen=True)
class Delivery:
    """What one example gives, and where it goes."""

    given: Row
    query_id: str
    run_id: str
    dataset: str


def archives_of(given: Row) -> dict[str, list[Any]] | None:
    """The chunks of each archive that an example gives, or None."""
    if given.get("archives") is not None:
        return dict(given["archives"])
    if given.get("archive") is not None:
        version = (given.get("config") or {}).get("chunker_version", ONLY_ARCHIVE)
        return {version: list(given["archive"])}
    return None


def write_bundle(
    deliveries: Sequence[Delivery], archives: Mapping[str, Mapping[str, list[Any]]], folder: Path
) -> None:
    """All examples as one bundle; `archives` holds chunks by dataset and chunker version."""
    golden_rows: dict[str, list[Row]] = {}
    runs: dict[str, list[Delivery]] = {}
    for case in deliveries:
        row = {name: value for name, value in case.given.items() if name in GOLDEN_NAMES}
        for result in _results_of(case):
            golden_rows.setdefault(case.dataset, []).append({"query_id": result["query_id"], **row})
        runs.setdefault(case.run_id, []).append(case)
    for dataset, rows in golden_rows.items():
        _write_lines(folder / "datasets" / dataset / "queries.jsonl", rows)
    for dataset, versions in archives.items():
        for version, chunks in versions.items():
            lines = [{"chunk_id": one, "doc_id": one} if isinstance(one, str) else one for one in chunks]
            _write_lines(folder / "datasets" / dataset / "inventories" / f"{version}.jsonl", lines)
    for run_id, cases in runs.items():
        results = [result for case in cases for result in _results_of(case)]
        _write_lines(folder / "runs" / run_id / "results.jsonl", results)
        _write_parts(cases[0], folder / "runs" / run_id)


def _results_of(case: Delivery) -> list[Row]:
    """The example's own result, or the several it gives."""
    if case.given.get("results") is None:
        return [_result_of(case.given, case.query_id)]
    numbered = enumerate(case.given["results"], start=1)
    return [_result_of(given, f"{case.query_id}.{number}") for number, given in numbered]


def _result_of(given: Row, query_id: str) -> Row:
    result = {name: value for name, value in given.items() if name in RESULT_NAMES - {"hits"}}
    if given.get("hits") is not None:
        hits = enumerate(given["hits"], start=1)
        result["hits_top_k"] = [_full_hit(hit, number) for number, hit in hits]
    return {"query_id": query_id, **result}


def _write_parts(case: Delivery, folder: Path) -> None:
    given = case.given
    cases = given.get("extractions", [given["extraction"]] if "extraction" in given else None)
    if cases is not None:
        numbered = [{"case_id": f"case {number}", **one} for number, one in enumerate(cases, start=1)]
        _write_lines(folder / "extractions.jsonl", numbered)
    if given.get("spot_checks") is not None:
        checks = [{"query_id": case.query_id, **one} for one in given["spot_checks"]]
        _write_lines(folder / "judge_spot_check.jsonl", checks)
    if given.get("judgements") is not None:
        said = [{"query_id": case.query_id, "judge": "judge", **one} for one in given["judgements"]]
        _write_lines(folder / "judgements.jsonl", said)
    if given.get("index_report") is not None:
        (folder / "index_report.json").write_text(json.dumps(given["index_report"]), "utf-8")
    run = {"run_id": case.run_id, "dataset": case.dataset, "config": given.get("config")}
    (folder / "run.json").write_text(json.dumps(run | (given.get("run") or {})), "utf-8")


def _full_hit(hit: Any, number: int) -> Any:
    """A hit that is about paths or spans need not invent ids."""
    if not isinstance(hit, dict):
        return hit
    chunk_id = hit.get("chunk_id", f"chunk {number}")
    return {"doc_id": hit.get("rel_path", chunk_id), **hit, "chunk_id": chunk_id}


def _write_lines(path: Path, rows: Sequence[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
