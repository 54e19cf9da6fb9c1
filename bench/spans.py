"""How fast characters of retrieved and expected spans are counted, in multiples of one scan of the spans.

    python bench/spans.py [--runs 1000] [--queries 1000] [--hits 9] [--spans 1] [--rounds 3] [--work FOLDER]

The unit is `select count(*), sum(hash("start"))` over the stored spans of all hits; scan and definitions take turns
in one process and the best round of each counts. Prints a table and writes bench/results/spans.json. README.md says
more.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from history import Shape, write_history  # noqa: E402
from measured import Row, measure, parser, run_step  # noqa: E402

COVER = "facts.span_cover"
OVERLAP = "metrics.span_overlap"
GOAL = 60


def bench(work: Path, shape: Shape, rounds: int) -> Iterator[Row]:
    """Every row, as it is measured."""
    bundle, store = work / "bundle", work / "store"
    write_history(bundle, shape)
    run_step("spine_steps.py", "load", store, bundle)
    shutil.rmtree(bundle)
    measured = run_step("spine_steps.py", "span passes", store, str(rounds))
    yield Row("one scan of the spans", measured.wall["scan"] * 1000, "ms")
    yield Row("characters covered and shared, written", measured.wall[COVER], "s")
    wall, cpu = measured.ratio((COVER,), "scan")
    yield Row("  in scans", wall, "×", GOAL, by_cpu=cpu)
    wall, cpu = measured.ratio((OVERLAP,), "scan")
    yield Row("span formulas from them, written", wall, "×", by_cpu=cpu)
    yield Row("peak memory", measured.peak_mb, "MB", 1500)


def main() -> None:
    options = parser(__doc__, hits=9)
    options.add_argument("--spans", type=int, default=1, help="spans per hit")
    asked = options.parse_args()
    shape = Shape(asked.runs, asked.queries, asked.hits, spans=asked.spans)
    measure("spans", shape, lambda work: bench(work, shape, asked.rounds), work=asked.work)


if __name__ == "__main__":
    main()
