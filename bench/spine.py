"""How fast the way from hits to aggregates is over a history, and how much memory it takes.

    python bench/spine.py [--runs 1000] [--queries 1000] [--hits 10] [--rounds 3] [--work FOLDER]

Ratios are taken inside one run: both sides take turns in one process and the best round of each counts. Every step
runs in a process of its own, whose peak memory is noted. Prints a table and writes bench/results/spine.json. README.md
says what each row means.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from history import Shape, draw_questions, run_name, write_history, write_one_file, write_runs  # noqa: E402
from measured import Row, Step, measure, parser, run_step  # noqa: E402

FEW = 10
RANK_FACTS = ("facts.found_chunks", "facts.chunk_ranks", "facts.document_ranks")
RANK_FORMULAS = ("metrics.hit_at_k", "metrics.reciprocal_rank", "metrics.recall_at_k_doc")
FROM_HITS = ("facts.repeated_hits", "facts.chunk_ranks", "facts.document_ranks", *RANK_FORMULAS)


step = partial(run_step, "spine_steps.py")


def bench(work: Path, shape: Shape, rounds: int) -> Iterator[Row]:
    """Every row, as it is measured."""
    bundle, store = work / "bundle", work / "store"
    write_history(bundle, shape)
    hits = shape.runs * shape.queries * shape.hits
    many = step("load", store, bundle)
    yield Row("load, JSON Lines, a folder per run", hits / many.wall["load"] / 1e6, "M/s", 0.8, at_least=True)
    write_one_file(work / "one-file", shape, draw_questions(shape))
    one = step("load", work / "store-of-one-file", work / "one-file")
    cpu = many.cpu["load"] / one.cpu["load"]
    yield Row(
        "… against the same rows in one file", many.wall["load"] / one.wall["load"], "×", 2.5, by_cpu=cpu
    )
    shutil.rmtree(work / "one-file")
    shutil.rmtree(work / "store-of-one-file")
    passes = step("passes", store, bundle, str(rounds))
    yield from passes_rows(passes)
    whole = step("measure", store)
    yield Row("all definitions over the history", whole.wall["measure"], "s", 60)
    asked = step("status", store)
    yield Row("status", asked.wall["status"], "s", 1)
    grown, young = one_more_run(work, shape, store)
    yield Row(f"one more run at {shape.runs:,}, against at {FEW}", grown / young, "×", 1.3)
    commands = step("shell", work / "store-of-few", run_name(0))
    yield Row("eval-pipeline --help", commands.wall["help"], "s", 0.3)
    yield Row("eval-pipeline show, small store", commands.wall["show"], "s", 0.5)
    steps = {"load": many, "load of one file": one, "passes": passes, "measure": whole, "status": asked}
    worst = max(steps, key=lambda name: steps[name].peak_mb)
    yield Row(f"peak memory, in {worst}", steps[worst].peak_mb, "MB", 1500)


def passes_rows(step: Step) -> Iterator[Row]:
    """The rows that are multiples of a scan, and the peer."""
    yield Row("one scan of the hits", step.wall["scan"] * 1000, "ms")
    wall, cpu = step.ratio(RANK_FACTS, "scan")
    yield Row("raw hits to rank facts, written", wall, "×", 25, by_cpu=cpu)
    for name in (*RANK_FACTS, "facts.retrieved_chunks"):
        wall, cpu = step.ratio((name,), "scan")
        yield Row(f"  {name}", wall, "×", by_cpu=cpu)
    wall, cpu = step.ratio(RANK_FORMULAS, "scan")
    yield Row("rank formulas from facts, written", wall, "×", 6, by_cpu=cpu)
    for name in RANK_FORMULAS:
        wall, cpu = step.ratio((name,), "scan")
        yield Row(f"  {name}", wall, "×", by_cpu=cpu)
    wall, cpu = step.ratio(("aggregates",), "metric scan")
    yield Row("aggregates with slices, in metric scans", wall, "×", 15, by_cpu=cpu)
    for name, title, goal in (
        ("peer", "pytrec_eval from the files", 30),
        ("peer kernel", "  its kernel alone", None),
    ):
        wall, cpu = step.ratio(FROM_HITS, f"{name}, all runs")
        yield Row(f"{title}, in our passes", 1 / wall, "×", goal, at_least=True, by_cpu=1 / cpu)


def one_more_run(work: Path, shape: Shape, store: Path) -> tuple[float, float]:
    """Seconds to load and score one run more in the whole store and in one of few runs, in turns."""
    questions = draw_questions(shape)
    small = Shape(**{**asdict(shape), "runs": FEW})
    write_history(work / "bundle-of-few", small)
    step("load", work / "store-of-few", work / "bundle-of-few")
    step("measure", work / "store-of-few")
    found = {store: float("inf"), work / "store-of-few": float("inf")}
    for number in range(3):
        extra = work / f"extra-{number}"
        write_runs(extra, shape, questions, range(50_000 + number, 50_001 + number))
        for place in found:
            found[place] = min(found[place], step("one more", place, extra).wall["one more"])
    return found[store], found[work / "store-of-few"]


def main() -> None:
    asked = parser(__doc__).parse_args()
    shape = Shape(asked.runs, asked.queries, asked.hits)
    measure("spine", shape, lambda work: bench(work, shape, asked.rounds), work=asked.work)


if __name__ == "__main__":
    main()
