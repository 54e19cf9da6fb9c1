"""Ctrl-C and a polite request to end reach a statement that is running; DuckDB by itself finishes it first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import duckdb

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interruptible(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """What is to happen on such a signal happens as before, and at once: the running statement is given up.

    Only the main thread hears of signals; elsewhere this changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    raised: list[BaseException] = []

    def give_up(number: int, frame: FrameType | None) -> None:
        con.interrupt()
        handler = before[signal.Signals(number)]
        try:
            if callable(handler):
                handler(number, frame)
        except BaseException as error:
            raised.append(error)
            raise
        raised.append(KeyboardInterrupt())

    # A signal that is ignored, or ends the process by itself, needs nothing of this.
    heard = [number for number in SIGNALS if callable(before[number])]
    for number in heard:
        signal.signal(number, give_up)
    try:
        yield
    except Exception as error:
        # The statement says that it was interrupted, not by what.
        if raised:
            raise raised[0] from error
        raise
    finally:
        for number in heard:
            signal.signal(number, before[number])
