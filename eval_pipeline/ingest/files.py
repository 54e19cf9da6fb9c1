"""Delivered files: found by name in any accepted packing, hashed, and read in blocks of whole lines."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from eval_pipeline.errors import InputRejected

BLOCK_BYTES = 16 << 20
LINE_BYTES = 64 << 20
UNPACKED_BYTES = 64 << 30
SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")
CODECS = {".gz": "gzip", ".zst": "zstd"}
PARQUET_ROWS = 2000


class BinaryStream(Protocol):
    """What reading needs of an opened file."""

    def read(self, size: int = -1, /) -> bytes: ...


@dataclass(frozen=True)
class LineBlock:
    """Whole lines of a file; `first_line` counts from 1."""

    data: bytes
    first_line: int


def find_part(folder: Path, stem: str) -> Path | None:
    """The file of a part in whatever packing it came; two packings of one part are a contradiction."""
    found = [folder / (stem + suffix) for suffix in SUFFIXES if (folder / (stem + suffix)).is_file()]
    if len(found) > 1:
        names = " and ".join(path.name for path in found)
        raise InputRejected(f"{names} both deliver {stem}: keep one of them")
    return found[0] if found else None


def stem_of(path: Path) -> str:
    """File name without the packing suffix."""
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if path.name.endswith(suffix):
            return path.name[: -len(suffix)]
    return path.stem


@contextmanager
def open_unpacked(path: Path) -> Iterator[BinaryStream]:
    """The file's bytes, decompressed; broken compression surfaces as InputRejected."""
    codec = next((codec for suffix, codec in CODECS.items() if path.name.endswith(suffix)), None)
    try:
        if codec is None:
            with path.open("rb") as plain:
                yield plain
        elif not path.stat().st_size:
            raise InputRejected(f"{path.name} cannot be decompressed: it is empty")
        else:
            with pa.CompressedInputStream(pa.OSFile(str(path)), codec) as packed:
                yield packed
    except OSError as error:
        failed = "cannot be decompressed" if codec and error.errno is None else "cannot be read"
        raise InputRejected(f"{path.name} {failed}: {error.strerror or error}") from error


def content_hash(path: Path) -> str:
    """Hash of the unpacked bytes: the same rows in another packing are the same delivery."""
    digest = hashlib.sha256()
    with open_unpacked(path) as stream:
        size = 0
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
            size += len(chunk)
            if size > UNPACKED_BYTES:
                raise InputRejected(f"{path.name} unpacks to more than {UNPACKED_BYTES >> 30} GiB")
    return digest.hexdigest()


def line_blocks(path: Path, *, block_bytes: int = BLOCK_BYTES) -> Iterator[LineBlock]:
    """Blocks of whole lines, so that memory does not grow with the file."""
    if path.name.endswith(".parquet"):
        yield from _rows_as_lines(path)
        return
    with open_unpacked(path) as stream:
        rest = b""
        line = 1
        while chunk := stream.read(block_bytes):
            data = rest + chunk
            cut = data.rfind(b"\n") + 1
            if not cut:
                if len(data) > LINE_BYTES:
                    raise InputRejected(f"a line is longer than {LINE_BYTES >> 20} MiB", line=line)
                rest = data
                continue
            yield LineBlock(data[:cut], line)
            line += data.count(b"\n", 0, cut)
            rest = data[cut:]
        if rest:
            yield LineBlock(rest, line)


def _rows_as_lines(path: Path) -> Iterator[LineBlock]:
    """A Parquet file's rows as lines of JSON, so that they are read and checked as every other row."""
    import pyarrow.parquet as pq

    line = 1
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=PARQUET_ROWS):
                rows = batch.to_pylist(maps_as_pydicts="lossy")
                yield LineBlock(
                    "".join(json.dumps(row, default=_as_text) + "\n" for row in rows).encode(), line
                )
                line += len(rows)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputRejected(f"{path.name} cannot be read as Parquet: {error}") from error


def _as_text(value: Any) -> str:
    """Bytes that are no UTF-8 become what the row's own check refuses."""
    return value.decode("utf-8", errors="surrogateescape") if isinstance(value, bytes) else str(value)
