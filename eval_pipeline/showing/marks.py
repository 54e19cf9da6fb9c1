"""Which values of a run are stale, missing, failed, pinned or frozen."""

from __future__ import annotations

from collections.abc import Sequence

from eval_pipeline.computing.ledger import FAILED
from eval_pipeline.computing.states import states_of_cells
from eval_pipeline.showing.run_report import TableState
from eval_pipeline.store.project import Store
from eval_pipeline.store.runs import RunRow

Mark = tuple[str, str | None]


def marks_of_runs(store: Store, run_keys: Sequence[int]) -> dict[int, dict[str, Mark]]:
    """run_key → definition → (state, reason), of what is not fresh; an aggregate's mark belongs to its formula."""
    with states_of_cells(store, runs=run_keys) as states:
        marked = states.rows(
            "run_key, case when source = '' then definition else source end, reason, is_pinned, is_frozen, failure",
            "(reason is not null or is_frozen) "
            "and (starts_with(definition, 'metrics.') or starts_with(definition, 'aggregates.')) "
            # A formula's own state comes before that of its aggregates.
            "order by run_key, source, definition",
        )
    found: dict[int, dict[str, Mark]] = {}
    for run_key, definition, reason, is_pinned, is_frozen, failure in marked:
        mark = ("missing", None) if reason == "missing" else ("pinned" if is_pinned else "stale", reason)
        if is_frozen:
            mark = ("frozen", "texts forgotten")
        elif failure:
            mark = (FAILED, failure)
        found.setdefault(run_key, {}).setdefault(definition, mark)
    return found


def states_of_run(store: Store, run: RunRow) -> list[TableState]:
    """The tables with values of the run that are not fresh."""
    marks = marks_of_runs(store, [run.run_key]).get(run.run_key, {})
    return [
        TableState(table=one.name, state=marks[one.name][0], reason=marks[one.name][1])
        for one in store.definitions()
        if one.name in marks and one.schema != "facts"
    ]
