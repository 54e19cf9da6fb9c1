"""Findings of the lint: what only the store can see, and where all of them are kept."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from eval_pipeline.ingest.problems import printable
from eval_pipeline.store.connect import Connection


@dataclass(frozen=True)
class RankFault:
    """Rank fields of one run that are not the places of their hits; the first of them, and in how many queries."""

    counts_from_zero: bool
    n_queries: int
    query_id: str
    place: int
    rank: float


def stale_labels(con: Connection) -> list[tuple[str, str, list[str]]]:
    """(dataset, query id, expected chunks that no current inventory of the dataset has), in golden order.

    A dataset without any inventory has no stale labels: there is nothing to hold them against.
    """
    return con.execute(
        "with archives as (select d.dataset_key, a.archive_key from raw.archives a join raw.datasets d "
        "on a.dataset_key = d.dataset_key or (a.dataset_key is null and not exists (from raw.archives own "
        "where own.dataset_key = d.dataset_key and own.chunker_version = a.chunker_version)) "
        "where a.superseded_at is null), "
        "known as (select distinct v.dataset_key, c.chunk_key from archives v "
        "join raw.archive_chunks c using (archive_key)) "
        "select d.dataset_id, i.query_id, list(c.chunk_id order by e.item_no) from labels.golden_sets g "
        "join raw.datasets d on d.dataset_key = g.dataset_key "
        "join labels.expected_chunks e on e.golden_key = g.golden_key "
        "join labels.query_details q on q.golden_key = g.golden_key and q.query_key = e.query_key "
        "join raw.query_ids i on i.query_key = e.query_key join raw.chunk_ids c on c.chunk_key = e.chunk_key "
        "anti join known k on k.dataset_key = g.dataset_key and k.chunk_key = e.chunk_key "
        "where g.superseded_at is null and g.dataset_key in (select dataset_key from archives) "
        "group by d.dataset_id, i.query_id, q.query_no order by d.dataset_id, q.query_no"
    ).fetchall()


def rank_faults(con: Connection, run_ids: Sequence[str]) -> dict[str, RankFault]:
    """The runs among these whose hits carry a rank that is not their place."""
    keys = con.execute(
        "select run_key from raw.runs where run_id in (select unnest(?))", [list(run_ids)]
    ).fetchall()
    if not keys:
        return {}
    run_keys = sorted(key for (key,) in keys)
    rows = con.execute(
        "with ranked as (select run_key, query_key, rank, delivered_rank from raw.hits "
        "where run_key between $first and $last and run_key in (select unnest($keys)) "
        "and delivered_rank is not null), "
        "odd as (select run_key, query_key, min(rank) as place, arg_min(delivered_rank, rank) as delivered_rank "
        "from ranked where delivered_rank <> rank group by run_key, query_key), "
        "zero as (select run_key, bool_and(delivered_rank = rank - 1) as is_zero from ranked group by run_key), "
        "placed as (select o.run_key, x.row_no, o.query_key, o.place, o.delivered_rank "
        "from odd o join raw.results x on x.run_key = o.run_key and x.query_key = o.query_key "
        "where x.run_key between $first and $last) "
        "select r.run_id, z.is_zero, count(*), arg_min(i.query_id, p.row_no), arg_min(p.place, p.row_no), "
        "arg_min(p.delivered_rank, p.row_no) from placed p join zero z using (run_key) "
        "join raw.runs r using (run_key) join raw.query_ids i on i.query_key = p.query_key "
        "group by r.run_id, z.is_zero order by r.run_id",
        {"keys": run_keys, "first": run_keys[0], "last": run_keys[-1]},
    ).fetchall()
    return {run_id: RankFault(*fault) for run_id, *fault in rows}


def drop_findings(
    con: Connection,
    *,
    datasets: Sequence[str] | None = None,
    run_ids: Sequence[str] | None = None,
    rule: str | None = None,
) -> None:
    """Forget what was found in these golden sets, in these runs, or by this rule."""
    con.execute(
        "delete from ledger.lint where list_contains($datasets, dataset_id) or list_contains($run_ids, run_id) "
        "or rule = $rule",
        {"datasets": list(datasets or ()), "run_ids": list(run_ids or ()), "rule": rule},
    )


def add_findings(con: Connection, rows: Sequence[tuple[str | None, ...]], *, now: dt.datetime) -> None:
    """Keep (rule, query id, finding, decision, dataset, run id)."""
    if not rows:
        return
    table = pa.table(
        {
            name: pa.array([None if text is None else printable(text) for text in column], pa.string())
            for name, column in zip(_COLUMNS, zip(*rows, strict=True), strict=True)
        }
    )
    con.register("new_findings", table)
    con.execute("insert into ledger.lint by name select *, ? as found_at from new_findings", [now])
    con.unregister("new_findings")


def count_findings(con: Connection) -> int:
    """How many findings stand now."""
    return int(con.execute("select count(*) from ledger.lint").fetchall()[0][0])


def known_findings(
    con: Connection, *, datasets: Sequence[str] | None = None, run_ids: Sequence[str] | None = None
) -> list[tuple[Any, ...]]:
    """(rule, query id, finding, decision, dataset, run id) of these golden sets or runs, or of all."""
    return con.execute(
        f"select {', '.join(_COLUMNS)} from ledger.lint "
        "where ($datasets is null and $run_ids is null) or list_contains($datasets, dataset_id) "
        "or list_contains($run_ids, run_id) "
        "order by dataset_id nulls last, run_id, rule, query_id, finding",
        {
            "datasets": None if datasets is None else list(datasets),
            "run_ids": None if run_ids is None else list(run_ids),
        },
    ).fetchall()


_COLUMNS = ("rule", "query_id", "finding", "decision", "dataset_id", "run_id")
