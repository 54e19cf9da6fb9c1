"""What can be seen of a file before it is read: its kind by content, its first rows."""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from eval_pipeline.adapters._json_items import cut_document
from eval_pipeline.bundle.files import BinaryStream
from eval_pipeline.errors import InputRejected

Kind = Literal["lines", "document", "table", "text", "parquet", "zip", "sqlite", "empty", "binary", "folder"]
HEAD_BYTES = 1 << 20
SEEN_ROWS = 50
MOST_NAMES = 5_000
SEPARATORS = (",", "\t", ";")
_PACKINGS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
_MAGIC: dict[bytes, Kind] = {b"PK\x03\x04": "zip", b"PAR1": "parquet", b"SQLite format 3\x00": "sqlite"}
_WIDE = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class _Recoded:
    """UTF-16 as UTF-8, piece by piece."""

    def __init__(self, stream: BinaryStream, encoding: str, first: bytes) -> None:
        self.stream = stream
        self.decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        self.rest = self.decoder.decode(first).encode()

    def read(self, size: int = -1, /) -> bytes:
        while not self.rest or size < 0:
            chunk = self.stream.read(HEAD_BYTES)
            self.rest += self.decoder.decode(chunk, not chunk).encode()
            if not chunk:
                break
        found, self.rest = (self.rest, b"") if size < 0 else (self.rest[:size], self.rest[size:])
        return found


class _Begun:
    """A stream of which the first bytes were read already."""

    def __init__(self, stream: BinaryStream, first: bytes) -> None:
        self.stream, self.first = stream, first

    def read(self, size: int = -1, /) -> bytes:
        if self.first:
            found, self.first = (self.first, b"") if size < 0 else (self.first[:size], self.first[size:])
            return found + self.stream.read(size) if size < 0 else found
        return self.stream.read(size)


def _packing_of(first: bytes) -> str | None:
    """How a file that begins so is packed."""
    return next((codec for magic, codec in _PACKINGS.items() if first.startswith(magic)), None)


def _once_more(stream: BinaryStream) -> BinaryStream:
    """What is packed twice, as ranx does, unpacked twice."""
    begin = stream.read(4)
    inner: BinaryStream = _Begun(stream, begin)
    if not begin or _packing_of(begin) != "lz4":
        return inner
    return pa.CompressedInputStream(pa.BufferReader(begin + stream.read()), "lz4")  # type: ignore[no-any-return]


@contextmanager
def open_content(path: Path) -> Iterator[BinaryStream]:
    """The file's bytes as UTF-8, unpacked: what they are says the content, not the name."""
    try:
        with path.open("rb") as file:
            file.seek(0)
            first = file.read(4)
            packing = _packing_of(first)
            file.seek(0)
            stream: BinaryStream = file
            if packing:
                stream = pa.CompressedInputStream(pa.PythonFile(file, "r"), packing)
                if packing == "lz4":
                    stream = _once_more(stream)
            begin = stream.read(2)
            encoding = _WIDE.get(begin)
            yield _Recoded(stream, encoding, b"") if encoding else _Begun(stream, begin)
    except (OSError, pa.ArrowException, EOFError) as error:
        raise InputRejected(f"{path.name} cannot be read: {error}") from error


@dataclass(frozen=True)
class Head:
    """The beginning of a file, or the names in a folder."""

    path: Path
    data: bytes = b""
    names: tuple[str, ...] = ()
    whole: bool = field(default=False)

    @cached_property
    def kind(self) -> Kind:
        """What the file is, by its content."""
        if self.names or self.path.is_dir():
            return "folder"
        for magic, kind in _MAGIC.items():
            if self.data.startswith(magic):
                return kind
        text = self.data.removeprefix(codecs.BOM_UTF8).lstrip()
        if not text:
            return "empty"
        if b"\x00" in text:
            return "binary"
        if text[:1] in (b"{", b"["):
            return self._kind_of_json(text)
        return "table" if self.separator else "text"

    def _kind_of_json(self, text: bytes) -> Kind:
        first, _, rest = text.partition(b"\n")
        if first.lstrip()[:1] != b"{" or not _is_json(first):
            return "document"
        # One object on one line is both: here alone the name decides.
        is_line = bool({".jsonl", ".ndjson"} & set(self.path.suffixes))
        return "lines" if rest.strip() or is_line else "document"

    @cached_property
    def document(self) -> Any:
        """What a JSON document says at its beginning; None of other files."""
        return cut_document(self.data) if self.kind == "document" else None

    @cached_property
    def separator(self) -> str | None:
        """What stands between the cells of a table: the character that cuts the first lines into as many each."""
        lines = self._texts()
        for mark in SEPARATORS:
            cells = [len(row) for row in islice(csv.reader(lines, delimiter=mark), SEEN_ROWS) if row]
            cells = cells[:-1] if len(cells) > 2 and not self.whole else cells
            if cells and cells[0] > 1 and all(one == cells[0] for one in cells):
                return mark
        return None

    def _texts(self) -> list[str]:
        text = self.data.removeprefix(codecs.BOM_UTF8).decode("utf-8", errors="replace").replace("\x00", "?")
        return text.splitlines(keepends=True)

    @cached_property
    def lines(self) -> list[str]:
        """The first lines that are not blank, without their breaks."""
        texts = self._texts()
        texts = texts if self.whole or len(texts) < 2 else texts[:-1]
        return [one.rstrip("\r\n") for one in islice((text for text in texts if text.strip()), SEEN_ROWS)]

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The first rows of JSON Lines, a table or Parquet, as objects."""
        if self.kind == "lines":
            texts = (line.encode() for line in self.lines)
            found = [json.loads(text) for text in texts if _is_json(text)]
            return [row for row in found if isinstance(row, dict)]
        if self.kind == "table":
            cells = list(islice(csv.reader(self._texts(), delimiter=self.separator or ","), SEEN_ROWS))
            return [dict(zip(cells[0], row, strict=False)) for row in cells[1:] if row]
        if self.kind == "parquet":
            return _parquet_rows(self.path)
        return []

    @cached_property
    def columns(self) -> set[str]:
        """Every name that the first rows have."""
        return {name for row in self.rows for name in row}

    def described(self) -> str:
        """What was seen, in words, for a file that nobody knows."""
        if self.kind == "folder":
            shown = ", ".join(self.names[:8]) + (", …" if len(self.names) > 8 else "")
            return f"a folder with {shown or 'nothing in it'}"
        if self.kind in ("lines", "table", "parquet"):
            what = {"lines": "JSON Lines", "table": "a table", "parquet": "Parquet"}[self.kind]
            return (
                f"{what} with the fields {_shown(sorted(self.columns))}"
                if self.rows
                else f"{what} without a row"
            )
        if self.kind == "document":
            if isinstance(self.document, dict):
                return f"a JSON document with {_shown(list(self.document))}"
            return "a JSON document" + (" that is a list" if isinstance(self.document, list) else "")
        if self.kind == "text":
            return f"lines of text that begin {self.lines[0][:60]!r}" if self.lines else "text"
        return {"zip": "a ZIP archive", "sqlite": "an SQLite database", "empty": "an empty file"}.get(
            self.kind, "bytes of an unknown kind"
        )


def _shown(names: list[str], most: int = 12) -> str:
    texts = [name if len(name) <= 40 else name[:40] + "…" for name in names[:most]]
    return ", ".join(texts) + (", …" if len(names) > most else "")


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _parquet_rows(path: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            batch = next(file.iter_batches(batch_size=SEEN_ROWS), None)
            return batch.to_pylist(maps_as_pydicts="lossy") if batch is not None else []
    except (pa.ArrowException, OSError, ValueError, NotImplementedError) as error:
        raise InputRejected(f"{path.name} cannot be read as Parquet: {error}") from error


def is_wide(path: Path) -> bool:
    """Whether a file is in UTF-16, packed or not."""
    try:
        with path.open("rb") as file:
            first = file.read(4)
            packing = _packing_of(first)
            if packing is None:
                return first[:2] in _WIDE
            file.seek(0)
            return pa.CompressedInputStream(pa.PythonFile(file, "r"), packing).read(2) in _WIDE
    except (OSError, pa.ArrowException):
        return False


def look_at(path: Path) -> Head:
    """The beginning of this file, or what the folder holds."""
    if path.is_dir():
        found = (one for one in sorted(path.rglob("*")) if one.is_file())
        return Head(path, names=tuple(str(one.relative_to(path)) for one in islice(found, MOST_NAMES)))
    with open_content(path) as stream:
        data = b""
        while len(data) < HEAD_BYTES and (chunk := stream.read(HEAD_BYTES - len(data))):
            data += chunk
        return Head(path, data, whole=not stream.read(1))
