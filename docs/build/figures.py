"""The pictures of docs/statistics.md, drawn from what the product's own functions say of counts of wins and losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

import numpy as np

from bench.intervals import student
from eval_pipeline.stats import PairedResult, compare_paired
from eval_pipeline.stats.results import Alternative

WIDTH: Final = 680
LEFT: Final = 250
RIGHT: Final = 655
ROW: Final = 34
MARGIN: Final = 0.02
QUERIES: Final = (100, 200, 400, 700, 1_000, 2_000, 4_000)
COVERED: Final = (20, 40, 60, 80, 100, 150, 200, 300, 400)
RARE: Final = 0.03
STYLE: Final = (
    "text{font:13px sans-serif;fill:#1f2328}.quiet{fill:#59636e}line,polyline{stroke:#0b63ce;stroke-width:2;fill:none}"
    "circle,text.blue{fill:#0b63ce}.axis{stroke:#59636e;stroke-width:1}.other{stroke:#c2410c}text.other{fill:#c2410c;"
    "stroke:none}.tick{text-anchor:middle}.dash{stroke-dasharray:4 3}@media (prefers-color-scheme:dark){text{fill:"
    "#e6edf3}.quiet{fill:#9da7b1}line,polyline{stroke:#6cb0ff}circle,text.blue{fill:#6cb0ff}.axis{stroke:#9da7b1}"
    ".other{stroke:#ff9d5c}text.other{fill:#ff9d5c}}"
)


def statistics_figures() -> dict[str, str]:
    """Place below the project → SVG."""
    drawn = {
        "intervals": intervals_figure,
        "detectable": detectable_figure,
        "gate": gate_figure,
        "coverage": coverage_figure,
    }
    return {f"docs/images/statistics-{name}.svg": draw() for name, draw in drawn.items()}


def counted(wins: int, losses: int, n: int, alternative: Alternative = "two-sided") -> PairedResult:
    """So many queries found by b alone, and by a alone."""
    a, b = np.zeros(n), np.zeros(n)
    b[:wins], a[wins : wins + losses] = 1, 1
    return compare_paired(a, b, scale="binary", alternative=alternative)


@dataclass(frozen=True)
class Scale:
    """Where a value stands between two ends of the picture."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def intervals_figure() -> str:
    """The same share of changed queries, and none at all, among few queries and among many."""
    x = Scale(-0.2, 0.2, LEFT, RIGHT)
    parts = [_line(x(0), 20, x(0), 20 + 5 * ROW, "axis")]
    counts = ((0, 0, 30), (0, 0, 200), (6, 0, 60), (5, 14, 200), (25, 70, 1_000))
    for place, (wins, losses, n) in enumerate(counts):
        found, y = counted(wins, losses, n), 37 + place * ROW
        assert found.delta is not None and found.ci_low is not None and found.ci_high is not None
        moved = f"{wins} won, {losses} lost" if wins or losses else "none changed"
        parts += [_text(12, y + 4, f"{n:,} queries, {moved}")]
        parts += [_line(x(found.ci_low), y, x(found.ci_high), y), _dot(x(found.delta), y)]
    parts += _ticks(x, 38 + 5 * ROW, [-0.2, -0.1, 0, 0.1, 0.2])
    return _svg("Differences of hit@5 with their intervals", 5 * ROW + 52, parts)


def detectable_figure() -> str:
    """What so many queries can show, by how many of them change from night to night."""
    x = Scale(math.log(QUERIES[0]), math.log(QUERIES[-1]), 60, 520)
    y = Scale(0, 0.16, 220, 20)
    parts = [_line(60, y(level), 520, y(level), "axis dash") for level in (0.0, 0.05, 0.1, 0.15)]
    parts += [_text(12, y(level) + 4, f"{level:.2f}", "quiet") for level in (0.0, 0.05, 0.1, 0.15)]
    for percent, beside in ((2, 10), (10, 4), (24, -4)):
        found = [(n, counted(n * percent // 200, n * percent // 200, n).mde or 1.0) for n in QUERIES]
        parts.append(_curve((x(math.log(n)), y(mde)) for n, mde in found))
        parts.append(_text(528, y(found[-1][1]) + beside, f"{percent} % change", "blue"))
    parts += [_text(x(math.log(n)), 242, f"{n:,}", "quiet tick") for n in QUERIES]
    return _svg("Detectable effect by number of queries", 254, parts)


def gate_figure() -> str:
    """The three answers of a rule about hit@5 that lets 0.02 go."""
    x = Scale(-0.04, 0.1, LEFT, RIGHT)
    parts = [_line(x(0), 20, x(0), 20 + 4 * ROW, "axis")]
    parts += [
        _line(x(MARGIN), 20, x(MARGIN), 20 + 4 * ROW, "other dash"),
        _text(x(MARGIN) + 4, 16, "margin", "other"),
    ]
    for place, (lost, won, n) in enumerate(((20, 20, 1_000), (4, 4, 200), (5, 2, 60), (70, 20, 1_000))):
        y = 37 + place * ROW
        # Of losses more is worse: b found what a lost.
        found = counted(lost, won, n, "greater")
        assert found.delta is not None and found.lower_bound is not None and found.upper_bound is not None
        parts += [
            _text(12, y - 3, f"{n:,} queries, {lost} lost, {won} won"),
            _text(12, y + 12, answer(found), "quiet"),
        ]
        parts += [_line(x(found.lower_bound), y, x(found.upper_bound), y), _dot(x(found.delta), y)]
    parts += _ticks(x, 38 + 4 * ROW, [-0.04, 0, 0.04, 0.08])
    return _svg("Losses with the bounds that a gate asks", 4 * ROW + 52, parts)


def answer(found: PairedResult) -> str:
    """What a rule says that stands alone, so that nothing is adjusted."""
    assert found.delta is not None and found.p_value is not None and found.upper_bound is not None
    if found.delta > MARGIN and found.p_value < 0.05:
        return "fail"
    return "pass" if found.upper_bound < MARGIN else "inconclusive"


def coverage_figure() -> str:
    """How often the interval holds the truth where 3 % of the queries lose and none wins, counted out."""
    x, y = Scale(0, COVERED[-1], 60, 520), Scale(0.4, 1, 220, 20)
    parts = [_line(60, y(level), 520, y(level), "axis dash") for level in (0.4, 0.6, 0.8, 0.95, 1.0)]
    parts += [_text(12, y(level) + 4, f"{level:.0%}", "quiet") for level in (0.4, 0.6, 0.8, 0.95)]
    parts.append(_curve((x(n), y(held(n, _by_moves))) for n in COVERED))
    parts.append(_curve(((x(n), y(held(n, _by_student))) for n in COVERED), "other"))
    parts += [
        _text(528, y(0.99) + 2, "this product", "blue"),
        _text(528, y(0.91) + 8, "Student's t", "other"),
    ]
    parts += [_text(x(n), 242, f"{n:,}", "quiet tick") for n in (20, 100, 200, 300, 400)]
    return _svg("How often an interval of 95 % holds the truth", 254, parts)


def held(n: int, interval: Callable[[int, int], tuple[float, float]]) -> float:
    """The chance that the interval of n queries encloses the true difference, over every count of losses."""
    total = 0.0
    for losses in range(n + 1):
        chance = math.comb(n, losses) * RARE**losses * (1 - RARE) ** (n - losses)
        if chance < 1e-9:
            if losses > n * RARE:
                break
            continue
        low, high = interval(losses, n)
        total += chance * (low <= -RARE <= high)
    return total


def _by_moves(losses: int, n: int) -> tuple[float, float]:
    found = counted(0, losses, n)
    assert found.ci_low is not None and found.ci_high is not None
    return found.ci_low, found.ci_high


def _by_student(losses: int, n: int) -> tuple[float, float]:
    centre, margin = student(np.repeat([-1.0, 0.0], [losses, n - losses]), None)
    return centre - margin, centre + margin


def _svg(title: str, height: int, parts: Sequence[str]) -> str:
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _text(x: float, y: float, text: str, look: str | None = None) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{_look(look)}>{escape(text)}</text>'


def _line(x: float, y: float, to_x: float, to_y: float, look: str | None = None) -> str:
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"{_look(look)}/>'


def _dot(x: float, y: float) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>'


def _curve(points: Iterable[tuple[float, float]], look: str | None = None) -> str:
    return f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"{_look(look)}/>'


def _look(look: str | None) -> str:
    return f' class="{look}"' if look else ""


def _ticks(x: Scale, y: float, values: Sequence[float]) -> list[str]:
    return [
        _text(x(value), y, f"{value:+.2f}".replace("-", "−") if value else "0", "quiet tick")
        for value in values
    ]
