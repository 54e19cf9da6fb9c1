"""Delivered files: found by name in any accepted packing, hashed, and read in blocks of whole lines."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from eval_pipeline.errors import InputRejected

BLOCK_BYTES = 16 << 20
LINE_BYTES = 64 << 20
UNPACKED_BYTES = 64 << 30
SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")


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
    try:
        with _open(path) as stream:
            yield stream
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise InputRejected(f"{path.name} cannot be decompressed: {error}") from error
    except OSError as error:
        raise InputRejected(f"{path.name} cannot be read: {error.strerror or error}") from error


@contextmanager
def _open(path: Path) -> Iterator[BinaryStream]:
    if path.name.endswith(".zst"):
        with _open_zstandard(path) as stream:
            yield stream
    elif path.name.endswith(".gz"):
        with gzip.open(path, "rb") as packed:
            yield packed
    else:
        with path.open("rb") as plain:
            yield plain


@contextmanager
def _open_zstandard(path: Path) -> Iterator[BinaryStream]:
    import zstandard

    try:
        with path.open("rb") as packed:
            yield zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)
    except zstandard.ZstdError as error:
        raise InputRejected(f"{path.name} cannot be decompressed: {error}") from error


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
