"""Comparisons and verdicts as stored: written and read pair by pair."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from eval_pipeline.comparing.documents import (
    IDENTICAL,
    MEANS,
    MODE,
    RATIO,
    TESTED,
    CompareReport,
    Counts,
    FallbackMetrics,
    GateReport,
    PartCompared,
    QueryVerdict,
    Tested,
)
from eval_pipeline.comparing.pair_states import PairInputs
from eval_pipeline.documents import UNSET, as_json
from eval_pipeline.errors import StoreError
from eval_pipeline.settings import Settings, product_version
from eval_pipeline.store.open import Connection, first_row, first_value, transaction
from eval_pipeline.store.project import Project, Store

TABLES: Final = ("pairs", "queries", "regressed_chunks", "deltas")
KIND_COLUMNS: Final = {
    "win": "wins",
    "loss": "losses",
    "draw": "draws",
    "rank_up": "rank_ups",
    "rank_down": "rank_downs",
    "not_applicable": "not_applicable",
    "not_comparable": "not_comparable",
    "regressions": "regressions",
}

PairKeys = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Made:
    """A comparison that is to be kept: its document, what it was made of, and how."""

    keys: PairKeys
    document: CompareReport
    inputs: PairInputs
    own_fingerprint: str
    seconds: float
    reason: str
    gate: GateReport | None = None


@dataclass(frozen=True, kw_only=True)
class StoredPair:
    """A stored comparison: what is kept of its document, in the same words, and how it came to be."""

    document: CompareReport
    seconds: float
    computed_at: dt.datetime
    dagster_run_id: str | None
    reason: str
    version: str
    gate: GateReport | None = None


def _write_comparison(store: Store, made: Made, *, dagster_run_id: str | None) -> None:
    """Replace what is stored of this pair; the caller's transaction."""
    con = store.con
    run_a_key, run_b_key = made.keys
    for table in TABLES:
        con.execute(
            f"delete from comparisons.{table} where run_a_key = ? and run_b_key = ?", [run_a_key, run_b_key]
        )
    _write_pair(store, made, dagster_run_id=dagster_run_id)
    _write_queries(con, made.keys, made.document.per_query)
    _write_deltas(con, made.keys, made.document)
    if made.gate is not None:
        _write_gate(store, made.keys, made.gate)


def _write_pair(store: Store, made: Made, *, dagster_run_id: str | None) -> None:
    document = made.document
    row = {
        "run_a_key": made.keys[0],
        "run_b_key": made.keys[1],
        "chunker_version_match": document.mode,
        "n_queries": len(document.per_query),
        "n_only_in_a": len(document.only_in_a),
        "n_only_in_b": len(document.only_in_b),
        **{KIND_COLUMNS[kind]: n for kind, n in document.counts.by_kind().items()},
        "causes": list(document.causes),
        "warnings": list(document.warnings),
        "own_fingerprint": made.own_fingerprint,
        "results_hash": made.inputs.results_hash,
        "labels_hash": made.inputs.labels_hash,
        "archive_hash": made.inputs.archive_hash,
        "parents_hash": made.inputs.parents_hash,
        "seconds": made.seconds,
        "computed_at": store.clock(),
        "dagster_run_id": dagster_run_id,
        "reason": made.reason,
        "product_version": product_version(),
        "trust": list(document.trust),
        "parts": json.dumps(as_json(document.parts), ensure_ascii=False, allow_nan=False),
    }
    columns = ", ".join(row)
    places = ", ".join(f"${column}" for column in row)
    store.con.execute(f"insert into comparisons.pairs ({columns}) values ({places})", row)


def _write_queries(con: Connection, keys: PairKeys, per_query: Sequence[QueryVerdict]) -> None:
    """In golden order; ids become keys by the store's own tables of ids."""
    if not per_query:
        return
    # Imported here, where rows are written: `status` opens this file, too, and has no need of it.
    import pyarrow as pa

    names = ("query_id", "kind", "regression", "a_hit_rank", "b_hit_rank", "note")
    kinds = (pa.string(), pa.string(), pa.bool_(), pa.int32(), pa.int32(), pa.string())
    columns = {
        name: pa.array([getattr(one, name) for one in per_query], kind)
        for name, kind in zip(names, kinds, strict=True)
    }
    lost = [(one.query_id, chunk_id) for one in per_query for chunk_id in one.regressed_chunk_ids]
    con.register(
        "judged_queries", pa.table({"query_no": pa.array(range(len(per_query)), pa.int32()), **columns})
    )
    con.execute(
        "insert into comparisons.queries select ?, ?, j.query_no, i.query_key, j.kind, j.regression, j.a_hit_rank, "
        "j.b_hit_rank, j.note from judged_queries j join raw.query_ids i using (query_id) order by j.query_no",
        list(keys),
    )
    con.unregister("judged_queries")
    if lost:
        pairs = {"query_id": [query for query, _ in lost], "chunk_id": [chunk for _, chunk in lost]}
        con.register("lost_chunks", pa.table(pairs))
        con.execute(
            "insert into comparisons.regressed_chunks select ?, ?, i.query_key, c.chunk_key from lost_chunks l "
            "join raw.query_ids i using (query_id) join raw.chunk_ids c using (chunk_id)",
            list(keys),
        )
        con.unregister("lost_chunks")


# What is kept of a test under its own name.
KEPT: Final = (*TESTED, "family", *RATIO, "verdict")


class _DeltaRow(NamedTuple):
    """One row of comparisons.deltas."""

    metric: str
    a_value: float | None
    b_value: float | None
    delta: float | None
    tested: Tested
    caveat: str | None = None
    is_fallback: bool = False

    def columns(self) -> dict[str, object]:
        """By the names of the table."""
        own = self._asdict()
        del own["tested"]
        said = {name: getattr(self.tested, name) for name in KEPT}
        return (
            own
            | {name: None if value is UNSET else value for name, value in said.items()}
            | {f"paired_{name}": getattr(self.tested, name) for name in MEANS}
        )


def _write_deltas(con: Connection, keys: PairKeys, document: CompareReport) -> None:
    a, b, caveats = document.aggregate_a, document.aggregate_b, document.caveats
    rows = [
        _DeltaRow(metric, a[metric], b[metric], document.delta_of(metric), tested, caveats.get(metric))
        for metric, tested in document.significance.items()
    ]
    fallback, by_span = document.fallback_metrics, document.fallback_significance or {}
    if fallback:
        rows += [
            _DeltaRow(
                metric, fallback.a[metric], fallback.b[metric], delta, by_span[metric], is_fallback=True
            )
            for metric, delta in fallback.deltas.items()
        ]
    if not rows:
        return
    import pyarrow as pa

    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in _DELTAS.items()])
    con.register("moved_metrics", pa.Table.from_pylist([row.columns() for row in rows], schema=schema))
    con.execute(
        "insert into comparisons.deltas (run_a_key, run_b_key, "
        + ", ".join(_DELTAS)
        + ") select ?, ?, "
        + ", ".join(_DELTAS)
        + " from moved_metrics",
        list(keys),
    )
    con.unregister("moved_metrics")


_DELTAS: Final = {
    "metric": "string",
    "is_fallback": "bool",
    **dict.fromkeys(("a_value", "b_value", "delta", "ci_low", "ci_high", "p_value", "p_adjusted"), "float64"),
    "test": "string",
    "n": "int32",
    "mde": "float64",
    "caveat": "string",
    "adjusted_as": "string",
    "family": "string",
    **dict.fromkeys((*(f"paired_{name}" for name in MEANS), *RATIO), "float64"),
    "verdict": "string",
}


def _write_gate(store: Store, keys: PairKeys, document: GateReport) -> bool:
    """Keep this as the last verdict about the pair; False where it is the one that is kept already."""
    con = store.con
    text = json.dumps(as_json(document), ensure_ascii=False, allow_nan=False)
    if _stored_gate_text(con, keys) == text:
        return False
    con.execute("delete from comparisons.gates where run_a_key = ? and run_b_key = ?", list(keys))
    con.execute(
        "insert into comparisons.gates values (?, ?, ?, ?, ?)", [*keys, document.verdict, text, store.clock()]
    )
    return True


def _stored_gate_text(con: Connection, keys: PairKeys) -> str | None:
    """The last verdict about the pair as it is kept."""
    row = first_row(
        con, "select document from comparisons.gates where run_a_key = ? and run_b_key = ?", list(keys)
    )
    return None if row is None else str(row[0])


def _read_gate(text: str) -> GateReport:
    """A verdict as this or an older version kept it; what older ones did not say is as it was then."""
    return msgspec.json.decode(text, type=GateReport)


def gate_verdicts(con: Connection, run_keys: Collection[int]) -> dict[int, GateReport]:
    """Candidate → its last verdict, of whatever baseline."""
    rows = con.execute(
        "select run_b_key, document from comparisons.gates where run_b_key in (select unnest(?)) "
        "order by judged_at, run_a_key",
        [list(run_keys)],
    ).fetchall()
    return {key: _read_gate(document) for key, document in rows}


def _find_keys(con: Connection, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], PairKeys]:
    """The keys of those pairs whose runs are both in the store."""
    named = sorted({run_id for pair in pairs for run_id in pair})
    known = dict(
        con.execute(
            "select run_id, run_key from raw.runs where run_id in (select unnest(?))", [named]
        ).fetchall()
    )
    return {(a, b): (known[a], known[b]) for a, b in pairs if a in known and b in known}


def _are_there(con: Connection, keys: PairKeys) -> bool:
    """Whether both runs are still in the store."""
    row = first_row(
        con, "select count(*) from raw.runs where run_key in (select unnest(?))", [sorted(set(keys))]
    )
    return row is not None and row[0] == len(set(keys))


def stored_pairs(con: Connection, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], StoredPair]:
    """Those of these pairs that are stored, as people look at them."""
    keys = _find_keys(con, pairs)
    return {pair: stored for pair in pairs if pair in keys and (stored := _read(con, pair, keys[pair]))}


def _read(con: Connection, pair: tuple[str, str], keys: PairKeys) -> StoredPair | None:
    row = first_row(
        con,
        f"select {', '.join(KIND_COLUMNS.values())}, chunker_version_match, causes, warnings, trust, parts, seconds, "
        "computed_at, dagster_run_id, reason, "
        "md5(concat_ws(' ', own_fingerprint, results_hash, labels_hash, archive_hash, parents_hash)) "
        "from comparisons.pairs where run_a_key = ? and run_b_key = ?",
        list(keys),
    )
    if row is None:
        return None
    kinds, others = row[: len(KIND_COLUMNS)], row[len(KIND_COLUMNS) :]
    mode, causes, warnings, trust, parts, *rest = others
    kept = _read_deltas(con, keys)
    document = CompareReport(
        run_a=pair[0],
        run_b=pair[1],
        aggregate_a={one.metric: one.a_value for one in kept if not one.is_fallback},
        aggregate_b={one.metric: one.b_value for one in kept if not one.is_fallback},
        deltas={MODE: mode, **{one.metric: one.delta for one in kept if not one.is_fallback}},
        per_query=_read_queries(con, pair),
        counts=Counts(**dict(zip(KIND_COLUMNS, kinds, strict=True))),
        causes=causes,
        warnings=warnings,
        fallback_metrics=_fallback_of(kept),
        significance={one.metric: one.tested for one in kept if not one.is_fallback},
        caveats={one.metric: one.caveat for one in kept if one.caveat and not one.is_fallback},
        fallback_significance={one.metric: one.tested for one in kept if one.is_fallback} or None,
        parts=msgspec.json.decode(parts, type=dict[str, PartCompared]) if parts else {},
        trust=trust or [],
    )
    gate = _stored_gate_text(con, keys)
    seconds, computed_at, dagster_run_id, reason, version = rest
    return StoredPair(
        document=document,
        seconds=seconds,
        computed_at=computed_at,
        dagster_run_id=dagster_run_id,
        reason=reason,
        version=version,
        gate=None if gate is None else _read_gate(gate),
    )


def _read_deltas(con: Connection, keys: PairKeys) -> list[_DeltaRow]:
    names = ("metric", "a_value", "b_value", "delta", "caveat", "is_fallback")
    rows = con.execute(
        f"select {', '.join([*names, *(f'paired_{name}' for name in MEANS), *KEPT])} from comparisons.deltas "
        "where run_a_key = ? and run_b_key = ?",
        list(keys),
    ).fetchall()
    return [
        _DeltaRow(**dict(zip(names, row, strict=False)), tested=_tested_of(row[len(names) :])) for row in rows
    ]


def _tested_of(row: Sequence[Any]) -> Tested:
    said = dict(zip((*MEANS, *KEPT), row, strict=True))
    if said["ratio"] is None:
        said |= dict.fromkeys(RATIO, UNSET)
    return Tested(**said, is_identical=said["test"] == IDENTICAL)


def _fallback_of(kept: Sequence[_DeltaRow]) -> FallbackMetrics | None:
    rows = [one for one in kept if one.is_fallback]
    if not rows:
        return None
    return FallbackMetrics(
        a={one.metric: one.a_value for one in rows},
        b={one.metric: one.b_value for one in rows},
        deltas={one.metric: one.delta for one in rows},
    )


def _read_queries(con: Connection, pair: tuple[str, str]) -> list[QueryVerdict]:
    names = ("query_id", "kind", "regression", "regressed_chunk_ids", "a_hit_rank", "b_hit_rank", "note")
    rows = con.execute(
        f"select {', '.join(names)} from main.comparison_queries where run_a = ? and run_b = ? order by query_no",
        list(pair),
    ).fetchall()
    return [QueryVerdict(**dict(zip(names, row, strict=True))) for row in rows]


def compared_by(con: Connection, dagster_run_ids: Collection[str]) -> list[tuple[str, str]]:
    """The pairs that these Dagster runs compared."""
    return con.execute(
        "select a.run_id, b.run_id from comparisons.pairs p join raw.runs a on a.run_key = p.run_a_key "
        "join raw.runs b on b.run_key = p.run_b_key where p.dagster_run_id in (select unnest(?)) "
        "order by b.run_id, a.run_id",
        [list(dagster_run_ids)],
    ).fetchall()


def keep_verdict(project: Project, document: GateReport) -> bool:
    """Keep a verdict as the last one about its pair; a store that cannot be written is no reason not to judge."""
    pair = (document.baseline, document.candidate)
    if pair[0] == pair[1] or not _can_be_written(project.settings):
        return False
    try:
        with project.write() as store, transaction(store.con):
            keys = _find_keys(store.con, [pair])
            return pair in keys and _write_gate(store, keys[pair], document)
    except StoreError as error:
        if project.notify:
            project.notify(f"the verdict is not kept: {error}")
        return False


def _can_be_written(settings: Settings) -> bool:
    return os.access(settings.db, os.W_OK) and os.access(settings.db.parent, os.W_OK)


def troubled_gates(con: Connection) -> int:
    """How many verdicts of the gate, in all of history, are anything but a pass."""
    return int(first_value(con, "select count(*) from comparisons.gates where verdict <> 'pass'"))
