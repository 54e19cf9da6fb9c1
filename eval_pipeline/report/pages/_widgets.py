"""What pages are put together from: tables, tiles, lists of facts, badges, callouts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from eval_pipeline.report.numbers import NOTHING
from eval_pipeline.report.pages.html import Child, Html, _data_text, _escape, _join, tag, visible

NAMED_IDS = 200


@dataclass(frozen=True)
class Column:
    """A column's heading; numbers stand to the right."""

    title: Child
    is_number: bool = False
    style: str | None = None

    @property
    def class_name(self) -> str | None:
        return "number" if self.is_number else self.style


@dataclass(frozen=True)
class Group:
    """Rows of a table under a heading of their own."""

    title: str
    rows: Sequence[Sequence[Child]]


def data_table(
    name: str, caption: Child, columns: Sequence[Column], rows: Iterable[Sequence[Child] | Group]
) -> Html:
    """A table that scrolls inside its own frame; the first cell of a row is its heading."""
    loose: list[Sequence[Child]] = []
    bodies: list[Html] = []
    for entry in rows:
        if isinstance(entry, Group):
            bodies.append(_group(entry, columns))
        else:
            loose.append(entry)
    if loose:
        bodies.insert(0, tag("tbody", [_row(cells, columns) for cells in loose]))
    return scrolling(
        name, tag("table", caption_of(name, caption), table_head(columns), bodies, id=f"{name}-table")
    )


def table_head(columns: Sequence[Column]) -> Html:
    """The titles of the columns."""
    titles = [tag("th", one.title, scope="col", class_=one.class_name) for one in columns]
    return tag("thead", tag("tr", titles))


def caption_of(name: str, text: Child) -> Html:
    """A table's caption, which stays as wide as the screen where the table is wider."""
    return tag("caption", tag("span", text), id=f"{name}-caption")


def scrolling(name: str, content: Html) -> Html:
    """A frame that keyboards can scroll; named by the caption `NAME-caption` inside."""
    return tag(
        "div", content, class_="scroll", role="region", tabindex="0", aria_labelledby=f"{name}-caption"
    )


def _group(group: Group, columns: Sequence[Column]) -> Html:
    heading = tag("tr", tag("th", group.title, scope="rowgroup", colspan=str(len(columns))))
    return _join(
        tag("tbody", heading, class_="group"),
        tag("tbody", [_row(cells, columns) for cells in group.rows]),
    )


def _row(cells: Sequence[Child], columns: Sequence[Column]) -> Html:
    first, *others = zip(cells, columns, strict=True)
    return tag(
        "tr",
        tag("th", first[0], scope="row", class_=first[1].class_name),
        [tag("td", cell, class_=column.class_name) for cell, column in others],
    )


def tiles(entries: Iterable[tuple[Child, Child, Child]]) -> Html:
    """(name, figure, remark) side by side."""
    return tag(
        "dl",
        [
            tag(
                "div",
                tag("dt", name),
                tag("dd", figure, class_="figure"),
                tag("dd", remark, class_="note") if remark is not None else None,
            )
            for name, figure, remark in entries
        ],
        class_="tiles",
    )


def facts_list(facts: Mapping[str, Child]) -> Html:
    """Names with their values; what is not known is left out."""
    return tag(
        "dl",
        [
            tag("div", tag("dt", name), tag("dd", value))
            for name, value in facts.items()
            if value is not None and value != ""
        ],
        class_="facts",
    )


def badge(text: str, mood: str | None = None) -> Html:
    """A word that stands out; `mood` is good, bad or nothing."""
    return tag("span", text, class_=f"badge {mood}" if mood else "badge")


def callout(*content: Child) -> Html:
    """A remark that must not be overlooked."""
    return tag("div", content, class_="callout warning", role="note")


def bullets(items: Iterable[Child]) -> Html:
    """A plain list."""
    return tag("ul", [tag("li", item) for item in items], class_="plain")


def more(summary: str, *content: Child) -> Html:
    """Something for those who want to know."""
    return tag("details", tag("summary", summary), content)


def named_ids(ids: Sequence[str]) -> Html:
    """Ids one after the other, and how many more there are."""
    shown: list[Child] = []
    for place, one in enumerate(ids[:NAMED_IDS]):
        shown += [", " if place else None, tag("span", _data_text(one, most=NAMED_IDS), class_="id")]
    left_out = len(ids) - NAMED_IDS
    return tag("p", shown, f" and {left_out:,} more" if left_out > 0 else None)


def linked(content: Child, address: str | None) -> Child:
    """The content, leading to an address where there is one."""
    return content if address is None else tag("a", content, href=address)


def metric_name(key: str) -> Html:
    """A metric's key."""
    return tag("span", _data_text(key), class_="id")


def breakable_name(key: str) -> Html:
    """A metric's key that may be broken where its words end."""
    pieces = re.split("(?<=[_@])", visible(key))
    broken = Html("<wbr>").join(_escape(piece) for piece in pieces)
    return tag("span", tag("bdi", Html(broken)), class_="id")


def with_code(text: str) -> Html:
    """A sentence in which commands stand between backticks."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return _data_text(text)
    return tag("bdi", [tag("code", piece) if place % 2 else piece for place, piece in enumerate(pieces)])


def or_nothing(text: str | None) -> str:
    """An em dash where there is nothing."""
    return NOTHING if text is None or text == "" else text
