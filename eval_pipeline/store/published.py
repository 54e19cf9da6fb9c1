"""When the numbers of the newest runs were made: what published pages are held against."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

from eval_pipeline.store.connect import Connection, first_value


class ComputedRun(NamedTuple):
    """A run, its suite, and when the last of its tables was computed."""

    run_id: str
    suite: str | None
    made_at: dt.datetime


def computed_recently(con: Connection) -> list[ComputedRun]:
    """Those of the newest runs that are computed, in run order; the newest runs are set up already."""
    rows = con.execute(
        "select r.run_id, r.suite, max(c.computed_at) from temp.recent_runs r join ledger.cells c using (run_key) "
        "group by r.run_id, r.suite, r.ordered_at order by r.ordered_at, r.run_id"
    ).fetchall()
    return [ComputedRun(*row) for row in rows]


def stored_recently(con: Connection) -> list[tuple[str, str, dt.datetime]]:
    """The stored comparisons of the newest runs that are wanted now, with when they were made."""
    return con.execute(
        "select a.run_id, r.run_id, p.computed_at from comparisons.pairs p "
        "join temp.wanted_pairs w on w.run_a_key = p.run_a_key and w.run_b_key = p.run_b_key "
        "join temp.recent_runs r on r.run_key = p.run_b_key join raw.runs a on a.run_key = p.run_a_key "
        "order by r.ordered_at, r.run_id, a.run_id"
    ).fetchall()


def recent_verdict(con: Connection) -> dt.datetime | None:
    """When the last gate about one of the newest runs was judged."""
    found: dt.datetime | None = first_value(
        con,
        "select max(judged_at) from comparisons.gates where run_b_key in (select run_key from temp.recent_runs)",
    )
    return found
