"""Rows of JSON Lines, tables, Parquet and documents, by content; rows that belong together."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from eval_pipeline.adapters._grouping import gathered
from eval_pipeline.adapters._head import Head, look_at, open_content
from eval_pipeline.adapters._json_items import Place, Skeleton, json_items
from eval_pipeline.adapters.mapped_rows import ScatteredRows
from eval_pipeline.adapters.tool import ResultRow
from eval_pipeline.bundle.files import LINE_BYTES, UNPACKED_BYTES
from eval_pipeline.bundle.lines import BOM, BadRow, decode
from eval_pipeline.bundle.parquet import as_python, row_batches
from eval_pipeline.bundle.problems import shorten
from eval_pipeline.errors import InputRejected

Row = dict[str, Any]
Bad = ResultRow
T = TypeVar("T")
BLOCK = 4 << 20


def text_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Every line that is not blank, with its number; of packed files and UTF-16 too."""
    with open_content(path) as stream:
        rest, number, is_first = b"", 0, True
        while chunk := stream.read(BLOCK):
            *whole, rest = (rest + chunk).split(b"\n")
            if len(rest) > LINE_BYTES:
                raise InputRejected(f"a line is longer than {LINE_BYTES >> 20} MiB", line=number + 1)
            for line in whole:
                number += 1
                line = line.removeprefix(BOM) if is_first else line
                is_first = False
                if line.strip():
                    yield number, line
        if rest.strip():
            yield number + 1, rest.removeprefix(BOM) if is_first else rest


def rows_of(path: Path, places: Iterable[Place] = ((),)) -> Iterator[tuple[int, Row | Bad]]:
    """The rows of a file of any of the four kinds; one that cannot be read comes as a refused row."""
    head = look_at(path)
    if head.kind == "lines":
        yield from _json_lines(path)
    elif head.kind == "parquet":
        for batch in row_batches(path, most_bytes=UNPACKED_BYTES):
            yield from enumerate(as_python(batch.rows), start=batch.first_row)
    elif head.kind == "document":
        yield from _items(path, places)
    else:
        yield from table_rows(path, head)


def _json_lines(path: Path) -> Iterator[tuple[int, Row | Bad]]:
    last: tuple[int, Row | Bad] | None = None
    for number, line in text_lines(path):
        if last is not None:
            yield last
        last = number, _row_of(line, number)
    if last is not None:
        # A last line that is no JSON means that the file was cut off: nobody knows what else is missing.
        if isinstance(last[1], ResultRow):
            raise InputRejected(
                f"the last line cannot be decoded ({last[1].reason}): the file looks cut off", line=last[0]
            )
        yield last


def _row_of(line: bytes, number: int) -> Row | Bad:
    try:
        value = decode(line)
        reason = "a line holds one JSON object"
    except BadRow as bad:
        value, reason = None, bad.reason
    if isinstance(value, dict):
        return value
    return ResultRow({}, number, reason=reason, text=shorten(line.decode("utf-8", errors="replace")))


def _items(path: Path, places: Iterable[Place]) -> Iterator[tuple[int, Row | Bad]]:
    with open_content(path) as stream:
        for number, (_, _, value) in enumerate(json_items(stream, list(places)), start=1):
            if isinstance(value, dict):
                yield number, value
            else:
                yield number, ResultRow({}, number, reason="a row is an object", text=shorten(str(value)))


def table_rows(path: Path, head: Head) -> Iterator[tuple[int, Row | Bad]]:
    """The rows of a table whose first line names its columns."""
    separator = head.separator or ","
    csv.field_size_limit(LINE_BYTES)
    texts = (line.decode("utf-8", errors="surrogateescape") + "\n" for line in _all_lines(path))
    reader = csv.reader(texts, delimiter=separator)
    names: list[str] = []
    line = 1
    try:
        for cells in reader:
            number, line = line, reader.line_num + 1
            if not names:
                names = cells
            elif cells and len(cells) != len(names):
                reason = f"has {len(cells)} cells, and there are {len(names)} columns"
                yield number, ResultRow({}, number, reason=reason, text=shorten(separator.join(cells)))
            elif cells:
                yield number, dict(zip(names, cells, strict=True))
    except csv.Error as error:
        raise InputRejected(f"{path.name} cannot be read as a table: {error}", line=line) from error


def _all_lines(path: Path) -> Iterator[bytes]:
    before = 0
    for number, line in text_lines(path):
        yield from [b""] * (number - before - 1)
        before = number
        yield line.removesuffix(b"\r")


def grouped(
    rows: Iterable[tuple[int, T]], key: Callable[[T], str], *, scattered: bool
) -> Iterator[tuple[str, list[tuple[int, T]]]]:
    """Rows with one key together; one that returns after others raises ScatteredRows, unless `scattered` says so."""
    if scattered:
        yield from gathered(rows, key)
        return
    done: set[str] = set()
    current = ""
    group: list[tuple[int, T]] = []
    for number, row in rows:
        name = key(row)
        if group and name != current:
            yield current, group
            done.add(current)
            group = []
            if name in done:
                raise ScatteredRows
        current = name
        group.append((number, row))
    if group:
        yield current, group


def document_items(
    path: Path, *places: Place, skeleton: Skeleton | None = None
) -> Iterator[tuple[Place, Any, Any]]:
    """The members of these places of a JSON document, one by one; the rest of it goes into the skeleton."""
    with open_content(path) as stream:
        yield from json_items(stream, places, skeleton)


def skeleton_of(path: Path, *places: Place) -> Any:
    """What a document says outside of these places."""
    kept = Skeleton()
    for _ in document_items(path, *places, skeleton=kept):
        pass
    return kept.document
