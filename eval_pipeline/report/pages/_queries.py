"""The table of queries: one row each, its texts folded below, within a budget of bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from eval_pipeline.report.pages._widgets import Column, caption_of, linked, scrolling, table_head
from eval_pipeline.report.pages.html import (
    Child,
    Html,
    _data_text,
    _join,
    _json_text,
    clipped,
    json_block,
    tag,
    visible,
)
from eval_pipeline.report.pages.material import ChunkRow, QueryTexts

# What a page may weigh: the rows of a thousand queries, and below them as many texts as there is room for.
MOST_ROWS: Final = 2_000
PAGE_BYTES: Final = 1_900_000
TEXT_BYTES: Final = 900_000
SHARE_OF_ROWS: Final = 0.7
BODY_BYTES: Final = 20
FOLD_BYTES: Final = 110

ID_LENGTH: Final = 160
QUESTION_LENGTH: Final = 240
SLICE_LENGTH: Final = 80
LONG_TEXT: Final = 600
HIT_TEXT: Final = 220
HITS_SHOWN: Final = 10

Detail = Callable[[bool], Html | None]


@dataclass(frozen=True)
class QueryEntry:
    """One query: its cells after the first, what they are sorted by, and what the filters ask for."""

    query_id: str
    question: str | None
    kind: str
    is_marked: bool
    cells: Sequence[Child]
    keys: Sequence[float | str | None]
    detail: Detail
    has_detail: bool = True
    has_error: bool = False
    slices: Sequence[str] = ()
    moved: Sequence[str] = ()
    address: str | None = None


@dataclass(frozen=True)
class QueryTable:
    """The table with its filters; `mark` is what the check box asks for, None for no check box.

    `errors` are the words for those that failed, `metrics` what may have moved.
    """

    name: str
    caption: str
    columns: Sequence[Column]
    entries: Sequence[QueryEntry]
    mark: str | None = None
    errors: str | None = None
    metrics: Sequence[str] = ()


def query_table(table: QueryTable, *, room: int) -> Html:
    """Filters, table and remarks on what had no room. Entries come with the most important first."""
    rows, spent = _listed_rows(table, room=int(room * SHARE_OF_ROWS))
    listed = table.entries[: len(rows)]
    details, n_without_text, n_without = _details(listed, len(table.columns), spent=spent, room=room)
    bodies = [
        tag("tbody", row, detail, id=address_of(entry.query_id))
        for entry, row, detail in zip(listed, rows, details, strict=True)
    ]
    caption, head = caption_of(table.name, table.caption), table_head(table.columns)
    drawn = tag("table", caption, head, bodies, id=table.name, class_="queries wide unready")
    slices = sorted({name for entry in listed for name in entry.slices})
    places = {name: place for place, name in enumerate(slices)}
    script_rows = [_script_row(place, entry, places, table.metrics) for place, entry in enumerate(listed)]
    return _join(
        _filters(table, listed, slices),
        scrolling(table.name, drawn),
        _remarks(len(table.entries) - len(listed), n_without_text, n_without),
        json_block(f"{table.name}-rows", {"rows": script_rows}),
    )


def address_of(query_id: str) -> str:
    """Where a question stands on its page: `#q=` and its id, percent-encoded."""
    return f"q={quote(query_id, safe='')}"


def _script_row(
    place: int, entry: QueryEntry, slices: Mapping[str, int], metrics: Sequence[str]
) -> dict[str, object]:
    """The first column is sorted by the order of the list, which is the order of importance."""
    found: dict[str, object] = {"kind": entry.kind, "sort": [place, *entry.keys]}
    found |= {"marked": 1} if entry.is_marked else {}
    found |= {"error": 1} if entry.has_error else {}
    found |= {"slices": [slices[name] for name in entry.slices]} if entry.slices else {}
    moved = [metrics.index(key) for key in entry.moved if key in metrics]
    return found | ({"moved": moved} if moved else {})


def _listed_rows(table: QueryTable, *, room: int) -> tuple[list[Html], int]:
    """As many rows as there is room for, and the bytes they take with what the script knows of them."""
    rows: list[Html] = []
    spent = 0
    for place, entry in enumerate(table.entries[:MOST_ROWS]):
        row = _first_row(entry, table.columns)
        known = _script_row(place, entry, dict.fromkeys(entry.slices, 100), table.metrics)
        size = _size(row) + len(_json_text(known)) + len(address_of(entry.query_id)) + BODY_BYTES
        if spent + size > room:
            break
        spent += size
        rows.append(row)
    return rows, spent


def _size(markup: str) -> int:
    return len(markup.encode())


def _first_row(entry: QueryEntry, columns: Sequence[Column]) -> Html:
    question = (
        tag("span", entry.question and clipped(entry.question, QUESTION_LENGTH), dir="auto")
        if entry.question
        else None
    )
    heading = tag(
        "th",
        question,
        tag("span", linked(_data_text(entry.query_id, most=ID_LENGTH), entry.address), class_="id"),
        scope="row",
        class_="query",
    )
    cells = [
        tag("td", cell, class_=column.class_name)
        for cell, column in zip(entry.cells, columns[1:], strict=True)
    ]
    return tag("tr", heading, cells)


def _details(
    entries: Sequence[QueryEntry], n_columns: int, *, spent: int, room: int
) -> tuple[list[Html | None], int, int]:
    """Texts while there is room for them, then ids, then nothing; with how many went without each."""
    found: list[Html | None] = []
    budgets = [min(spent + TEXT_BYTES, room), room]
    left_out = [0, 0]
    stage = 0
    for entry in entries:
        detail = None
        while stage < len(budgets):
            detail = entry.detail(stage == 0)
            size = _size(detail) + FOLD_BYTES if detail is not None else 0
            if spent + size <= budgets[stage]:
                spent += size
                break
            stage, detail = stage + 1, None
        if stage and entry.has_detail:
            left_out[stage - 1] += 1
        found.append(_folded(detail, n_columns) if detail is not None else None)
    return found, left_out[0], left_out[1]


def _folded(detail: Html, n_columns: int) -> Html:
    cell = tag("td", tag("details", tag("summary", "Expected and retrieved"), detail), colspan=str(n_columns))
    return tag("tr", cell, class_="more")


def _filters(table: QueryTable, listed: Sequence[QueryEntry], slices: Sequence[str]) -> Html:
    counts: dict[str, int] = {}
    for entry in listed:
        counts[entry.kind] = counts.get(entry.kind, 0) + 1
    kinds = {kind: f"{kind.replace('_', ' ')} ({n:,})" for kind, n in counts.items()}
    errors = sum(entry.has_error for entry in listed)
    if table.errors and errors:
        kinds["error"] = f"{table.errors} ({errors:,})"
    return tag(
        "form",
        tag("label", "Search", tag("input", type="search", name="search", autocomplete="off")),
        _choice("Kind", "kind", kinds, f"all ({len(listed):,})"),
        _choice("Slice", "slice", {name: _slice_words(name) for name in slices}, "all"),
        _choice("Moved in", "metric", {key: key for key in table.metrics}, "any"),
        tag("label", tag("input", type="checkbox", name="marked"), table.mark) if table.mark else None,
        tag("output", name="count", aria_live="polite"),
        tag("button", "Previous", type="button", name="back"),
        tag("button", "Next", type="button", name="forth"),
        class_="filters",
        hidden=True,
        data_table=table.name,
        data_rows=f"{table.name}-rows",
        aria_label="Filter the queries",
    )


def _choice(label: str, name: str, options: Mapping[str, str], every: str) -> Html | None:
    """A list to choose from; nothing where there is no choice. Slices are known to the script by their place."""
    if not options:
        return None
    listed = [tag("option", visible(text), value=value) for value, text in options.items()]
    return tag("label", label, tag("select", tag("option", every, value=""), listed, name=name))


def _slice_words(name: str) -> str:
    """`tag = work`"""
    dimension, _, value = name.partition("=")
    return clipped(f"{dimension} = {value}", SLICE_LENGTH)


def _remarks(n_unlisted: int, n_without_text: int, n_without: int) -> Html | None:
    said = []
    if n_unlisted:
        said.append(f"{n_unlisted:,} more queries are not listed.")
    if n_without_text:
        said.append(f"To keep this page small, {n_without_text:,} queries show ids without texts.")
    if n_without:
        said.append(f"{n_without:,} show neither.")
    if not said:
        return None
    return tag("p", " ".join(said), " ", tag("code", "show --per-query"), " has all numbers.", class_="note")


def sides(
    texts: QueryTexts,
    *,
    headings: Sequence[str],
    matched: Sequence[frozenset[int]],
    with_text: bool,
    below: Child = None,
) -> Html:
    """Expected chunks and the hits of each run side by side; `matched` are the ranks that count as found."""
    expected_ids = {chunk.chunk_id for chunk in texts.expected}
    parts = [_side("Expected", _expected(texts.expected, with_text=with_text))]
    for heading, hits, ranks in zip(headings, texts.hits, matched, strict=True):
        parts.append(_side(heading, _hits(hits, expected_ids, ranks, with_text=with_text)))
    return tag("div", tag("div", parts, class_="columns"), below, class_="sides")


def _side(heading: str, content: Html) -> Html:
    return tag("div", tag("p", heading, class_="heading"), content, role="group", aria_label=heading)


def _expected(chunks: Sequence[ChunkRow], *, with_text: bool) -> Html:
    if not chunks:
        return tag("span", "no chunk is labelled", class_="note")
    return tag(
        "ul", [tag("li", _chunk(chunk, LONG_TEXT, with_text=with_text)) for chunk in chunks[:HITS_SHOWN]]
    )


def _hits(
    hits: Sequence[ChunkRow], expected_ids: set[str], ranks: frozenset[int], *, with_text: bool
) -> Html:
    if not hits:
        return tag("span", "nothing was retrieved", class_="note")
    rows = []
    for rank, hit in enumerate(hits[:HITS_SHOWN], start=1):
        is_expected = hit.chunk_id in expected_ids or rank in ranks
        rows.append(
            tag(
                "li",
                tag("span", rank, class_="rank"),
                _chunk(
                    ChunkRow(hit.chunk_id, hit.text and " ".join(hit.text.split())),
                    HIT_TEXT,
                    with_text=with_text,
                ),
                tag("span", " ", badge_expected()) if is_expected else None,
                class_="expected" if is_expected else None,
            )
        )
    return tag("ol", rows)


def badge_expected() -> Html:
    """Says in words what the mark at the side says in colour."""
    return tag("span", "expected", class_="badge good")


def _chunk(chunk: ChunkRow, most: int, *, with_text: bool) -> Html:
    text = (
        tag("span", clipped(chunk.text, most), class_="text", dir="auto")
        if with_text and chunk.text
        else None
    )
    return _join(tag("span", _data_text(chunk.chunk_id, most=ID_LENGTH), class_="id"), text)


def labelled_text(name: str, text: str | None) -> Html | None:
    """`Answer: …`, where there is one."""
    if not text:
        return None
    return tag(
        "p", tag("span", f"{name}: ", class_="muted"), tag("span", clipped(text, LONG_TEXT), dir="auto")
    )


def found_ranks(rank: int | None) -> frozenset[int]:
    """The one rank at which something was found, if any."""
    return frozenset() if rank is None else frozenset((rank,))
