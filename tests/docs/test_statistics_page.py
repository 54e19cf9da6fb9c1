"""The numbers of docs/statistics.md are those of the functions that it describes."""

from __future__ import annotations

import math
import re
from pathlib import Path

from bench.intervals import CASES, chance_found, cover, p_by_counting, p_by_moves
from docs.build.figures import counted
from eval_pipeline.stats import resolution

PAGE = (Path(__file__).parents[2] / "docs/statistics.md").read_text("utf-8").replace("−", "-")


def rows(head: str) -> list[list[str]]:
    """The cells of the table that begins like this."""
    table = PAGE[PAGE.index(head) :].partition("\n\n")[0]
    return [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]


def whole(cell: str) -> int:
    return int(cell.replace(",", ""))


def test_the_intervals_of_the_page_are_those_of_the_product():
    for n, won, lost, *shown in rows("| queries | won | lost |"):
        found = counted(whole(won), whole(lost), whole(n))
        p_value = "<0.001" if found.p_value < 0.001 else f"{found.p_value:.3f}"
        interval = f"{found.ci_low:+.3f} to {found.ci_high:+.3f}"
        assert shown == [f"{found.delta:+.3f}", interval, p_value, f"{found.mde:.3f}"]


def test_the_margins_of_the_page_are_what_so_many_queries_resolve():
    for n, changing, shown, margin in rows("| queries | of them changing |"):
        half = whole(changing) // 2
        found = counted(half, half, whole(n), "greater")
        passed = resolution(found.standard_error, found.degrees)
        assert shown == f"{passed:.3f}"
        assert margin == f"{min(max(0.02, math.ceil(passed * 1000) / 1000), 0.05):.3f}"


def test_the_tables_of_the_page_are_what_the_bench_counts():
    sizes = {row[0]: row[1:] for row in rows("| n | this product |")}
    assert sizes["20"] == _size_of(20)
    (case,) = [one for one in CASES if one.name == "rare loss .03"]
    covered = cover(case, 20, draws=4_000)
    shown = {row[0]: row[1:3] for row in rows("| what happens |")}
    assert shown[case.name] == [f"{covered.student:.3f}", f"{covered.imagined:.3f}"]
    assert [one.name for one in CASES] == [name.replace("-", "−") for name in shown]
    assert re.search(r"--draws 4000`, seed 20260918", PAGE)


def _size_of(n: int) -> list[str]:
    return [f"{chance_found(n, p_value):.4f}" for p_value in (p_by_moves, p_by_counting)]
