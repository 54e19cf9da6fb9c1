"""The next pieces read on other threads while the caller is busy with this one."""

# Parsing, hashing and compressing happen outside the interpreter's lock, and so does the database's writing.

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

THREADS = 2


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
