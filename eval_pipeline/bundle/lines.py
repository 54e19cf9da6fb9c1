"""One line, one record: read with care, and with a reason for every line that is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Final, Generic, TypeVar

import msgspec

from eval_pipeline.bundle.files import LineBlock
from eval_pipeline.bundle.problems import (
    Problem,
    _each_leaf,
    _first_text_fault,
    _make_whole,
    _place_of_fraction,
    _text_fault,
    explain_validation,
    shorten,
)
from eval_pipeline.errors import InputRejected
from eval_pipeline.records import Record

R = TypeVar("R", bound=Record)
T = TypeVar("T")
BOM = b"\xef\xbb\xbf"
TOO_DEEP = "nested too deeply to be read"
_LOOKING: Final = Lock()


class BadRow(Exception):
    """A row that cannot be taken, with the field and the reason."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field = field or None
        self.reason = reason


@dataclass(frozen=True)
class Line(Generic[T]):
    """One line of a file: the record it holds, or why it holds none."""

    number: int
    text: str
    record: T | None = None
    field: str | None = None
    reason: str | None = None
    query_id: str | None = None


def read_lines(
    block: LineBlock, read: Callable[[dict[str, Any]], T], *, last_block: bool
) -> Iterator[Line[T]]:
    """Every non-blank line of the block, read by `read`, which raises BadRow for what it cannot take."""
    lines = block.data.split(b"\n")
    last = max((number for number, raw in enumerate(lines) if raw.strip()), default=-1) if last_block else -1
    for offset, raw in enumerate(lines):
        if offset == 0 and block.first_line == 1:
            raw = raw.removeprefix(BOM)
        if not raw.strip():
            continue
        yield _read_line(raw, block.first_line + offset, read, is_last=offset == last)


def _read_line(raw: bytes, number: int, read: Callable[[dict[str, Any]], T], *, is_last: bool) -> Line[T]:
    text = shorten(raw.decode("utf-8", errors="replace").strip())
    try:
        value = decode(raw)
    except BadRow as bad:
        if is_last:
            raise InputRejected(
                f"the last line cannot be decoded ({bad.reason}): the file looks cut off",
                line=number,
                text=text,
            ) from bad
        return Line(number, text, reason=bad.reason)
    try:
        row = _as_object(value)
        query_id = row.get("query_id", row.get("case_id"))
        known = query_id if isinstance(query_id, str) and not _text_fault(query_id) else None
    except BadRow as bad:
        return Line(number, text, reason=bad.reason)
    try:
        return Line(number, text, record=read(row), query_id=known)
    except BadRow as bad:
        return Line(number, text, field=bad.field, reason=bad.reason, query_id=known)
    except RecursionError:
        return Line(number, text, reason=TOO_DEEP, query_id=known)


def decode_object(raw: bytes) -> dict[str, Any]:
    """A JSON object; NaN and infinite numbers pass here, because only their place says whether they matter."""
    return _as_object(decode(raw))


def decode(raw: bytes) -> Any:
    """Any JSON value."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return _decode_tolerantly(raw)


def _as_object(value: Any) -> dict[str, Any]:
    """The value, if it is an object."""
    if not isinstance(value, dict):
        raise BadRow("", f"a line holds one JSON object, this one holds {_kind(value)}")
    return value


def _decode_tolerantly(raw: bytes) -> Any:
    try:
        return json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BadRow("", f"not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise BadRow("", TOO_DEEP) from error
    except ValueError as error:
        raise BadRow("", f"not JSON: {error}") from error


def _kind(value: Any) -> str:
    return {list: "a list", str: "text", type(None): "null", bool: "true or false"}.get(
        type(value), "a number"
    )


def _to_record(row: dict[str, Any], kind: type[R]) -> R:
    """Check a decoded object against its record; unknown keys may hold anything that is text."""
    fault = _first_text_fault(row)
    if fault:
        raise BadRow(*fault)
    _look_at(kind)
    try:
        record = _converted(row, kind)
    except msgspec.ValidationError as error:
        raise BadRow(*explain_validation(error)) from error
    except OverflowError as error:
        raise BadRow("", f"a number is out of range ({error})") from error
    not_finite = _first_not_finite(record)
    if not_finite:
        raise BadRow(not_finite, "numbers must be finite: NaN and infinity cannot be stored")
    return record


@cache
def _look_at(kind: type[Record]) -> None:
    """Let msgspec see what a record is made of, one thread at a time: to see it half-way ends the process."""
    with _LOOKING:
        msgspec.json.Decoder(kind)


def _converted(row: dict[str, Any], kind: type[R]) -> R:
    """The record; 5.0 is a whole number, too: so a column with gaps writes it."""
    while True:
        try:
            return msgspec.convert(row, kind)
        except msgspec.ValidationError as error:
            place = _place_of_fraction(error)
            if place is None or not _make_whole(row, place):
                raise


def _first_not_finite(record: Record) -> str | None:
    """The place of the first such number, in what the record keeps."""
    for place, value in _each_leaf(msgspec.to_builtins(record)):
        if isinstance(value, float) and not math.isfinite(value):
            return place
    return None


def problem_of(line: Line[T], path: Path | str, *, run_id: str | None = None) -> Problem:
    """A rejected line as a quarantine row."""
    return Problem(
        path=str(path),
        line=line.number,
        run_id=run_id,
        query_id=line.query_id,
        field=line.field,
        reason=line.reason or "",
        text=line.text,
    )
