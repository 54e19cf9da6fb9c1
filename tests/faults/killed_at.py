"""Load a bundle and compute a few definitions, and be killed at a chosen statement: python killed_at.py DB BUNDLE STATEMENT.

STATEMENT counts what is sent to DuckDB; 0 lets everything through and prints how many statements that were.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb

from eval_pipeline.formulas.registry import Registry, load_registry
from eval_pipeline.settings import Settings
from tests.bundle_files import compute, load, settings_in

SOME = ("metrics.hit_at_k", "metrics.answer_strings", "metrics.reciprocal_rank", "aggregates.run_metrics")


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

    def __getattr__(self, name: str) -> Any:
        return getattr(self._con, name)


def few(registry: Registry) -> Registry:
    """A few formulas and what they are computed from."""
    wanted: set[str] = set()
    waiting = list(SOME)
    while waiting:
        name = waiting.pop()
        if name in registry.definitions and name not in wanted:
            wanted.add(name)
            waiting += registry.definitions[name].reads
    return replace(registry, definitions={one.name: one for one in registry if one.name in wanted})


def load_and_compute(settings: Settings, bundle: Path) -> None:
    load(settings, bundle)
    compute(settings, few(load_registry(settings)))


def main() -> None:
    db, bundle, fatal = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    connect = duckdb.connect
    duckdb.connect = lambda *arguments, **options: Counting(connect(*arguments, **options), fatal)  # type: ignore
    load_and_compute(settings_in(db.parent), bundle)
    print(Counting.sent)


if __name__ == "__main__":
    main()
