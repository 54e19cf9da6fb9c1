"""What a browser would make of a page, as far as tests ask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser


@dataclass(frozen=True)
class Element:
    """A start tag with its attributes and the headings it stands below."""

    name: str
    attributes: dict[str, str | None]


class PageReader(HTMLParser):
    """What a browser would make of a page, as far as tests ask: elements, texts, cells of tables."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.styles: list[str] = []
        self.texts: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self._table: str | None = None
        self._in_cell = False
        self._raw: str | None = None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.elements.append(Element(tag, attributes))
        if tag == "script":
            self.scripts.append((attributes, ""))
        if tag == "style":
            self.styles.append("")
        if tag in ("script", "style"):
            self._raw = tag
        if tag == "table":
            self._table = attributes.get("id")
            self.tables[self._table or ""] = []
        if tag == "tr" and self._table is not None:
            self.tables[self._table].append([])
        if tag in ("td", "th") and self._table is not None:
            self.tables[self._table][-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag == self._raw:
            self._raw = None
        if tag in ("td", "th"):
            self._in_cell = False
        if tag == "table":
            self._table = None

    def handle_data(self, data: str) -> None:
        if self._raw == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)
        elif self._raw == "style":
            self.styles[-1] += data
        else:
            self.texts.append(data)
            if self._in_cell and self._table is not None:
                self.tables[self._table][-1][-1] += data

    @property
    def text(self) -> str:
        """All that is shown."""
        return "".join(self.texts)

    def rows(self, table: str) -> dict[str, list[str]]:
        """First cell → the others."""
        return {
            row[0].strip(): [cell.strip() for cell in row[1:]] for row in self.tables[table] if len(row) > 1
        }

    def named(self, name: str) -> Iterator[Element]:
        return (one for one in self.elements if one.name == name)
