"""HTML put together from values; whatever is not markup already is escaped."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, TypeAlias

Child: TypeAlias = "str | int | Iterable[Child] | None"

VOID: Final = frozenset(("meta", "link", "input", "br"))

# What a reader could not see, or what would reorder the letters around it, is shown by its name or picture.
_INVISIBLE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")


_BREAKS: Final = re.compile("\r\n|[\n\u2028\u2029]")
_AS_IT_IS: Final = re.compile(f"[^&<>\"'{_INVISIBLE.pattern[1:-1]}]*").fullmatch


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def visible(text: str) -> str:
    """The text with control characters as pictures (␛) or by their number (⟨U+202E⟩)."""
    return _INVISIBLE.sub(_shown, text.replace("\r\n", "\n"))


def in_line(text: str) -> str:
    """The text on one line: what would begin another, or jump to a column, is shown as a sign."""
    return visible(_BREAKS.sub("↵", text).replace("\t", "␉"))


def _shown(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"


def clipped(text: str, most: int) -> str:
    """At most so many characters, with an ellipsis where something is left out."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _escape(text: str) -> Html:
    """Any text as text."""
    # Most texts have nothing to escape, and a page has tens of thousands.
    if _AS_IT_IS(text):
        return Html(text)
    return Html(html.escape(visible(text), quote=True))


def _join(*children: Child) -> Html:
    """Several pieces one after the other; None is nothing, and what is not markup is escaped."""
    # Nearly every element holds one piece.
    if len(children) == 1 and type(children[0]) is Html:
        return children[0]
    pieces: list[str] = []
    _add_pieces(children, pieces)
    return Html("".join(pieces))


def _add_pieces(children: Iterable[Child], pieces: list[str]) -> None:
    for child in children:
        if isinstance(child, Html):
            pieces.append(child)
        elif child is None:
            continue
        elif isinstance(child, str):
            pieces.append(_escape(child))
        elif isinstance(child, int):
            pieces.append(f"{child:,}")
        else:
            _add_pieces(child, pieces)


def tag(name: str, /, *children: Child, **attributes: str | int | bool | None) -> Html:
    """An element. `class_` is class, `data_x` is data-x; False and None leave an attribute out."""
    written = "".join([_attribute(*one) for one in attributes.items()]) if attributes else ""
    if name in VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{_join(*children)}</{name}>")


# A page says the same few classes tens of thousands of times.
@lru_cache(maxsize=4_096, typed=True)
def _attribute(name: str, value: str | int | bool | None) -> str:
    if value is None or value is False:
        return ""
    shown = name.rstrip("_").replace("_", "-")
    return f" {shown}" if value is True else f' {shown}="{_escape(str(value))}"'


def _data_text(text: str, *, most: int | None = None) -> Html:
    """An id or a short text out of the data, kept apart from the direction of what stands around it."""
    return tag("bdi", text if most is None else clipped(text, most))


def _json_text(value: Any) -> str:
    """JSON without a letter that means something in HTML."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def json_block(element_id: str, value: Any) -> Html:
    """Data for the page's script, in an element that is never executed and that no text can close."""
    text = _json_text(value)
    return Html(f'<script type="application/json" id="{_escape(element_id)}">{text}</script>')
