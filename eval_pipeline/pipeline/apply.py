"""Leaving older runs on the definitions they were computed with."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from eval_pipeline.formulas.registry import Registry
from eval_pipeline.ingest.parts import parse_day
from eval_pipeline.pipeline.plan import Selection, plan_document
from eval_pipeline.settings import Settings
from eval_pipeline.store.connect import open_writer, transaction
from eval_pipeline.store.history import pin_cells
from eval_pipeline.store.lock import Tell


def pin_older(
    settings: Settings,
    registry: Registry,
    selection: Selection,
    *,
    note: str | None = None,
    now: dt.datetime | None = None,
    tell: Tell | None = None,
) -> int:
    """Pin the stale cells of runs before `selection.since`; what is missing or delivered anew is no old answer."""
    stamp = now or dt.datetime.now(dt.UTC).replace(tzinfo=None)
    assert selection.since is not None
    with open_writer(settings.db, tell=tell) as con:
        plan_document(con, registry, replace(selection, since=None))
        cells = con.execute(
            "select s.definition, s.source, s.run_key, s.stored_fingerprint from stale_cells s "
            "join raw.runs r using (run_key) where s.reason not in ('missing', 'results') "
            "and coalesce(r.created_at, r.first_loaded_at) < cast(? as timestamp)",
            [parse_day(selection.since).isoformat()],
        ).fetchall()
        with transaction(con):
            pin_cells(con, cells, now=stamp, note=note)
    return len({(definition, run_key) for definition, _, run_key, _ in cells})
