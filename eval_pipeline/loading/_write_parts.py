"""The parts of a run beside its results: extraction cases, index reports, spot checks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from eval_pipeline.bundle.columns import ResultsBlock
from eval_pipeline.bundle.extractions import has_failed
from eval_pipeline.bundle.lines import Line
from eval_pipeline.bundle.problems import Problem
from eval_pipeline.bundle.results import finite_number
from eval_pipeline.loading.deliveries import Delivery, _add_deliveries, _add_quarantine, _take_off_record
from eval_pipeline.records import ExtractionCase, IndexReport, SpotCheck, Verdict
from eval_pipeline.store.keys import keys_of
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Store

if TYPE_CHECKING:
    from eval_pipeline.loading._write_runs import RunDelivery

_ROW_TABLES = ("extraction_cases", "index_reports", "spot_checks")
_KEYED = {"query_id": "query", "doc_id": "doc", "chunk_id": "chunk", "case_id": "case"}
# (run_key, part) → the content hash that stood there, and how often its bytes were read again.
ReplacedParts = dict[tuple[int, str], tuple[str, int]]


@dataclass
class PartDelivery:
    """One part of a run as it arrived: which bytes, and its rows."""

    part: str
    path: str
    content_hash: str
    n_bytes: int
    blocks: Iterable[ResultsBlock] = ()
    cases: Sequence[Line[ExtractionCase]] = ()
    checks: Sequence[Line[SpotCheck]] = ()
    report: IndexReport | None = None
    problems: list[Problem] = field(default_factory=list)
    n_rows: int = 0
    # Found before the rows were read; a part that is read again while it is written begins with these.
    beforehand: Sequence[Problem] = ()


def write_small_parts(con: Connection, parts: Sequence[tuple[int, PartDelivery]]) -> None:
    """Write the parts of a batch of runs, each table in one statement; sets how many rows each part has."""
    tables: dict[str, list[pa.Table]] = {}
    for run_key, part in parts:
        if part.part == "run":
            part.n_rows = 1
            continue
        for table, rows in _rows_of(part).items():
            part.n_rows = rows.num_rows if table in _ROW_TABLES else part.n_rows
            keyed = rows.add_column(0, "run_key", pa.array([run_key] * rows.num_rows, pa.int32()))
            tables.setdefault(table, []).append(keyed)
    for table, pieces in tables.items():
        _insert(con, table, pa.concat_tables(pieces))


def _rows_of(part: PartDelivery) -> dict[str, pa.Table]:
    if part.part == "extractions":
        return {
            "extraction_cases": _table(
                _CASES, [_case_row(line.number, line.record) for line in part.cases if line.record]
            )
        }
    if part.part == "judge_spot_check":
        return {
            "spot_checks": _table(
                _CHECKS, [_check_row(line.number, line.record) for line in part.checks if line.record]
            )
        }
    return _report_tables(part.report) if part.report else {}


def _table(columns: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    return pa.table(
        [pa.array(column, kind) for column, kind in zip(values, columns.types, strict=True)], schema=columns
    )


_CASES = pa.schema(
    [
        ("case_id", pa.string()),
        ("row_no", pa.int32()),
        ("has_failed", pa.bool_()),
        ("error", pa.string()),
        ("ground_truth", pa.string()),
        ("extracted", pa.string()),
        ("total_gt_fields", pa.int32()),
        ("discrepancies", pa.string()),
    ]
)


def _case_row(number: int, case: ExtractionCase) -> tuple[Any, ...]:
    discrepancies = None if case.discrepancies is None else msgspec.to_builtins(case.discrepancies)
    return (
        case.case_id,
        number,
        has_failed(case),
        case.error,
        _as_json(case.ground_truth),
        _as_json(case.extracted),
        case.total_gt_fields,
        _as_json(discrepancies),
    )


_CHECKS = pa.schema(
    [
        ("check_no", pa.int32()),
        ("query_id", pa.string()),
        ("kind", pa.string()),
        ("first_score", pa.float64()),
        ("first_binary", pa.bool_()),
        ("second_score", pa.float64()),
        ("second_binary", pa.bool_()),
        ("judge_scores_delivered", pa.string()),
    ]
)


def _check_row(number: int, check: SpotCheck) -> tuple[Any, ...]:
    first, second = check.first or Verdict(), check.second or Verdict()
    odd = {
        side: verdict.score
        for side, verdict in (("first", first), ("second", second))
        if verdict.score is not None and finite_number(verdict.score) is None
    }
    # Escaped, because what is no number may hold anything.
    delivered = json.dumps(odd) if odd else None
    return (
        number,
        check.query_id,
        check.kind,
        finite_number(first.score),
        first.binary,
        finite_number(second.score),
        second.binary,
        delivered,
    )


_REPORT = pa.schema([(name, pa.string()) for name in ("chunker_version", "embedding_model", "index_version")])
_DOCUMENTS = pa.schema(
    [
        ("document_no", pa.int32()),
        ("doc_id", pa.string()),
        ("doc_type", pa.string()),
        ("n_chunks", pa.int32()),
    ]
)
_CHUNKS = pa.schema(
    [
        ("chunk_no", pa.int32()),
        ("doc_id", pa.string()),
        ("chunk_id", pa.string()),
        ("status", pa.string()),
        ("skip_reason", pa.string()),
        ("tokens", pa.float64()),
    ]
)


def _report_tables(report: IndexReport) -> dict[str, pa.Table]:
    documents = [
        (number, one.doc_id, one.doc_type, one.n_chunks) for number, one in enumerate(report.docs or [], 1)
    ]
    chunks = [
        (number, one.doc_id, one.chunk_id, one.status, one.skip_reason, one.tokens)
        for number, one in enumerate(report.chunks or [], 1)
    ]
    versions = [(report.chunker_version, report.embedding_model, report.index_version)]
    return {
        "index_reports": _table(_REPORT, versions),
        "indexed_documents": _table(_DOCUMENTS, documents),
        "indexed_chunks": _table(_CHUNKS, chunks),
    }


def _as_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, allow_nan=False)


def _insert(con: Connection, table: str, rows: pa.Table) -> None:
    """Insert by name, with the ids replaced by their keys."""
    for name, kind in _KEYED.items():
        if name in rows.column_names:
            place = rows.column_names.index(name)
            rows = rows.set_column(place, f"{kind}_key", keys_of(con, kind, rows[name]))
    con.register("new_rows", rows)
    con.execute(f"insert into raw.{table} by name select * from new_rows")
    con.unregister("new_rows")


def record_parts(
    store: Store, deliveries: Sequence[RunDelivery], keys: dict[str, int], replaced: ReplacedParts
) -> None:
    """Which bytes stand behind each part now, who delivered them, and what of them was rejected."""
    con = store.con
    parts = [(delivery, part) for delivery in deliveries for part in delivery.parts]
    delivery_keys = _add_deliveries(
        store,
        [
            Delivery(
                part=part.part,
                path=part.path,
                content_hash=part.content_hash,
                n_bytes=part.n_bytes,
                n_rows=part.n_rows,
                n_quarantined=len(part.problems),
                dataset_id=delivery.run.dataset,
                run_id=delivery.run.run_id,
            )
            for delivery, part in parts
        ],
    )
    table = pa.table(
        {
            "run_key": pa.array([keys[delivery.run.run_id] for delivery, _ in parts], pa.int32()),
            "part": [part.part for _, part in parts],
            "content_hash": [part.content_hash for _, part in parts],
            "delivery_key": pa.array(delivery_keys, pa.int32()),
            "n_rows": pa.array([part.n_rows for _, part in parts], pa.int32()),
            "n_quarantined": pa.array([len(part.problems) for _, part in parts], pa.int32()),
            "times_read_again": pa.array(
                [_times_read_again(replaced, keys[one.run.run_id], part) for one, part in parts], pa.int32()
            ),
        }
    )
    con.register("new_parts", table)
    con.execute("insert into raw.run_parts by name select * from new_parts")
    con.unregister("new_parts")
    for delivery, part in parts:
        if (keys[delivery.run.run_id], part.part) in replaced:
            _take_off_record(store, part.content_hash, run_id=delivery.run.run_id)
        _add_quarantine(store, part.problems, content_hash=part.content_hash, dataset=delivery.run.dataset)


def _times_read_again(replaced: ReplacedParts, run_key: int, part: PartDelivery) -> int:
    """Bytes that are read once more may give other rows, and whatever was computed from them is due again."""
    content_hash, times = replaced.get((run_key, part.part), ("", 0))
    return times + 1 if content_hash == part.content_hash else 0
