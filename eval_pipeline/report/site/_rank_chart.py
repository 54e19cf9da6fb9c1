"""The rank of a question from night to night, drawn as a few dots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eval_pipeline.report.pages.html import Html, tag
from eval_pipeline.report.site._material import Asked

WIDTH: Final = 640
LEFT, RIGHT, TOP, ROW = 84, 16, 14, 15
DEEPEST: Final = 10


def rank_figure(nights: Sequence[Asked], *, name: str, suite: str | None) -> Html:
    """Oldest night left; rank 1 on top, what was not found at the bottom, failures as hollow dots."""
    depth = min(DEEPEST, max((one.first_rank or 1 for one in nights), default=1))
    title = "Rank from night to night" + (f": {suite}" if suite else "")
    drawing = tag(
        "svg",
        tag("title", title, id=f"{name}-title"),
        tag("desc", _said(nights), id=f"{name}-text"),
        _lines(depth),
        [_dot(one, place, len(nights), depth) for place, one in enumerate(nights)],
        _ends(nights, depth),
        role="img",
        width=str(WIDTH),
        height=str(_y(depth + 1) + 34),
        viewBox=f"0 0 {WIDTH} {_y(depth + 1) + 34}",
        aria_labelledby=f"{name}-title {name}-text",
    )
    frame = tag(
        "div", drawing, class_="scroll", role="region", tabindex="0", aria_labelledby=f"{name}-caption"
    )
    return tag("figure", tag("figcaption", title, id=f"{name}-caption"), frame, class_="chart")


def _y(row: int) -> int:
    return TOP + (row - 1) * ROW


def _x(place: int, total: int) -> int:
    return LEFT + round(place * (WIDTH - LEFT - RIGHT) / max(1, total - 1))


def _lines(depth: int) -> list[Html]:
    """A line for the best rank, one for the deepest that is told apart, one for what was not found."""
    deepest = f"rank {depth}" + (" or later" if depth == DEEPEST else "")
    labels = {1: "rank 1", **({depth: deepest} if depth > 1 else {}), depth + 1: "not found"}
    return [
        piece
        for row, text in labels.items()
        for piece in (
            tag(
                "line",
                x1=str(LEFT),
                x2=str(WIDTH - RIGHT),
                y1=str(_y(row)),
                y2=str(_y(row)),
                stroke="var(--line)",
            ),
            tag("text", text, x="0", y=str(_y(row) + 4), fill="var(--muted)", font_size="11"),
        )
    ]


def _dot(one: Asked, place: int, total: int, depth: int) -> Html:
    is_found = one.first_rank is not None and not one.is_failed
    row = min(one.first_rank or 1, depth) if is_found else depth + 1
    colour = "var(--accent)" if is_found else "var(--worse)"
    return tag(
        "circle",
        tag("title", f"{one.run.night}, {one.run.run_id}: {_place(one)}"),
        cx=str(_x(place, total)),
        cy=str(_y(row)),
        r="4",
        fill="var(--paper)" if one.is_failed else colour,
        stroke=colour,
    )


def _place(one: Asked) -> str:
    if one.is_failed:
        return "failed"
    return "not found" if one.first_rank is None else f"rank {one.first_rank}"


def _ends(nights: Sequence[Asked], depth: int) -> list[Html]:
    y = str(_y(depth + 1) + 24)
    ends = ((nights[0], LEFT, "start"), (nights[-1], WIDTH - RIGHT, "end"))
    return [
        tag(
            "text",
            one.run.night.isoformat(),
            x=str(x),
            y=y,
            fill="var(--muted)",
            font_size="11",
            text_anchor=anchor,
        )
        for one, x, anchor in ends
    ]


def _said(nights: Sequence[Asked]) -> str:
    return "; ".join(f"{one.run.night}: {_place(one)}" for one in nights) + "."
