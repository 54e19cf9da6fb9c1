"""Rows with one key brought together, however far apart: in memory, or on disk where they are many."""

from __future__ import annotations

import pickle
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import IO, Any, TypeVar

T = TypeVar("T")
HELD_ROWS = 200_000
BUCKETS = 64


def gathered(
    rows: Iterable[tuple[int, T]], key: Callable[[T], str], *, held_rows: int = HELD_ROWS
) -> Iterator[tuple[str, list[tuple[int, T]]]]:
    """Every key with its rows; in the order of the first rows, unless there are too many to be held."""
    held: dict[str, list[tuple[int, T]]] = {}
    pending = iter(rows)
    for count, (number, row) in enumerate(pending, start=1):
        held.setdefault(key(row), []).append((number, row))
        if count >= held_rows:
            break
    else:
        yield from held.items()
        return
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(BUCKETS)]
        for name, group in held.items():
            for numbered in group:
                _put(files, name, numbered)
        held.clear()
        for number, row in pending:
            _put(files, key(row), (number, row))
        for file in files:
            yield from _taken(file).items()


def _put(files: Sequence[IO[bytes]], name: str, numbered: tuple[int, Any]) -> None:
    file = files[zlib.crc32(name.encode("utf-8", errors="surrogatepass")) % BUCKETS]
    pickle.dump((name, numbered), file, protocol=pickle.HIGHEST_PROTOCOL)


def _taken(file: IO[bytes]) -> dict[str, list[tuple[int, Any]]]:
    """One bucket; nobody else has written into a file without a name."""
    found: dict[str, list[tuple[int, Any]]] = {}
    file.seek(0)
    while True:
        try:
            name, numbered = pickle.load(file)
        except EOFError:
            return found
        found.setdefault(name, []).append(numbered)
