"""A large JSON document item by item: what lies in its long lists is never held as a whole."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from eval_pipeline.bundle.files import LINE_BYTES, BinaryStream
from eval_pipeline.bundle.lines import BOM, BadRow, decode
from eval_pipeline.errors import InputRejected

Place = tuple[str, ...]
CHUNK = 1 << 20
_BLANK = b" \t\r\n"
_MARKS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[{}\[\],]', re.DOTALL)
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_TEXT = re.compile(_STRING, re.DOTALL)
# What stands before the next bracket, with the texts in it, is passed over in one match.
_TO_BRACKET = re.compile(rb'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+[{}\[\]]', re.DOTALL)
USUAL_DEPTH = 6


def _closed(depth: int) -> bytes:
    """A pattern of an object or list with at most so many in each other below it."""
    inner = b"|" + _closed(depth - 1) if depth else b""
    return rb'[{\[](?:[^"{}\[\]]++|' + _STRING + inner + rb")*+[}\]]"


_CLOSED = re.compile(_closed(USUAL_DEPTH), re.DOTALL)
_SCALAR = re.compile(rb"[^\s,\]}]*")


@dataclass
class Skeleton:
    """What a document says outside of the places whose items were asked for; complete once all were read."""

    document: Any = None
    items: dict[Place, int] = field(default_factory=dict)


class _Cursor:
    """The unread part of a stream."""

    def __init__(self, stream: BinaryStream) -> None:
        self.stream = stream
        self.data = b""
        self.at = 0
        self.ended = False

    def more(self) -> bool:
        rest = self.data[self.at :]
        if len(rest) > LINE_BYTES:
            raise InputRejected(
                f"one value is longer than {LINE_BYTES >> 20} MiB: write the rows as JSON Lines"
            )
        chunk = b"" if self.ended else self.stream.read(max(CHUNK, len(rest)))
        self.ended = not chunk
        self.data, self.at = rest + chunk, 0
        return bool(chunk)

    def peek(self) -> bytes:
        """The next byte that is not blank; nothing at the end."""
        while True:
            while self.at < len(self.data):
                byte = self.data[self.at : self.at + 1]
                if byte not in _BLANK:
                    return byte
                self.at += 1
            if not self.more():
                return b""

    def take(self, expected: bytes) -> None:
        if self.peek() != expected:
            found = self.peek().decode("utf-8", errors="replace") or "the end"
            raise InputRejected(
                f"the document is no JSON: {expected.decode()!r} is expected and {found!r} stands there"
            )
        self.at += 1

    def value(self) -> bytes:
        """The bytes of the value that begins here."""
        first = self.peek()
        while True:
            end = self._end(first)
            if end is not None:
                raw = self.data[self.at : end]
                self.at = end
                return raw
            if not self.more():
                raise InputRejected("the document is cut off")

    def _end(self, first: bytes) -> int | None:
        if first not in (b'"', b"{", b"["):
            end = _SCALAR.match(self.data, self.at).end()  # type: ignore[union-attr]
            return end if end < len(self.data) or self.ended else None
        if first == b'"':
            text = _TEXT.match(self.data, self.at)
            return text.end() if text else None
        # One match for nearly every row; what lies deeper, or is cut off here, is counted bracket by bracket.
        if closed := _CLOSED.match(self.data, self.at):
            return closed.end()
        depth, at = 0, self.at
        while mark := _TO_BRACKET.match(self.data, at):
            at = mark.end()
            depth += 1 if self.data[at - 1] in b"{[" else -1
            if depth == 0:
                return at
        return None


def json_items(
    stream: BinaryStream, places: Collection[Place], skeleton: Skeleton | None = None
) -> Iterator[tuple[Place, str | int, Any]]:
    """Every member of the lists and objects at these places, with its key or number; the rest goes into `skeleton`."""
    cursor = _Cursor(stream)
    cursor.more()
    if cursor.data.startswith(BOM):
        cursor.at = len(BOM)
    wanted = {tuple(place) for place in places}
    kept = skeleton if skeleton is not None else Skeleton()
    yield from _walk(cursor, (), wanted, kept, [])
    if cursor.peek():
        raise InputRejected("more stands behind the end of the document")


def _walk(
    cursor: _Cursor, place: Place, wanted: set[Place], skeleton: Skeleton, into: list[Any]
) -> Iterator[tuple[Place, str | int, Any]]:
    opening = cursor.peek()
    if place in wanted and opening in (b"[", b"{"):
        into.append(None)
        for number, (key, raw) in enumerate(_members(cursor, opening)):
            skeleton.items[place] = number + 1
            yield place, number if key is None else key, _decoded(raw)
    elif opening == b"{" and any(one[: len(place)] == place and one != place for one in wanted):
        found: dict[str, Any] = {}
        into.append(found)
        if not place:
            skeleton.document = found
        for key in _keys(cursor):
            inner: list[Any] = []
            yield from _walk(cursor, (*place, key), wanted, skeleton, inner)
            found[key] = inner[0]
    else:
        into.append(_decoded(cursor.value()))
    if not place:
        skeleton.document = into[0]


def _members(cursor: _Cursor, opening: bytes) -> Iterator[tuple[str | None, bytes]]:
    if opening == b"{":
        for key in _keys(cursor):
            yield key, cursor.value()
        return
    cursor.take(b"[")
    while cursor.peek() != b"]":
        yield None, cursor.value()
        if cursor.peek() != b"]":
            cursor.take(b",")
    cursor.take(b"]")


def _keys(cursor: _Cursor) -> Iterator[str]:
    """The keys of an object; whoever asks reads each value before the next key."""
    cursor.take(b"{")
    while cursor.peek() != b"}":
        if cursor.peek() != b'"':
            cursor.take(b'"')
        key = _decoded(cursor.value())
        cursor.take(b":")
        cursor.peek()
        yield str(key)
        if cursor.peek() != b"}":
            cursor.take(b",")
    cursor.take(b"}")


def _decoded(raw: bytes) -> Any:
    try:
        return decode(raw)
    except BadRow as bad:
        raise InputRejected(f"the document is no JSON: {bad.reason}") from bad


def cut_document(data: bytes) -> Any:
    """What the beginning of a document says, as far as it goes; None of what is no JSON."""
    text = data.removeprefix(BOM)
    depths: list[int] = []
    end, closing = 0, b""
    for mark in _MARKS.finditer(text):
        byte = text[mark.start()]
        if byte == 0x2C:
            end, closing = mark.start(), bytes(reversed(depths))
        elif byte in b"{[":
            depths.append(0x7D if byte == 0x7B else 0x5D)
            end, closing = mark.end(), bytes(reversed(depths))
        elif byte in b"}]":
            if not depths:
                return None
            depths.pop()
            end, closing = mark.end(), bytes(reversed(depths))
    try:
        return json.loads((text[:end] + closing).decode("utf-8", errors="replace"))
    except (ValueError, RecursionError):
        return None
