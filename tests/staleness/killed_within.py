"""Apply what is stale, and be killed when the store is about to hear of one of its computations.

python killed_within.py DEFINITIONS PLACE [apply …]: DEFINITIONS is the folder of those that count as shipped, PLACE the
number of the computation. With words behind it the command line does it, through Dagster; without, the pipeline alone.
"""

from __future__ import annotations

import datetime as dt
import os
import signal
import sys
from pathlib import Path
from typing import Any

from eval_pipeline.cli.main import main
from eval_pipeline.computing import measure
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.settings import load_settings
from tests.few_definitions import shipping


def die_at(place: int) -> None:
    """Within that transaction: its rows are written, the ledger does not know them yet."""
    record, waiting = measure._record_cells, [place]

    def record_or_die(*arguments: Any, **options: Any) -> None:
        waiting[0] -= 1
        if not waiting[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        record(*arguments, **options)

    measure._record_cells = record_or_die


def apply() -> None:
    settings = load_settings()
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    measure.measure(settings, load_registry(settings), now=now, reasons=None, note="halved")


if __name__ == "__main__":
    _, definitions, place, *words = sys.argv
    die_at(int(place))
    with shipping(Path(definitions)):
        main(words) if words else apply()
