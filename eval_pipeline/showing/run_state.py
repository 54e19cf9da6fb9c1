"""The state of a run in one word: fresh, stale, missing, waiting, implausible or incomplete."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from eval_pipeline.computing.states import States, states_of_cells
from eval_pipeline.showing.plausibility import IMPLAUSIBLE, implausible_runs
from eval_pipeline.store.project import Store
from eval_pipeline.store.runs import NightRun, attempts

WAITING: Final = "waiting"
MISSING: Final = "missing"
STALE: Final = "stale"
INCOMPLETE: Final = "incomplete"
FRESH: Final = "fresh"


def run_states(store: Store, run_ids: Collection[str] | None = None) -> dict[str, str]:
    """Run → the most urgent of its states, in run order, of these runs or of all."""
    runs = attempts(store.con, run_ids)
    keys = [run.run_key for run in runs.values()]
    if not keys:
        return {}
    unknown = implausible_runs(store.con, keys)
    due = _due(states_of_cells(store, runs=keys))
    return {
        run_id: IMPLAUSIBLE if run.run_key in unknown else due.get(run_id) or _as_an_attempt(run)
        for run_id, run in runs.items()
    }


def _due(cells: States) -> dict[str, str]:
    """Run → what is to be done with its tables; what is pinned or frozen stays as it is."""
    rows = cells.rows(
        "run_id, bool_or(reason = 'missing')", "reason is not null and not is_pinned group by run_id"
    )
    return {run_id: MISSING if is_missing else STALE for run_id, is_missing in rows}


def _as_an_attempt(run: NightRun) -> str:
    """A run without a golden set is scored by what needs none, and waits for the rest."""
    if not run.has_golden_set:
        return WAITING
    return FRESH if run.is_complete else INCOMPLETE
