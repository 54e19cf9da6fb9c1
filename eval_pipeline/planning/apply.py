"""Older runs left on the definitions they were computed with (pins), and pins given up."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from eval_pipeline.computing.history import drop_pins, pin_cells
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.planning.plan import Selection, _find_stale_cells
from eval_pipeline.settings import Settings, utc_now
from eval_pipeline.store.lock import Notify
from eval_pipeline.store.open import transaction
from eval_pipeline.store.project import Store, project_of


def pin_older(
    settings: Settings,
    registry: Registry,
    selection: Selection,
    *,
    note: str | None = None,
    now: dt.datetime | None = None,
    notify: Notify | None = None,
) -> int:
    """Pin the stale cells of the selection's definitions and runs that are of runs before `selection.since`."""
    assert selection.since is not None
    everything = replace(selection, since=None, is_with_pinned=False)
    return pin_rest(settings, registry, selection, of=everything, note=note, now=now, notify=notify)


def pin_rest(
    settings: Settings,
    registry: Registry,
    selection: Selection,
    *,
    of: Selection | None = None,
    note: str | None = None,
    now: dt.datetime | None = None,
    notify: Notify | None = None,
) -> int:
    """Pin every stale cell (`of` these, when given) that is not in the selection.

    What is missing or delivered again is no old answer that could stay. Facts are never pinned: other formulas are
    computed from them, and would say that they rest on today's.
    """
    stamp = now or utc_now()
    with project_of(settings, notify=notify).write() as store:
        con = store.con
        selected = _find_stale_cells(con, registry, selection)
        stale = _find_stale_cells(con, registry, of or Selection())
        cells = con.execute(
            f"select s.definition, s.source, s.run_key, s.stored_fingerprint from {stale.table} s "
            f"anti join {selected.table} using (definition, source, run_key) "
            "where s.reason not in ('missing', 'results') and not starts_with(s.definition, 'facts.')"
        ).fetchall()
        with transaction(con):
            pin_cells(Store(con, lambda: registry, lambda: stamp), cells, note=note)
    return len({(definition, run_key) for definition, _, run_key, _ in cells})


def release_pins(
    settings: Settings, registry: Registry, selection: Selection, *, notify: Notify | None = None
) -> int:
    """Give up the pins in the selection: what they held is stale again."""
    with project_of(settings, notify=notify).write() as store:
        con = store.con
        stale = _find_stale_cells(con, registry, replace(selection, is_with_pinned=True))
        cells = con.execute(
            f"select definition, source, run_key from {stale.table} where is_pinned"
        ).fetchall()
        with transaction(con):
            drop_pins(con, cells)
    return len({(definition, run_key) for definition, _, run_key in cells})
