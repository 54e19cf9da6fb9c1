"""How large the page of a suite of many nights is, and what making it costs.

    python -m bench.suite_page [--runs 1000] [--queries 500] [--rounds 3] [--store FOLDER]

All definitions are computed for all nights, and every fiftieth night is judged by the gate; then the page is made, with
a baseline. Prints its size and the least processor time of some rounds.
"""

from __future__ import annotations

import argparse
import datetime as dt
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from bench.history import Shape, write_history
from eval_pipeline.comparing.gate import gate
from eval_pipeline.comparing.stored import keep_verdict
from eval_pipeline.computing.measure import measure
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.report.pages.collect import suite_page, write_page
from eval_pipeline.settings import load_settings
from eval_pipeline.store.project import Project
from eval_pipeline.store.runs import run_ids
from tests.projects import project_of

MOST_BYTES = 2_000_000
MOST_SECONDS = 20
JUDGED_EVERY = 50


def project_in(store: Path) -> Project:
    """A store in this folder, with a baseline, whatever the environment says."""
    config = store / "eval-pipeline.toml"
    config.write_text('[baselines]\nnightly = "run-00000"\n', "utf-8")
    settings = replace(load_settings({}, db=store / "e.duckdb"), config=config)
    return project_of(settings, now=dt.datetime.now(dt.UTC).replace(tzinfo=None))


def prepare(store: Path, shape: Shape) -> None:
    """Load, compute and judge."""
    store.mkdir(parents=True, exist_ok=True)
    project = project_in(store)
    with tempfile.TemporaryDirectory() as bundle:
        write_history(Path(bundle), shape)
        load_bundles([Path(bundle)], project)
    measure(project, reasons=None)
    with project.read() as read:
        runs = run_ids(read.con)
    for place in range(1, len(runs), JUDGED_EVERY):
        keep_verdict(project, gate(project, runs[place], runs[place - 1]))


def seconds_of(store: Path) -> float:
    """Processor time of making the page once."""
    started = time.process_time()
    write_page(suite_page(project_in(store)), store / "suite.html")
    return time.process_time() - started


def said(name: str, value: float, unit: str, goal: float | None = None) -> str:
    """A line of the table."""
    met = "" if goal is None else f"  goal {goal:,g}: {'met' if value <= goal else 'MISSED'}"
    return f"{name:<16} {value:>12,.1f} {unit}{met}"


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--runs", type=int, default=1_000)
    options.add_argument("--queries", type=int, default=500)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--store", type=Path, help="where the store is kept, or is already")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="eval-pipeline-bench-") as folder:
        store = asked.store or Path(folder)
        if not (store / "e.duckdb").exists():
            prepare(store, Shape(asked.runs, asked.queries))
        seconds = min(seconds_of(store) for _ in range(asked.rounds))
        size = (store / "suite.html").stat().st_size
    print(said("the page", size / 1000, "kB", MOST_BYTES / 1000))
    print(said("processor time", seconds, "s", MOST_SECONDS))


if __name__ == "__main__":
    main()
