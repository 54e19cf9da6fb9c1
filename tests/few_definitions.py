"""Some of the shipped definitions instead of all: what holds for a few holds for all of them, and is computed sooner.

As a program the command line with these definitions alone: python few_definitions.py FOLDER WORD…
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eval_pipeline.cli.main import main
from eval_pipeline.formulas import registry as registry_module
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.settings import load_settings, shipped_sql

# Some of every kind, and all that is said of whole runs: enough to compare, judge and show runs.
OF_EVERY_KIND = (
    *("facts.chunk_ranks", "facts.found_chunks", "facts.outcomes"),
    *("facts.extraction_outcomes", "facts.judgements", "facts.verdicts"),
    *(
        "metrics.answer_strings",
        "metrics.chunk_overlap",
        "metrics.citation_coverage",
        "metrics.empty_results",
    ),
    *(
        "metrics.failures",
        "metrics.hit_at_k",
        "metrics.judge_scores",
        "metrics.judge_usage",
        "metrics.latency",
    ),
    *("metrics.reciprocal_rank", "metrics.scores"),
    *("aggregates.extraction_summary", "aggregates.judge_summary", "aggregates.latency_summary"),
    "aggregates.run_metrics",
)


def write_few(folder: Path, *names: str) -> Path:
    """A shipped folder with these definitions, what they read and what they call."""
    shipped = load_registry(load_settings({}))
    shutil.copytree(shipped_sql() / "functions", folder / "functions")
    waiting = list(names)
    while waiting:
        one = shipped.definitions.get(waiting.pop())
        if one is not None:
            (folder / one.schema).mkdir(exist_ok=True)
            for path in (one.path, *modules_beside(one.path)):
                shutil.copyfile(path, folder / one.schema / path.name)
            waiting += one.reads
    return folder


def modules_beside(path: Path) -> list[Path]:
    """What formulas in Python may import: the modules of their folder that are no formulas."""
    others = path.parent.glob("*.py") if path.suffix == ".py" else []
    return [one for one in others if "@formula" not in one.read_text("utf-8")]


def program_with(folder: Path) -> list[str]:
    """How a process of its own runs the command line with the definitions of this folder as the shipped ones."""
    return [sys.executable, __file__, str(folder)]


@contextmanager
def shipping(folder: Path) -> Iterator[None]:
    """The definitions of this folder are the shipped ones."""
    # Written out, because pytest would be imported by every process that is started here.
    before = registry_module.shipped_sql, registry_module.PACKAGE  # type: ignore[attr-defined]
    registry_module.shipped_sql, registry_module.PACKAGE = (lambda: folder), folder  # type: ignore[attr-defined]
    try:
        yield
    finally:
        registry_module.shipped_sql, registry_module.PACKAGE = before  # type: ignore[attr-defined]


if __name__ == "__main__":
    with shipping(Path(sys.argv.pop(1))):
        main()
