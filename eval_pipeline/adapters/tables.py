"""Somebody's own file as rows: JSON Lines, one JSON document, CSV and the like, Parquet; also packed."""

from __future__ import annotations

import csv
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_pipeline.adapters._head import is_wide, open_content
from eval_pipeline.adapters._names import QUERY_IDS, QUESTIONS, plain_name
from eval_pipeline.adapters._values import printed_list
from eval_pipeline.bundle.files import CODECS, LINE_BYTES, UNPACKED_BYTES, line_blocks, open_unpacked
from eval_pipeline.bundle.lines import BOM, BadRow, Line, decode, read_lines
from eval_pipeline.bundle.parquet import as_python, row_batches
from eval_pipeline.bundle.problems import shorten
from eval_pipeline.errors import InputRejected, UsageError

WHOLE = "."
# Behind a name: every column that goes on with a number.
EACH = "*"
DEEPEST = 6
FORMATS = ("jsonl", "json", "csv", "parquet")
WHITE_SPACE = "white space"
TREC_COLUMNS = ("qid", "iter", "docno", "rank", "sim", "run_tag")
DOCUMENT_BYTES = 1 << 30
Row = dict[str, Any]


def find_value(value: Any, place: str) -> Any:
    """What stands at this place, or None; a key that has dots itself is found too, and so is JSON inside a text."""
    if place == WHOLE:
        return value
    if isinstance(value, str):
        value = _opened(value)
    if isinstance(value, dict):
        if place in value:
            return value[place]
        if place.endswith(EACH):
            return _numbered(value, place.removesuffix(EACH))
        for cut in range(len(place) - 1, 0, -1):
            if place[cut] == "." and place[:cut] in value:
                return find_value(value[place[:cut]], place[cut + 1 :])
    if isinstance(value, list):
        first, _, rest = place.partition(".")
        if first.isascii() and first.isdigit() and int(first) < len(value):
            return find_value(value[int(first)], rest or WHOLE)
    return None


def _numbered(row: Mapping[str, Any], stem: str) -> list[Any] | None:
    """What stands in the columns doc_1, doc_2 and so on, in the order of their numbers."""
    numbers = [name.removeprefix(stem) for name in row if name.startswith(stem)]
    places = sorted(int(one) for one in numbers if one.isascii() and one.isdigit())
    return [row.get(f"{stem}{place}") for place in places] or None


def _opened(value: Any) -> Any:
    """The list or object that a text holds as JSON or as Python prints it, as cells of a table do; else as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            found = printed_list(value)
            return value if found is None else found
    return value


def places_in(row: Any, *, place: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Every place that holds something else than an object, with what it holds."""
    value = _opened(row)
    if isinstance(value, dict) and depth < DEEPEST:
        for key, inner in value.items():
            yield from places_in(inner, place=f"{place}.{key}" if place else str(key), depth=depth + 1)
    else:
        yield place or WHOLE, value


@dataclass(frozen=True)
class FileForm:
    """How a file is read; of JSON `records` names the place of the rows, `only` keeps the rows with these values."""

    format: str
    separator: str = ","
    columns: tuple[str, ...] = ()
    records: str = "."
    only: Mapping[str, Any] = field(default_factory=dict)


_BY_SUFFIX = {
    ".jsonl": FileForm("jsonl"),
    ".ndjson": FileForm("jsonl"),
    ".json": FileForm("json"),
    ".csv": FileForm("csv"),
    ".tsv": FileForm("csv", separator="\t"),
    ".run": FileForm("csv", separator=WHITE_SPACE, columns=TREC_COLUMNS),
    ".trec": FileForm("csv", separator=WHITE_SPACE, columns=TREC_COLUMNS),
    ".parquet": FileForm("parquet"),
}


def form_of(path: Path) -> FileForm:
    """How a file of this name is read."""
    name = _unpacked_name(path)
    for suffix, form in _BY_SUFFIX.items():
        if name.endswith(suffix):
            return form
    raise UsageError(
        f"{path} is of no known kind; known are {', '.join(_BY_SUFFIX)}, all but Parquet also with .gz or .zst behind. "
        "Rename it, or say `format` under [file] in the mapping."
    )


def _unpacked_name(path: Path) -> str:
    return next(
        (path.name.removesuffix(suffix) for suffix in CODECS if path.name.endswith(suffix)), path.name
    )


def own_rows(path: Path, form: FileForm) -> Iterator[Line[Row]]:
    """Every row with the line (of Parquet and JSON: the place) it stands on, or why it is none."""
    if is_wide(path):
        yield from _recoded_rows(path, form)
        return
    rows = {"jsonl": _json_lines, "json": _document, "csv": _table, "parquet": _parquet}[form.format](
        path, form
    )
    for line in rows:
        if line.record is None or all(
            find_value(line.record, place) in (value, str(value)) for place, value in form.only.items()
        ):
            yield line


def _recoded_rows(path: Path, form: FileForm) -> Iterator[Line[Row]]:
    """The rows of a file in UTF-16, which is written once more in UTF-8, unpacked."""
    with tempfile.TemporaryDirectory(prefix="eval-pipeline-") as scratch, open_content(path) as stream:
        target = Path(scratch) / _unpacked_name(path)
        with target.open("wb") as file:
            shutil.copyfileobj(stream, file)
        yield from own_rows(target, form)


def _json_lines(path: Path, _form: FileForm) -> Iterator[Line[Row]]:
    blocks = line_blocks(path)
    block = next(blocks, None)
    while block is not None:
        following = next(blocks, None)
        yield from read_lines(block, lambda row: row, last_block=following is None)
        block = following


def _parquet(path: Path, _form: FileForm) -> Iterator[Line[Row]]:
    for batch in row_batches(path, most_bytes=UNPACKED_BYTES):
        for offset, row in enumerate(as_python(batch.rows)):
            yield Line(batch.first_row + offset, "", record=row)


def _document(path: Path, form: FileForm) -> Iterator[Line[Row]]:
    """The rows inside one JSON document; an object that should be a list counts as its keys and values."""
    with open_unpacked(path) as stream:
        data = stream.read(DOCUMENT_BYTES + 1)
    if len(data) > DOCUMENT_BYTES:
        raise InputRejected(f"{path.name} is larger than {DOCUMENT_BYTES >> 30} GiB: write it as JSON Lines")
    try:
        records = find_value(decode(data.removeprefix(BOM)), form.records)
    except BadRow as bad:
        raise InputRejected(f"{path.name} cannot be read: {bad.reason}") from bad
    records = _frame_rows(records)
    if isinstance(records, dict):
        records = [{"key": key, "value": value} for key, value in records.items()]
    if not isinstance(records, list):
        raise InputRejected(
            f"{path.name} has no list of rows at {form.records!r}; name its place in `records`"
        )
    for number, row in enumerate(records, start=1):
        if isinstance(row, dict):
            yield Line(number, "", record=row)
        else:
            yield Line(number, shorten(str(row)), reason="a row is an object of names and values")


def _frame_rows(records: Any) -> Any:
    """The rows of a frame that pandas has written by columns, by index, split, or as a table; else what it was."""
    if not isinstance(records, dict) or not records:
        return records
    names, data = records.get("columns"), records.get("data")
    if isinstance(data, list) and isinstance(names, list):
        return [
            dict(zip(map(str, names), row, strict=False)) if isinstance(row, list) else row for row in data
        ]
    if isinstance(data, list) and "schema" in records:
        return data
    inner = list(records.values())
    is_table = any(plain_name(name) in (*QUERY_IDS, *QUESTIONS) for name in records)
    if is_table and all(isinstance(one, list) for one in inner) and len({len(one) for one in inner}) == 1:
        return [dict(zip(records, row, strict=True)) for row in zip(*inner, strict=True)]
    if not all(isinstance(one, dict) for one in inner):
        return records
    counted = [str(number) for number in range(len(inner[0]))]
    if counted and all(list(one) == counted for one in inner):
        return [{name: column[key] for name, column in records.items()} for key in counted]
    is_index = list(records) == [str(number) for number in range(len(records))]
    return inner if is_index and len({tuple(one) for one in inner}) == 1 else records


def _table(path: Path, form: FileForm) -> Iterator[Line[Row]]:
    names = form.columns
    for number, cells in _cells(path, form.separator):
        if not names:
            # A frame that was written with its index has a column without a name.
            names = tuple(name or f"Unnamed: {place}" for place, name in enumerate(cells))
            continue
        if len(cells) != len(names):
            text = shorten(form.separator.join(cells) if len(form.separator) == 1 else " ".join(cells))
            yield Line(number, text, reason=f"has {len(cells)} cells, and there are {len(names)} columns")
        else:
            yield Line(number, "", record=dict(zip(names, cells, strict=True)))


def _cells(path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """The cells of every row that is not blank, and the line it begins on."""
    if separator == WHITE_SPACE:
        for number, text in enumerate(_text_lines(path), start=1):
            if text.strip():
                yield number, text.split()
        return
    # The module's own limit is far below what an answer or a list of hits may have.
    csv.field_size_limit(LINE_BYTES)
    reader = csv.reader(_text_lines(path), delimiter=separator)
    line = 1
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise InputRejected(f"{path.name} cannot be read as CSV: {error}", line=line) from error
        if cells is None:
            return
        if cells:
            yield line, cells
        line = reader.line_num + 1


def _text_lines(path: Path) -> Iterator[str]:
    """Lines with their breaks; bytes that are no UTF-8 become what the row's own check refuses."""
    for block in line_blocks(path):
        data = block.data.removeprefix(BOM) if block.first_line == 1 else block.data
        for line in data.split(b"\n"):
            yield line.decode("utf-8", errors="surrogateescape") + "\n"
