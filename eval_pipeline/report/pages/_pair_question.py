"""One question of two runs: hits joined by lines, answers with what differs, the judge."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final

from eval_pipeline.comparing.documents import QueryVerdict
from eval_pipeline.report.pages._queries import (
    HIT_TEXT,
    HITS_SHOWN,
    ID_LENGTH,
    LONG_TEXT,
    badge_expected,
    labelled_text,
)
from eval_pipeline.report.pages.html import Child, Html, _data_text, _join, clipped, tag
from eval_pipeline.report.pages.material import ChunkRow, QueryRow, QueryTexts

# A hit has one line of this many pixels, so that lines between the columns meet it; page.css says the same.
ROW_HEIGHT: Final = 28
JOIN_WIDTH: Final = 56
HIT_LINE: Final = 140
WORDS_COMPARED: Final = 400
_WORDS: Final = re.compile(r"\s+|[^\s]+")


def question_detail(
    entry: QueryVerdict,
    names: tuple[str, str],
    rows: tuple[QueryRow | None, QueryRow | None],
    texts: QueryTexts,
    *,
    with_text: bool,
) -> Html:
    """What was expected, what each run retrieved and said; without texts the ids alone."""
    return tag(
        "div",
        _expected(texts, with_text=with_text),
        _joined_hits(entry, names, texts, with_text=with_text),
        labelled_text("Lost", ", ".join(entry.regressed_chunk_ids)),
        _answers(names, rows) if with_text else None,
        class_="sides",
    )


def _expected(texts: QueryTexts, *, with_text: bool) -> Html:
    if not texts.expected:
        return tag("p", "No chunk is labelled.", class_="note")
    items = [
        tag(
            "li",
            _id(one),
            tag("span", clipped(one.text, LONG_TEXT), class_="text", dir="auto")
            if with_text and one.text
            else None,
        )
        for one in texts.expected[:HITS_SHOWN]
    ]
    return _join(tag("p", "Expected", class_="heading"), tag("ul", items))


def _joined_hits(entry: QueryVerdict, names: tuple[str, str], texts: QueryTexts, *, with_text: bool) -> Html:
    """Two lists, and a line from every hit to its place in the other one."""
    expected = {chunk.chunk_id for chunk in texts.expected}
    hits_a, hits_b = (list(hits[:HITS_SHOWN]) for hits in texts.hits)
    found = (entry.a_hit_rank, entry.b_hit_rank)
    lists = [
        _hit_list(name, hits, expected, rank, with_text=with_text)
        for name, hits, rank in zip(names, (hits_a, hits_b), found, strict=True)
    ]
    return tag("div", lists[0], _lines(hits_a, hits_b, expected), lists[1], class_="joined")


def _hit_list(
    name: str, hits: Sequence[ChunkRow], expected: set[str], found: int | None, *, with_text: bool
) -> Html:
    heading = tag("p", "Retrieved by ", _data_text(name), class_="heading")
    if not hits:
        return tag("div", heading, tag("p", "nothing", class_="note"))
    items = []
    for rank, hit in enumerate(hits, start=1):
        is_gold = hit.chunk_id in expected or rank == found
        text = " ".join(hit.text.split()) if with_text and hit.text else None
        items.append(
            tag(
                "li",
                tag("span", rank, class_="rank"),
                badge_expected() if is_gold else None,
                _id(hit),
                tag("span", clipped(text, HIT_LINE), class_="text", dir="auto") if text else None,
                class_="expected" if is_gold else None,
                title=clipped(text, HIT_TEXT) if text and len(text) > HIT_LINE else None,
            )
        )
    return tag("div", heading, tag("ol", items))


def _lines(hits_a: Sequence[ChunkRow], hits_b: Sequence[ChunkRow], expected: set[str]) -> Html:
    places = {hit.chunk_id: place for place, hit in reversed(list(enumerate(hits_b)))}
    height = ROW_HEIGHT * max(len(hits_a), len(hits_b), 1)
    drawn = [
        tag(
            "line",
            x1="0",
            y1=str(_middle(place)),
            x2=str(JOIN_WIDTH),
            y2=str(_middle(places[hit.chunk_id])),
            class_="gold" if hit.chunk_id in expected else None,
        )
        for place, hit in enumerate(hits_a)
        if hit.chunk_id in places
    ]
    return tag("svg", drawn, width=str(JOIN_WIDTH), height=str(height), aria_hidden="true", class_="joins")


def _middle(place: int) -> int:
    return place * ROW_HEIGHT + ROW_HEIGHT // 2


def _id(chunk: ChunkRow) -> Html:
    return tag("span", _data_text(chunk.chunk_id, most=ID_LENGTH), class_="id")


def _answers(names: tuple[str, str], rows: tuple[QueryRow | None, QueryRow | None]) -> Html | None:
    said = tuple(row.answer if row is not None else None for row in rows)
    marked = _marked(*said) if said[0] and said[1] else None
    parts = []
    for place, (name, row) in enumerate(zip(names, rows, strict=True)):
        if row is None:
            continue
        answer = marked[place] if marked else clipped(said[place] or "", LONG_TEXT)
        parts.append(
            tag("div", tag("p", "Answer of ", _data_text(name), class_="heading"), _said(row, answer))
        )
    return tag("div", parts, class_="columns") if any(_has_words(row) for row in rows) else None


def _has_words(row: QueryRow | None) -> bool:
    return row is not None and bool(row.answer or row.error or row.judge_reasoning or row.unsupported_claims)


def _said(row: QueryRow, answer: Child) -> Iterator[Html | None]:
    yield labelled_text("Error", row.error)
    yield (
        tag("p", answer, dir="auto", class_="answer") if row.answer else tag("p", "no answer", class_="note")
    )
    yield labelled_text("Judge", row.judge_reasoning)
    yield labelled_text("Unsupported", "; ".join(row.unsupported_claims))


def _marked(a: str | None, b: str | None) -> tuple[Child, Child]:
    """Both texts with the words marked that the other does not have at that place."""
    words_a, words_b = (_WORDS.findall(clipped(text or "", LONG_TEXT))[:WORDS_COMPARED] for text in (a, b))
    matcher = SequenceMatcher(None, words_a, words_b, autojunk=False)
    left: list[Child] = []
    right: list[Child] = []
    for kind, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        for found, words, start, end in ((left, words_a, a_from, a_to), (right, words_b, b_from, b_to)):
            text = "".join(words[start:end])
            if text:
                found.append(text if kind == "equal" else tag("mark", text))
    return left, right
