"""What one more run of two queries sends to DuckDB: python bench/statements.py [--all] [--calls]

A store holds two such runs, loaded and computed; a third is loaded, and computed with every shipped definition. What is
sent by `execute` or `sql` meanwhile counts. A turn has no end by the clock, so that the figure is the same on any
machine.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import math
import pstats
import re
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
from history import Shape, draw_questions, write_golden_set, write_runs
from spine_steps import now, settings_in

from eval_pipeline.computing import measure as measure_module
from eval_pipeline.computing.measure import measure
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.loading.load import load_bundles
from tests.projects import project_of

SHAPE = Shape(runs=3, queries=2, hits=10, answers=True, spans=1, supports=True)
WORDS = 4


class Counting:
    """A connection that notes what is sent."""

    def __init__(self, con: Any, sent: list[str]) -> None:
        self._con, self._sent = con, sent

    def execute(self, statement: str, *arguments: Any) -> Any:
        self._sent.append(statement)
        return self._con.execute(statement, *arguments)

    def sql(self, statement: str, *arguments: Any) -> Any:
        self._sent.append(statement)
        return self._con.sql(statement, *arguments)

    def cursor(self) -> Counting:
        return Counting(self._con.cursor(), self._sent)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._con, name)


def kind_of(statement: str) -> str:
    """Its first words, as far as they are the same for every definition."""
    words = " ".join(statement.split()).lower()
    words = re.sub(r'("store"|visible_rows|temp)\.', "", words)
    words = re.sub(r"\b(facts|metrics|aggregates|raw|labels)\.(\"[^\"]*\"|\w+)", r"\1.…", words)
    return " ".join(words.split()[:WORDS])


def take_in(folder: Path) -> None:
    """Load what is new in the bundle and compute it."""
    settings = settings_in(folder)
    registry = load_registry(settings)
    load_bundles([folder / "bundle"], project_of(settings, now=now()))
    measure(project_of(settings, registry, now=now()))


def prepare(folder: Path) -> None:
    """A store of the first runs, and the last run delivered beside them."""
    questions = draw_questions(SHAPE)
    write_golden_set(folder / "bundle", SHAPE, questions)
    write_runs(folder / "bundle", SHAPE, questions, range(SHAPE.runs - 1))
    take_in(folder)
    write_runs(folder / "next", SHAPE, questions, range(SHAPE.runs - 1, SHAPE.runs))
    shutil.rmtree(folder / "bundle")
    (folder / "next").rename(folder / "bundle")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="every statement, as it was sent")
    parser.add_argument("--calls", action="store_true", help="the Python functions that were called most")
    parser.add_argument("--json", action="store_true", help="the sum alone, for programs")
    options = parser.parse_args()
    measure_module.TURN_SECONDS = math.inf
    sent: list[str] = []
    connect = duckdb.connect
    duckdb.connect = lambda *given, **named: Counting(connect(*given, **named), sent)  # type: ignore
    profile = cProfile.Profile()
    with tempfile.TemporaryDirectory(prefix="eval-pipeline-bench-") as name:
        prepare(Path(name))
        sent.clear()
        if options.calls:
            profile.enable()
        take_in(Path(name))
        profile.disable()
    report(sent, profile, options)


def report(sent: list[str], profile: cProfile.Profile, options: argparse.Namespace) -> None:
    """What was asked for."""
    if options.json:
        print(json.dumps({"statements": len(sent)}))
        return
    for statement in sent if options.all else ():
        print(" ".join(statement.split())[:200])
    for kind, number in Counter(map(kind_of, sent)).most_common():
        print(f"{number:>6}  {kind}")
    print(f"{len(sent):>6}  statements")
    if options.calls:
        pstats.Stats(profile).sort_stats("ncalls").print_stats(40)


if __name__ == "__main__":
    main()
