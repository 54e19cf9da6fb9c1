"""Older runs left on the definitions they were computed with (pins), and pins given up."""

from __future__ import annotations

from dataclasses import replace

from eval_pipeline.computing.history import drop_pins, pin_cells
from eval_pipeline.planning.plan import Selection, _find_stale_cells
from eval_pipeline.store.open import transaction
from eval_pipeline.store.project import Project


def pin_older(project: Project, selection: Selection, *, note: str | None = None) -> int:
    """Pin the stale cells of the selection's definitions and runs that are of runs before `selection.since`."""
    assert selection.since is not None
    everything = replace(selection, since=None, is_with_pinned=False)
    return pin_rest(project, selection, of=everything, note=note)


def pin_rest(
    project: Project, selection: Selection, *, of: Selection | None = None, note: str | None = None
) -> int:
    """Pin every stale cell (`of` these, when given) that is not in the selection.

    What is missing or delivered again is no old answer that could stay. Facts are never pinned: other formulas are
    computed from them, and would say that they rest on today's.
    """
    with project.write() as store:
        selected = _find_stale_cells(store, selection)
        stale = _find_stale_cells(store, of or Selection())
        cells = store.con.execute(
            f"select s.definition, s.source, s.run_key, s.stored_fingerprint from {stale.table} s "
            f"anti join {selected.table} using (definition, source, run_key) "
            "where s.reason not in ('missing', 'results') and not starts_with(s.definition, 'facts.')"
        ).fetchall()
        with transaction(store.con):
            pin_cells(store, cells, note=note)
    return len({(definition, run_key) for definition, _, run_key, _ in cells})


def release_pins(project: Project, selection: Selection) -> int:
    """Give up the pins in the selection: what they held is stale again."""
    with project.write() as store:
        stale = _find_stale_cells(store, replace(selection, is_with_pinned=True))
        cells = store.con.execute(
            f"select definition, source, run_key from {stale.table} where is_pinned"
        ).fetchall()
        with transaction(store.con):
            drop_pins(store.con, cells)
    return len({(definition, run_key) for definition, _, run_key in cells})
