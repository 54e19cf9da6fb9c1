"""Questions by nights: where the first expected chunk stood."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from eval_pipeline.report.nights._reading import FAILED, FAR, NO_RESULT, NOT_FOUND
from eval_pipeline.report.pages._widgets import (
    Column,
    caption_of,
    linked,
    more,
    scrolling,
    table_head,
)
from eval_pipeline.report.pages.html import Child, Html, _data_text, _join, tag
from eval_pipeline.report.pages.material import QuestionRanks, RankMatrix, SuiteMaterial
from eval_pipeline.words import count

ROWS_OPEN: Final = 40
MOST_BYTES: Final = 600_000
QUESTION_SHOWN: Final = 70
ID_SHOWN: Final = 40
# So many nights from one date to the next in the head.
DATED_EVERY: Final = 12
STEPS: Final = {
    "1": "first",
    **dict.fromkeys("2345", "near"),
    **dict.fromkeys(["6", "7", "8", "9", FAR], "low"),
    NOT_FOUND: "gone",
    FAILED: "failed",
}
IN_WORDS: Final = {
    NOT_FOUND: "not found",
    FAILED: "failed",
    NO_RESULT: "no result",
    FAR: "10 or later",
}


def question_section(suite: SuiteMaterial, prefix: str) -> list[Child]:
    """The questions that flip most; the first few open, the rest folded."""
    ranks = suite.ranks
    if ranks is None:
        return []
    rows = list(_fitting(suite, ranks))
    tables = [
        _table(f"{prefix}{name}", caption, ranks, part)
        for name, caption, part in (
            ("questions", _caption(ranks, len(rows)), rows[:ROWS_OPEN]),
            ("questions-more", "The questions that flipped less often, likewise.", rows[ROWS_OPEN:]),
        )
        if part
    ]
    rest = len(rows) - ROWS_OPEN
    return [_legend(ranks), tables[0], *(more(count(rest, "more question"), one) for one in tables[1:])]


def _fitting(suite: SuiteMaterial, ranks: RankMatrix) -> Iterator[Html]:
    """Rows until the bytes are used that they may take."""
    used = 0
    for one in ranks.questions:
        row = _row(suite, one)
        used += len(row.encode())
        if used > MOST_BYTES:
            return
        yield row


def _caption(ranks: RankMatrix, n_rows: int) -> str:
    nights = f"{len(ranks.nights):,} of {ranks.n_nights:,} nights"
    return (
        f"{n_rows:,} of {ranks.n_questions:,} questions that expect a chunk, those that flip most often first; "
        f"{nights}, the newest at the left. A flip: found after a night without, or the reverse, among nights of one "
        f"chunker, over the newest {count(ranks.n_counted, 'night')}."
    )


def _legend(ranks: RankMatrix) -> Html:
    looks = [
        ("first", "1", "first hit"),
        ("near", "2", "2 to 5"),
        ("low", "6", "6 and later, + from 10 on"),
        ("gone", NOT_FOUND, "not found"),
        ("failed", FAILED, "failed"),
        (None, NO_RESULT, "no result"),
    ]
    return tag(
        "p",
        "The rank of the first expected chunk: ",
        [
            tag(
                "span", tag("span", tag("span", sign, class_=look), class_="ranks"), f" {text}", class_="look"
            )
            for look, sign, text in looks
        ],
        class_="note",
    )


def _table(name: str, caption: str, ranks: RankMatrix, rows: Sequence[Html]) -> Html:
    columns = [
        Column("question"),
        Column("flips", is_number=True),
        Column("now", style="short"),
        Column(tag("span", _dates(ranks), class_="ranks"), style="nightly"),
    ]
    table = tag(
        "table",
        caption_of(name, caption),
        table_head(columns),
        tag("tbody", rows),
        id=f"{name}-table",
        class_="matrix",
    )
    return scrolling(name, table)


def _dates(ranks: RankMatrix) -> str:
    """A date above every twelfth night, as wide as so many letters."""
    dated = [one.night.isoformat().ljust(DATED_EVERY) for one in ranks.nights[::DATED_EVERY]]
    return "".join(dated).rstrip()


def _row(suite: SuiteMaterial, one: QuestionRanks) -> Html:
    text = one.question if suite.with_text else None
    query = tag("span", _data_text(one.query_id, most=ID_SHOWN), class_="id")
    name = _join(_data_text(text, most=QUESTION_SHOWN), " ", query) if text else query
    now = one.ranks[0]
    return tag(
        "tr",
        tag("th", linked(name, suite.links.question(suite.dataset, one.query_id)), scope="row"),
        tag("td", f"{one.n_flips:,}", class_="number"),
        tag("td", IN_WORDS.get(now, now), class_="short"),
        tag("td", tag("span", list(_coloured(one.ranks)), class_="ranks")),
    )


def _coloured(ranks: str) -> Iterator[Html]:
    """Letters of one look stand in one element, which keeps thousands of nights small."""
    for look, letters in groupby(ranks, key=STEPS.get):
        text = "".join(letters)
        yield tag("span", text, class_=look) if look else _join(text)
