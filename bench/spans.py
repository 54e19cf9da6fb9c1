"""How fast characters of retrieved and expected spans are counted, in multiples of one scan of the spans.

    python bench/spans.py [--runs 1000] [--queries 1000] [--hits 9] [--spans 1] [--rounds 3] [--work FOLDER]

The unit is `select count(*), sum(hash("start"))` over the stored spans of all hits; scan and definitions take turns
in one process and the best round of each counts. Prints a table and writes bench/results/spans.json. README.md says
more.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from history import Shape, write_history  # noqa: E402
from spine import Row, machine, run_step  # noqa: E402

COVER = "facts.span_cover"
OVERLAP = "metrics.span_overlap"
GOAL = 60


def bench(work: Path, shape: Shape, rounds: int) -> Iterator[Row]:
    """Every row, as it is measured."""
    bundle, store = work / "bundle", work / "store"
    write_history(bundle, shape)
    run_step("load", store, bundle)
    shutil.rmtree(bundle)
    measured = run_step("span passes", store, str(rounds))
    yield Row("one scan of the spans", measured.wall["scan"] * 1000, "ms")
    yield Row("characters covered and shared, written", measured.wall[COVER], "s")
    wall, cpu = measured.ratio((COVER,), "scan")
    yield Row("  in scans", wall, "×", GOAL, by_cpu=cpu)
    wall, cpu = measured.ratio((OVERLAP,), "scan")
    yield Row("span formulas from them, written", wall, "×", by_cpu=cpu)
    yield Row("peak memory", measured.peak_mb, "MB", 1500)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--hits", type=int, default=9)
    parser.add_argument("--spans", type=int, default=1, help="spans per hit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--work", type=Path, help="where to work; a temporary folder, removed afterwards, by default"
    )
    asked = parser.parse_args()
    shape = Shape(asked.runs, asked.queries, asked.hits, spans=asked.spans)
    work = (asked.work or Path(tempfile.mkdtemp(prefix="eval-pipeline-bench-"))).resolve()
    before = machine()
    print(f"{'':<44} {'measured':>14} {'by CPU':>6} {'goal':>6}")
    rows: list[Row] = []
    try:
        for row in bench(work, shape, asked.rounds):
            rows.append(row)
            print(row.line(), flush=True)
    finally:
        if asked.work is None:
            shutil.rmtree(work, ignore_errors=True)
    if before["load_average"] > (os.cpu_count() or 1):
        print(
            f"Others kept the machine busy (load {before['load_average']:.1f}): trust the ratios by CPU more."
        )
    target = HERE / "results" / "spans.json"
    target.parent.mkdir(exist_ok=True)
    found = [asdict(row) | {"verdict": row.verdict} for row in rows]
    document = {"shape": asdict(shape), "machine": before, "rows": found}
    target.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
