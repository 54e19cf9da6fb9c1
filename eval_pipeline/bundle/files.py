"""Delivered files: found by name in any accepted packing, hashed, and read in blocks of whole lines."""

from __future__ import annotations

import hashlib
import io
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import pyarrow as pa

from eval_pipeline.bundle.parquet import _json_lines, row_batches
from eval_pipeline.errors import InputRejected

T = TypeVar("T")
R = TypeVar("R")

THREADS = 2
BLOCK_BYTES = 16 << 20
LINE_BYTES = 64 << 20
UNPACKED_BYTES = 64 << 30
# Of parts that are held in memory as a whole: golden sets, archives, extraction cases, spot checks.
HELD_BYTES = 4 << 30
HONEST_BYTES = 1 << 30
MOST_TIMES = 500
PARQUET = ".parquet"
SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", PARQUET)
CODECS = {".gz": "gzip", ".zst": "zstd"}


class BinaryStream(Protocol):
    """What reading needs of an opened file."""

    def read(self, size: int = -1, /) -> bytes: ...


@dataclass(frozen=True)
class LineBlock:
    """Whole lines of a file; `first_line` counts from 1."""

    data: bytes
    first_line: int


def _find_part(folder: Path, stem: str) -> Path | None:
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


def hold(path: Path) -> bytes | None:
    """The bytes of a file that is to be hashed, read and kept, so that it is opened once; None of a large one."""
    try:
        return path.read_bytes() if path.stat().st_size <= BLOCK_BYTES else None
    except OSError:
        return None


@contextmanager
def open_unpacked(path: Path, held: bytes | None = None) -> Iterator[BinaryStream]:
    """The file's bytes, decompressed; broken compression surfaces as InputRejected."""
    codec = next((codec for suffix, codec in CODECS.items() if path.name.endswith(suffix)), None)
    try:
        if codec is None:
            with path.open("rb") if held is None else io.BytesIO(held) as plain:
                yield plain
        elif not _size_of(path, held):
            raise InputRejected(f"{path.name} cannot be decompressed: it is empty")
        else:
            source = pa.OSFile(os.fspath(path)) if held is None else pa.BufferReader(held)
            with pa.CompressedInputStream(source, codec) as packed:
                yield packed
    except OSError as error:
        failed = "cannot be decompressed" if codec and error.errno is None else "cannot be read"
        raise InputRejected(f"{path.name} {failed}: {error.strerror or error}") from error


def _size_of(path: Path, held: bytes | None) -> int:
    return path.stat().st_size if held is None else len(held)


def content_hash(path: Path, held: bytes | None = None) -> str:
    """Hash of the unpacked bytes: the same rows in another packing are the same delivery."""
    digest = hashlib.sha256()
    with open_unpacked(path, held) as stream:
        for chunk in _chunks(stream, path, held, most_bytes=UNPACKED_BYTES, size=1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def line_blocks(
    path: Path,
    held: bytes | None = None,
    *,
    block_bytes: int = BLOCK_BYTES,
    most_bytes: int = UNPACKED_BYTES,
) -> Iterator[LineBlock]:
    """Blocks of whole lines, so that memory does not grow with the file."""
    if path.name.endswith(PARQUET):
        for batch in row_batches(path, held, most_bytes=most_bytes):
            yield LineBlock(_json_lines(batch), batch.first_row)
        return
    with open_unpacked(path, held) as stream:
        rest = b""
        line = 1
        for chunk in _chunks(stream, path, held, most_bytes=most_bytes, size=block_bytes):
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


def _chunks(
    stream: BinaryStream, path: Path, held: bytes | None, *, most_bytes: int, size: int
) -> Iterator[bytes]:
    """The stream piece by piece, as long as what it unpacks to is a size that somebody could have meant."""
    packed = _size_of(path, held)
    total = 0
    while chunk := stream.read(size):
        total += len(chunk)
        if total > most_bytes:
            raise InputRejected(
                f"{path.name} unpacks to more than {_in_words(most_bytes)}; deliver it in parts"
            )
        if total > HONEST_BYTES and total > MOST_TIMES * packed:
            raise InputRejected(
                f"{path.name} unpacks to more than {MOST_TIMES} times its size: past {_in_words(HONEST_BYTES)} "
                "that is taken for a bomb; deliver it unpacked"
            )
        yield chunk


def _in_words(size: int) -> str:
    return f"{size >> 30} GiB" if size >= 1 << 30 else f"{size >> 20} MiB"


# Parsing, hashing and compressing happen outside the interpreter's lock, and so does the database's writing.
def read_ahead(
    pieces: Iterable[T], read: Callable[[T], R], *, weigh: Callable[[T], int], budget: int
) -> Generator[R, None, None]:
    """What `read` makes of every piece, in order; pieces of at most `budget` together are read beforehand.

    An error of `read` is raised where its piece is due.
    """
    waiting: deque[tuple[int, Future[R]]] = deque()
    held = 0
    pool = ThreadPoolExecutor(THREADS)
    try:
        for piece in pieces:
            weight = weigh(piece)
            while waiting and held + weight > budget:
                released, first = waiting.popleft()
                held -= released
                yield first.result()
            waiting.append((weight, pool.submit(read, piece)))
            held += weight
        while waiting:
            yield waiting.popleft()[1].result()
    finally:
        pool.shutdown(cancel_futures=True)
