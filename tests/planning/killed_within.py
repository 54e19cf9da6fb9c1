"""Apply what is stale, and be killed when the store is about to hear of one of its computations."""

from __future__ import annotations

import datetime as dt

from eval_pipeline.computing.measure import measure
from eval_pipeline.settings import load_settings
from tests.faults.dying import die_at
from tests.prepared import command_line
from tests.projects import project_of

# Within that transaction: its rows are written, the ledger does not know them yet.
HEARS = 'delete from "store".ledger.cells'


def apply_until(place: int, *words: str) -> None:
    """Until the computation with this number; with words the command line does it, without the pipeline alone."""
    settings = load_settings()
    die_at(HEARS, place, settings.db.parent)
    if words:
        command_line(*words)
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    measure(project_of(settings, now=now), reasons=None, note="halved")
