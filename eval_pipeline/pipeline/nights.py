"""Which run stands for a night: the last attempt of the night that is complete.

The rules are those of the view `main.run_nights`: attempts of a night are the runs of one suite, dataset and night; a
run is complete when every golden query it was asked has a result; a run that a complete one replaces is superseded.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from dataclasses import dataclass

from eval_pipeline.store.connect import Connection, first_row

_COLUMNS = (
    "n.run_key, n.run_id, d.dataset_id, n.suite, n.effective_night, n.has_golden_set, n.n_golden, n.n_results, "
    "n.n_missing, n.n_not_asked, n.n_failed, n.is_complete, n.is_last_complete, n.superseded_by"
)
_FROM = "from main.run_nights n join raw.datasets d using (dataset_key)"
NIGHT_ORDER = "n.effective_night, n.ordered_at, n.run_id"


@dataclass(frozen=True)
class NightRun:
    """A run as an attempt at its night; `is_last_complete` says that it counts as the night's answer."""

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


def last_complete_runs(con: Connection, suite: str | None, dataset: str) -> list[NightRun]:
    """The answer of every night of a suite on a dataset, oldest first; a night without one is left out."""
    rows = con.execute(
        f"select {_COLUMNS} {_FROM} where n.suite is not distinct from ? and d.dataset_id = ? "
        f"and n.is_last_complete order by {NIGHT_ORDER}",
        [suite, dataset],
    ).fetchall()
    return [NightRun(*row) for row in rows]


def suite_attempts(con: Connection, suite: str | None, dataset: str) -> list[NightRun]:
    """Every run of a suite on a dataset, in run order."""
    rows = con.execute(
        f"select {_COLUMNS} {_FROM} where n.suite is not distinct from ? and d.dataset_id = ? "
        "order by n.ordered_at, n.run_id",
        [suite, dataset],
    ).fetchall()
    return [NightRun(*row) for row in rows]


def previous_complete_run(con: Connection, run_id: str) -> str | None:
    """The answer of the last night before this run's own, in the same suite and dataset; None when there is none."""
    row = first_row(
        con,
        "select n.run_id from main.run_nights n join main.run_nights own on own.run_id = ? "
        "and n.dataset_key = own.dataset_key and n.suite is not distinct from own.suite "
        "where n.is_last_complete and (n.effective_night < own.effective_night "
        "or (n.effective_night = own.effective_night and n.own_night <> own.own_night "
        "and (n.ordered_at, n.run_id) < (own.ordered_at, own.run_id))) "
        "order by n.effective_night desc, n.ordered_at desc, n.run_id desc limit 1",
        [run_id],
    )
    return None if row is None else str(row[0])


def attempts(con: Connection, run_ids: Collection[str] | None = None) -> dict[str, NightRun]:
    """Runs by id, or all of them in run order, each as an attempt at its night."""
    rows = con.execute(
        f"select {_COLUMNS} {_FROM} where $run_ids is null or list_contains($run_ids, n.run_id) "
        "order by n.ordered_at, n.run_id",
        {"run_ids": None if run_ids is None else sorted(run_ids)},
    ).fetchall()
    return {row[1]: NightRun(*row) for row in rows}
