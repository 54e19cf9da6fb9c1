"""Runs found by name, in run order, as attempts at their nights, with what is stored of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from eval_pipeline.errors import UnknownName
from eval_pipeline.store.open import Connection, first_value

_COLUMNS = (
    "n.run_key, n.run_id, d.dataset_id, n.suite, n.effective_night, n.has_golden_set, n.n_golden, n.n_results, "
    "n.n_missing, n.n_not_asked, n.n_failed, n.is_complete, n.is_last_complete, n.superseded_by"
)
_FROM = "from main.run_nights n join raw.datasets d using (dataset_key)"


@dataclass(frozen=True)
class NightRun:
    """A run as an attempt at its night; `is_last_complete` says that it counts as the night's answer.

    `has_golden_set` holds of extraction cases too, which need none.
    """

    run_key: int
    run_id: str
    dataset: str
    suite: str | None
    night: dt.date
    has_golden_set: bool
    n_golden: int
    n_results: int
    n_missing: int
    n_not_asked: int
    n_failed: int
    is_complete: bool
    is_last_complete: bool
    superseded_by: str | None


def previous_complete_runs(con: Connection, run_ids: Collection[str]) -> dict[str, str]:
    """Run → the answer of the last night before its own, in the same suite and dataset, where there is one."""
    rows = con.execute(
        "select own.run_id, n.run_id from main.run_nights n join main.run_nights own "
        "on n.dataset_key = own.dataset_key and n.suite is not distinct from own.suite "
        "where own.run_id in (select unnest(?)) and n.is_last_complete and (n.effective_night < own.effective_night "
        "or (n.effective_night = own.effective_night and n.own_night <> own.own_night "
        "and (n.ordered_at, n.run_id) < (own.ordered_at, own.run_id))) "
        "qualify row_number() over (partition by own.run_id "
        "order by n.effective_night desc, n.ordered_at desc, n.run_id desc) = 1",
        [sorted(run_ids)],
    ).fetchall()
    return dict(rows)


def attempts(con: Connection, run_ids: Collection[str] | None = None) -> dict[str, NightRun]:
    """Runs by id, or all of them in run order, each as an attempt at its night."""
    rows = con.execute(
        f"select {_COLUMNS} {_FROM} where $run_ids is null or list_contains($run_ids, n.run_id) "
        "order by n.ordered_at, n.run_id",
        {"run_ids": None if run_ids is None else sorted(run_ids)},
    ).fetchall()
    return {row[1]: NightRun(*row) for row in rows}


@dataclass(frozen=True)
class RunRow:
    """A run as the store knows it; `golden_key` is below 0 without a golden set, 0 where nothing is asked.

    `labels_of` are the chunker versions that the labels name, if the run has another one; empty if several inventories
    have the ids. Then `golden_key` is a variant of the golden set `delivered_key`, without chunk ids.
    """

    run_key: int
    run_id: str
    dataset: str
    golden_key: int
    delivered_key: int = 0
    labels_of: Sequence[str] | None = None


def find_run(con: Connection, run_id: str) -> RunRow:
    """The run, or an error with the closest names."""
    rows = con.execute(
        "select r.run_key, r.run_id, d.dataset_id, r.golden_key, r.delivered_key, r.labels_of "
        "from ledger.runs_in_order r join raw.datasets d using (dataset_key) where r.run_id = ?",
        [run_id],
    ).fetchall()
    if not rows:
        raise UnknownName("run", run_id, run_ids(con))
    return RunRow(*rows[0])


def run_ids(con: Connection) -> list[str]:
    """Every run, in run order."""
    rows = con.execute("select run_id from ledger.runs_in_order order by ordered_at, run_id").fetchall()
    return [run_id for (run_id,) in rows]


def is_without_results(con: Connection, run_key: int) -> bool:
    """Whether the run delivered extraction cases and no results: it was never meant to answer queries."""
    return bool(
        first_value(con, "select is_without_results from ledger.run_counts where run_key = ?", [run_key])
    )


def query_ids_of(con: Connection, run: RunRow) -> tuple[list[str], list[str], list[str]]:
    """(scored, missing, unknown): golden queries with a result and without, and results that no golden row knows."""
    golden = con.execute(
        "select i.query_id, r.query_key is not null from labels.query_details q "
        "join raw.query_ids i using (query_key) "
        "left join (select query_key from raw.results where run_key = ?) r using (query_key) "
        "where q.golden_key = ? order by q.query_no",
        [run.run_key, run.golden_key],
    ).fetchall()
    unknown = con.execute(
        "select i.query_id from raw.results r join raw.query_ids i using (query_key) where r.run_key = ? "
        "and r.query_key not in (select query_key from labels.queries where golden_key = ?) "
        "order by r.row_no",
        [run.run_key, run.golden_key],
    ).fetchall()
    scored = [query_id for query_id, has_result in golden if has_result]
    missing = [query_id for query_id, has_result in golden if not has_result]
    return scored, missing, [row[0] for row in unknown]


def computed_with(con: Connection, run: RunRow) -> dict[str, dict[str, Any]]:
    """Definition → the version and fingerprint that this run's values were computed with."""
    rows = con.execute(
        "select c.definition, d.version, c.fingerprint from ledger.cells c "
        "left join ledger.definitions d on d.name = c.definition and d.fingerprint = c.fingerprint "
        "where c.run_key = ? and c.source = ''",
        [run.run_key],
    ).fetchall()
    return {name: {"version": version, "fingerprint": fingerprint} for name, version, fingerprint in rows}
