"""How soon the page of a pair of 1,000 questions paints, in units of an empty page of as many bytes.

    python -m bench.first_paint [--queries 1000] [--rounds 7]

Both in one headless Chromium and in turns; the best round of each counts. Needs Debian's chromium and chromium-driver.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench.history import Shape, run_name
from bench.view import build_store
from docs.build.screens import open_browser
from eval_pipeline.report.pages.collect import pair_page
from eval_pipeline.store.project import project_of

GOAL = 1.5
MOST_BYTES = 2_000_000
PAINT = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.first_paint", description=__doc__)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        settings = build_store(folder, Shape(runs=2, queries=asked.queries, answers=True))
        page, empty = folder / "pair.html", folder / "empty.html"
        page.write_text(pair_page(project_of(settings), run_name(0), run_name(1)), "utf-8")
        size = page.stat().st_size
        frame = "<!doctype html><html lang=en><title>empty</title><p>Nothing.</p><!--{}--></html>"
        empty.write_text(frame.format("x" * (size - len(frame) + 2)), "utf-8")
        ours, theirs = painted([page, empty], asked.rounds)
    print(f"{asked.queries:,} questions: {size / 1e6:.2f} MB (at most {MOST_BYTES / 1e6:.0f})")
    print(
        f"first paint {ours:.0f} ms, of an empty page {theirs:.0f} ms: {ours / theirs:.2f} times (goal {GOAL})"
    )
    return 0 if ours <= GOAL * theirs and size <= MOST_BYTES else 1


def painted(pages: list[Path], rounds: int) -> list[float]:
    """The soonest first paint of each, in milliseconds from the navigation's start."""
    browser = open_browser()
    best = [float("inf")] * len(pages)
    try:
        for _ in range(rounds):
            for place, page in enumerate(pages):
                browser.get(page.as_uri())
                found = browser.execute_script(PAINT)
                best[place] = min(best[place], float(found)) if found is not None else best[place]
    finally:
        browser.quit()
    return best


if __name__ == "__main__":
    sys.exit(main())
