"""Load a bundle and compute it, and be killed at a chosen statement: python killed_at.py DEFINITIONS DB BUNDLE STATEMENT.

DEFINITIONS is the folder of those that count as shipped. STATEMENT counts what is sent to DuckDB; 0 lets everything through and prints how many statements that were.
"""

from __future__ import annotations

import math
import os
import signal
import sys
from pathlib import Path
from typing import Any

import duckdb

from eval_pipeline.computing import measure as measure_module
from eval_pipeline.settings import Settings
from tests.bundle_files import compute, load, settings_in
from tests.few_definitions import shipping


class Counting:
    """A connection that kills its process, as the system would, before the chosen statement."""

    sent = 0

    def __init__(self, con: Any, fatal: int) -> None:
        self._con, self._fatal = con, fatal

    def execute(self, *arguments: Any) -> Any:
        Counting.sent += 1
        if Counting.sent == self._fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return self._con.execute(*arguments)

    def cursor(self) -> Counting:
        return Counting(self._con.cursor(), self._fatal)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._con, name)


def load_and_compute(settings: Settings, bundle: Path) -> None:
    load(settings, bundle)
    compute(settings)


def main() -> None:
    definitions, db, bundle, fatal = *map(Path, sys.argv[1:4]), int(sys.argv[4])
    connect = duckdb.connect
    duckdb.connect = lambda *arguments, **options: Counting(connect(*arguments, **options), fatal)  # type: ignore
    # A turn ends by the clock, and every further one costs statements: on a busy machine there would be more to count.
    measure_module.TURN_SECONDS = math.inf
    with shipping(definitions):
        load_and_compute(settings_in(db.parent), bundle)
    print(Counting.sent)


if __name__ == "__main__":
    main()
