"""A cell a night, coloured by what the gate said of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from eval_pipeline.report.nights._reading import INCOMPLETE, NO_GATE
from eval_pipeline.report.pages._widgets import more, with_code
from eval_pipeline.report.pages.html import Child, Html, _data_text, clipped, tag
from eval_pipeline.report.pages.material import Night, SuiteMaterial
from eval_pipeline.words import count

MONTHS_OPEN: Final = 12
# Of nights with long names or addresses fewer fit.
MOST_BYTES: Final = 600_000
ID_SHOWN: Final = 60
MOST_DAYS: Final = 31
# In the order in which they are said; the look of each.
LOOKS: Final = {
    "fail": "fail",
    "inconclusive": "unsure",
    INCOMPLETE: "broken",
    "pass": "pass",
    NO_GATE: "none",
}


class Cell(NamedTuple):
    """A night, and how it is drawn."""

    of: Night
    drawn: Html


def nights_section(suite: SuiteMaterial) -> list[Child]:
    """Months below each other, the newest first; of each, in words, on which days the gate said what."""
    shown = list(_fitting(suite))
    months = [
        list(nights)
        for _, nights in groupby(shown, key=lambda cell: (cell.of.night.year, cell.of.night.month))
    ]
    older = months[MONTHS_OPEN:]
    return [
        tag("p", with_code(_summary(suite, [cell.of for cell in shown]))),
        _strip(months[:MONTHS_OPEN]),
        more(count(len(older), "older month"), _strip(older)) if older else None,
    ]


def _fitting(suite: SuiteMaterial) -> Iterator[Cell]:
    """The newest nights first, until the bytes are used that they may take."""
    used = 0
    for one in reversed(suite.nights):
        drawn = _cell(suite, one)
        used += len(drawn.encode())
        if used > MOST_BYTES:
            return
        yield Cell(one, drawn)


def _summary(suite: SuiteMaterial, shown: Sequence[Night]) -> str:
    found = Counter(one.verdict for one in shown)
    told = ", ".join(f"{found[word]:,} {word}" for word in [*LOOKS, *(found.keys() - LOOKS)] if found[word])
    left_out = len(suite.nights) - len(shown)
    said = f"{count(len(shown), 'night')}: {told}."
    said += f" {left_out:,} older nights are not drawn." if left_out else ""
    if set(found) <= {NO_GATE, INCOMPLETE}:
        said += " No night was judged yet: `eval-pipeline gate` judges one."
    return said


def _strip(months: Sequence[Sequence[Cell]]) -> Html:
    return tag("ul", [_month(cells[::-1]) for cells in months], class_="strip")


def _month(cells: Sequence[Cell]) -> Html:
    return tag(
        "li",
        tag("span", f"{cells[0].of.night:%b %Y}", class_="month"),
        tag("span", [cell.drawn for cell in cells], class_="nights"),
        tag("span", _in_words([cell.of for cell in cells]), class_="note"),
    )


def _cell(suite: SuiteMaterial, one: Night) -> Html:
    said = f"{one.night.isoformat()} {one.verdict}: {clipped(one.run_id, ID_SHOWN)}"
    address = suite.links.run(one.run_id)
    return tag(
        "span" if address is None else "a",
        str(one.night.day),
        class_=LOOKS.get(one.verdict, "none"),
        title=said,
        href=address,
    )


def _in_words(nights: Sequence[Night]) -> Html:
    """`fail 3, 17 · pass 12 others`: days are named but for what is said most often."""
    days: dict[str, list[int]] = {}
    for one in nights:
        days.setdefault(one.verdict, []).append(one.night.day)
    if len(days) == 1:
        (word,) = days
        return _data_text(f"{'all ' if len(nights) > 1 else ''}{word}")
    usual = max(days, key=lambda word: len(days[word]))
    told = [
        f"{word} {', '.join(map(str, days[word][:MOST_DAYS]))}"
        for word in [*LOOKS, *sorted(days.keys() - LOOKS)]
        if word in days and word != usual
    ]
    return _data_text(" · ".join([*told, f"{usual} the other {count(len(days[usual]), 'night')}"]))
