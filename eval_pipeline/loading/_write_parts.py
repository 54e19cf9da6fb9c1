"""The parts of a run beside its results: extraction cases, index reports, spot checks."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from eval_pipeline.bundle.columns import ResultsBlock
from eval_pipeline.bundle.extractions import has_failed
from eval_pipeline.bundle.layout import ADDED_PARTS
from eval_pipeline.bundle.lines import Line
from eval_pipeline.bundle.parts import read_judge_requests, read_judgements
from eval_pipeline.bundle.problems import Problem
from eval_pipeline.bundle.results import finite_number
from eval_pipeline.loading.deliveries import Delivery, _add_deliveries, _add_quarantine, _take_off_record
from eval_pipeline.records import (
    ExtractionCase,
    IndexReport,
    Judgement,
    JudgeRequest,
    SpotCheck,
    Tokens,
    Verdict,
)
from eval_pipeline.store.keys import add_texts, keys_of
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
    added: Sequence[Line[Any]] = ()
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
        if part.part in ADDED_PARTS:
            part.n_rows = sum(line.record is not None for line in part.added)
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
    write_added(
        store,
        [
            (keys[delivery.run.run_id], delivery.run.run_id, part.part, delivery_key, part.added)
            for (delivery, part), delivery_key in zip(parts, delivery_keys, strict=True)
            if part.part in ADDED_PARTS
        ],
    )
    for delivery, part in parts:
        if (keys[delivery.run.run_id], part.part) in replaced:
            _take_off_record(store, part.content_hash, run_id=delivery.run.run_id)
        _add_quarantine(store, part.problems, content_hash=part.content_hash, dataset=delivery.run.dataset)


def _times_read_again(replaced: ReplacedParts, run_key: int, part: PartDelivery) -> int:
    """Bytes that are read once more may give other rows, and whatever was computed from them is due again.

    So is what was computed from deliveries that stand side by side, one of which came back.
    """
    if (run_key, part.part) not in replaced:
        return 0
    content_hash, times = replaced[run_key, part.part]
    return times + 1 if content_hash == part.content_hash or part.part in ADDED_PARTS else 0


# Judgements and what judges were sent are written beside what earlier deliveries left of the run: a delivery takes the
# place of what it names (ask, judge, season, purpose; the same requests) and of no more. One of which nothing is left
# is superseded.
# (run key, run, part, delivery key, lines)
Added = tuple[int, str, str, int, Sequence[Line[Any]]]


def read_added(part: str, path: Path) -> list[Line[Any]]:
    """The lines of the part, each thing said once."""
    if part == "judgements":
        return _once(read_judgements(path), _name_of_judgement, "judgement")
    return _once(read_judge_requests(path), lambda one: one.request, "request")


def _name_of_judgement(one: Judgement) -> Hashable:
    return (one.query_id, one.ask, one.judge, one.season, one.purpose, one.repeat or 0)


def _once(lines: Iterable[Line[Any]], name_of: Callable[[Any], Hashable], word: str) -> list[Line[Any]]:
    first: dict[Hashable, int] = {}
    found = []
    for line in lines:
        if line.record is not None:
            before = first.setdefault(name_of(line.record), line.number)
            if before != line.number:
                reason = f"the same {word} stands on line {before}: every {word} once"
                line = replace(line, record=None, reason=reason)
        found.append(line)
    return found


_JUDGEMENTS: Final = pa.schema(
    [
        ("run_key", pa.int32()),
        ("delivery_key", pa.int32()),
        ("row_no", pa.int32()),
        *((name, pa.string()) for name in ("query_id", "ask", "judge", "request", "status", "raw_answer")),
        *((name, pa.string()) for name in ("reason", "model", "version")),
        ("temperature", pa.float64()),
        *((name, pa.string()) for name in ("fingerprint", "prompt_version", "season")),
        *((name, pa.float64()) for name in ("prompt_tokens", "completion_tokens", "usd", "latency_ms")),
        ("attempts", pa.int32()),
        ("from_cache", pa.bool_()),
        ("repeat", pa.int32()),
        ("purpose", pa.string()),
    ]
)
_REQUESTS: Final = pa.schema(
    [
        ("run_key", pa.int32()),
        ("delivery_key", pa.int32()),
        ("row_no", pa.int32()),
        ("request", pa.string()),
        ("body", pa.string()),
    ]
)


def write_added(store: Store, parts: Sequence[Added]) -> None:
    """Write these parts of runs; call it in the transaction that has recorded their deliveries."""
    con = store.con
    for part, schema, row_of, write in (
        ("judgements", _JUDGEMENTS, _judgement_row, _write_judgements),
        ("requests", _REQUESTS, _request_row, _write_requests),
    ):
        added = [one for one in parts if one[2] == part]
        if not added:
            continue
        rows = [
            (run_key, delivery_key, line.number, *row_of(line.record))
            for run_key, _, _, delivery_key, lines in added
            for line in lines
            if line.record is not None
        ]
        columns = list(zip(*rows, strict=True)) or [()] * len(schema)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
        write(con, pa.table(arrays, schema=schema))
        _supersede_emptied(store, part, added)
    _note_judges(con, [run_key for run_key, _, part, *_ in parts if part == "judgements"])


def _judgement_row(one: Judgement) -> tuple[Any, ...]:
    usage = one.usage or Tokens()
    return (
        *(one.query_id, one.ask, one.judge, one.request, one.status, one.raw, one.reason, one.model),
        *(one.version, one.temperature, one.fingerprint, one.prompt_version, one.season),
        *(usage.prompt, usage.completion, one.usd, one.latency_ms, one.attempts),
        *(bool(one.from_cache), one.repeat or 0, one.purpose),
    )


def _request_row(one: JudgeRequest) -> tuple[Any, ...]:
    body = None if one.body is None else json.dumps(one.body, ensure_ascii=False, allow_nan=False)
    return (one.request, body)


def _write_judgements(con: Connection, rows: pa.Table) -> None:
    place = rows.column_names.index("query_id")
    con.register("new_rows", rows.set_column(place, "query_key", keys_of(con, "query", rows["query_id"])))
    con.execute(
        "create or replace temp table last_judgements as select run_key, max(judgement_no) as last_no "
        "from raw.judgements where run_key in (select run_key from new_rows) group by run_key"
    )
    con.execute(
        "delete from raw.judgements as old using "
        "(select distinct run_key, ask, judge, season, purpose from new_rows) as new "
        "where old.run_key = new.run_key and old.ask = new.ask and old.judge = new.judge "
        "and old.season is not distinct from new.season and old.purpose = new.purpose"
    )
    con.execute(
        "insert into raw.judgements by name select n.*, cast(coalesce(l.last_no, 0) + row_number() over "
        "(partition by n.run_key order by n.row_no) as integer) as judgement_no "
        "from new_rows n left join temp.last_judgements l on n.run_key = l.run_key order by n.run_key, n.row_no"
    )
    con.execute("drop table temp.last_judgements")
    con.unregister("new_rows")


def _write_requests(con: Connection, rows: pa.Table) -> None:
    add_texts(con, rows["body"])
    con.register("new_rows", rows)
    con.execute(
        "delete from raw.judge_requests as old using new_rows as new "
        "where old.run_key = new.run_key and old.request = new.request"
    )
    con.execute(
        "insert into raw.judge_requests by name select * exclude (body), md5_number(body) as body_key "
        "from new_rows order by run_key, row_no"
    )
    con.unregister("new_rows")


def _supersede_emptied(store: Store, part: str, added: Sequence[Added]) -> None:
    """Of what was delivered before, those deliveries stand on of which rows are left."""
    table = "judgements" if part == "judgements" else "judge_requests"
    store.con.execute(
        "update ledger.deliveries set superseded_at = $now where superseded_at is null and part = $part "
        "and list_contains($runs, run_id) and not list_contains($new, delivery_key) "
        f"and delivery_key not in (select delivery_key from raw.{table} where list_contains($keys, run_key))",
        {
            "now": store.clock(),
            "part": part,
            "runs": [run_id for _, run_id, *_ in added],
            "new": [delivery_key for *_, delivery_key, _ in added],
            "keys": [run_key for run_key, *_ in added],
        },
    )


def _note_judges(con: Connection, run_keys: Sequence[int]) -> None:
    """Whose judgements these runs have that may score them."""
    if not run_keys:
        return
    con.execute("delete from ledger.judges_of_runs where list_contains(?, run_key)", [list(run_keys)])
    con.execute(
        "insert into ledger.judges_of_runs select distinct run_key, judge from raw.judgements "
        "where purpose = 'main' and list_contains(?, run_key) order by all",
        [list(run_keys)],
    )
