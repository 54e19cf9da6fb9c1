"""What a changed formula costs: finding what is stale, previewing it, computing it, and showing it in Dagster.

    python bench/change.py [--runs 1000] [--queries 1000] [--hits 10] [--ledger 10000] [--rounds 3] [--work FOLDER]

Ratios are taken inside one run: both sides take turns in one process and the best round of each counts. Every step
runs in a process of its own. Prints a table and writes bench/results/change.json. README.md says what each row means.
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

from history import Shape, draw_questions, run_name, write_history, write_runs  # noqa: E402
from measured import Row, Step, measure, parser, run_step  # noqa: E402

FEW = 10
TRIES = 3


step = partial(run_step, "change_steps.py")


def bench(work: Path, shape: Shape, ledger: int, rounds: int) -> Iterator[Row]:
    """Every row, as it is measured."""
    few = Shape(**{**asdict(shape), "runs": FEW})
    yield from ledger_rows(work, few, ledger, rounds)
    bundle, store = work / "bundle", work / "store"
    write_history(bundle, shape)
    step("fill", store, bundle)
    passes = step("change", store, str(rounds))
    yield Row("one scan of the hits", passes.wall["scan"] * 1000, "ms")
    for name, title, goal in (
        ("formula", "one rank formula over all runs, written", 4),
        ("aggregates", "  its aggregates, with their history", None),
        ("preview", "plan --preview, without verdicts", 8),
    ):
        yield beyond_one_run(passes, name, title, goal)
    for name, title in (("formula", "the formula, from start to end"), ("preview", "the preview, likewise")):
        yield Row(title, passes.wall[name], "s")
    judging = passes.wall["preview with verdicts"] - passes.wall["preview"]
    yield Row("  verdicts of the newest pairs beside it", judging, "s")
    whole = step("apply", store)
    yield Row(f"apply over {shape.runs:,} runs, with events", whole.wall["apply"], "s", 40)
    yield Row("  of it Dagster", 100 * (1 - whole.wall["alone"] / whole.wall["apply"]), "%")


def beyond_one_run(passes: Step, name: str, title: str, goal: float | None) -> Row:
    """What all runs cost more than one does, in scans: opening, reading definitions and locking are left out."""
    clocks = (passes.wall, passes.cpu)
    wall, cpu = ((clock[name] - clock[f"{name}, one run"]) / clock["scan"] for clock in clocks)
    return Row(title, wall, "×", goal, by_cpu=cpu)


def ledger_rows(work: Path, few: Shape, ledger: int, rounds: int) -> Iterator[Row]:
    """Questions to a long ledger, and one stale run among few and among many."""
    small, large = work / "store-of-few", work / "store-of-many"
    write_history(work / "bundle-of-few", few)
    step("fill", small, work / "bundle-of-few")
    shutil.copytree(small, large)
    step("pad", large, str(ledger))
    asked = step("questions", large, str(rounds))
    cells = int(asked.wall["cells"])
    yield Row(f"status, {ledger:,} runs, {cells:,} cells", asked.wall["status"], "s", 2)
    yield Row(f"plan, {ledger:,} runs, {cells:,} cells", asked.wall["plan"], "s", 2)
    again = list(redeliveries(work, few))
    times = {store: step("one stale", store, *again).wall["one stale run"] for store in (small, large)}
    yield Row(f"one stale run in {ledger:,}, against in {FEW}", times[large] / times[small], "×", 1.5)


def redeliveries(work: Path, shape: Shape) -> Iterator[Path]:
    """The same run with other rows, several times."""
    drawn = draw_questions(shape)
    for number in range(TRIES):
        folder = work / f"again-{number}"
        write_runs(folder, shape, drawn, range(70_000 + number, 70_001 + number))
        made, wanted = folder / "runs" / run_name(70_000 + number), folder / "runs" / run_name(0)
        text = (made / "run.json").read_text("utf-8").replace(run_name(70_000 + number), run_name(0))
        (made / "run.json").write_text(text, "utf-8")
        made.rename(wanted)
        yield folder


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--ledger", type=int, default=10_000, help="runs in the ledger alone")
    asked = options.parse_args()
    shape = Shape(asked.runs, asked.queries, asked.hits)
    measure(
        "change",
        shape,
        lambda work: bench(work, shape, asked.ledger, asked.rounds),
        work=asked.work,
        ledger=asked.ledger,
    )


if __name__ == "__main__":
    main()
