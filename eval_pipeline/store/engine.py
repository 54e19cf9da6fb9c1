"""DuckDB's engines, used again with the file attached; Ctrl-C within a statement."""

# An engine costs as much as a hundred small statements, so a process uses it again. A database is attached to it for as
# long as somebody works with it, always under the same name. One connection has an engine to itself; what it leaves
# behind (temporary tables, an open transaction) ends with the connection.
# A guarded engine opens no file but one store's, whatever a statement says. That cannot be undone, so that it is
# kept for that store alone.

from __future__ import annotations

import os
import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import duckdb

from eval_pipeline.formulas.definition import literal
from eval_pipeline.store.checkpoint import _checkpoint, _open_for_checkpoints

MEMORY = ":memory:"
STORE = "store"
MEMORY_LIMIT = "900MB"
SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "custom_user_agent": "eval_pipeline",
    "memory_limit": MEMORY_LIMIT,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "temp_directory": "",
    # What is committed comes into the file by `checkpoint` alone.
    "checkpoint_threshold": "1TB",
    "checkpoint_on_detach": "DISABLED",
    # What an engine no longer uses goes back to the system while it stays open.
    "allocator_background_threads": True,
}

# How DuckDB says that Ctrl-C came while a statement ran.
INTERRUPTED = "Query interrupted"
# Every use leaves about a kilobyte behind, which a process that runs for months would notice.
MOST_USES = 1000
SIGNALS = (signal.SIGINT, signal.SIGTERM)


# Engines that wait to be used again; guarded ones wait for their own store.
MOST_IDLE = 8


@dataclass(frozen=True)
class _Limits:
    """What an engine may take of the machine; None leaves it as it is for everybody."""

    threads: int | None = None
    memory_limit: str | None = None
    temp_directory: str | None = None


_EVERYBODYS = _Limits()


@dataclass(frozen=True)
class _Guard:
    """The one place that a guarded engine can open, and the limits that it has for good."""

    file: str
    limits: _Limits


@dataclass
class _Engine:
    con: duckdb.DuckDBPyConnection
    only: _Guard | None = None
    is_shut: bool = False
    uses: int = 0


_limits: ContextVar[_Limits] = ContextVar("limits", default=_EVERYBODYS)


@contextmanager
def limited(
    *, threads: int | None = None, memory_limit: str | None = None, temp_directory: str | None = None
) -> Iterator[None]:
    """Whatever is attached in the block keeps to these limits; None leaves one as it is for everybody."""
    before = _limits.get()
    _limits.set(_Limits(threads, memory_limit, temp_directory))
    try:
        yield
    finally:
        _limits.set(before)


def _keep_to(con: duckdb.DuckDBPyConnection, limits: _Limits) -> None:
    """Set the limits that are not everybody's; `_as_for_everybody` takes them back."""
    for name in ("threads", "memory_limit"):
        value = getattr(limits, name)
        if value is not None:
            con.execute(f"set {name} = ?", [value])


def _as_for_everybody(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("reset threads")
    con.execute("set memory_limit = ?", [MEMORY_LIMIT])


# Engines that nobody uses, the longest unused first; taken and given back whole, which needs no lock.
_idle: list[_Engine] = []


@contextmanager
def attached(
    place: Path | None, *, read_only: bool = False, for_others: bool = False, guarded: bool = False
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection whose own database is the file, or one in memory that ends with the block.

    What others than this package are given is an engine of their own, which knows nothing but the file: whatever they
    set, attach or register in it ends with the block. A guarded one opens no other file, whatever a statement says.
    """
    written = None if read_only else place
    with ExitStack() as stack:
        if written is not None:
            stack.enter_context(_open_for_checkpoints(written))
        engine, con = stack.enter_context(
            _attached(place, read_only=read_only, for_others=for_others, guarded=guarded)
        )
        yield con
        con.close()
        if written is not None:
            _bring_in(engine, written)


def _bring_in(engine: _Engine, file: Path) -> None:
    """Once nobody writes to it any more, everything of its log."""
    con = engine.con.cursor()
    con.execute(f"use {STORE}")
    _checkpoint(con, file)
    con.close()


@contextmanager
def _attached(
    place: Path | None, *, read_only: bool, for_others: bool, guarded: bool
) -> Iterator[tuple[_Engine, duckdb.DuckDBPyConnection]]:
    file = str(place or MEMORY)
    limits = _limits.get()
    engine = _Engine(_new()) if for_others else _take(_Guard(file, limits) if guarded else None)
    con = engine.con.cursor()
    try:
        if not engine.is_shut and place is not None:
            # What does not fit into memory goes beside the file that it comes from.
            con.execute("set temp_directory = ?", [_spill_folder(file, limits, is_own=for_others)])
        _keep_to(con, limits)
        con.execute(f"attach {literal(file)} as {STORE}{' (read_only)' if read_only else ''}")
        con.execute(f"use {STORE}")
        if for_others:
            con.execute("detach memory")
        if guarded:
            _shut(engine)
        yield engine, con
        if for_others:
            engine.con.close()
        else:
            if limits != _EVERYBODYS and engine.only is None:
                _as_for_everybody(engine.con)
            _give_back(engine)
    except BaseException as error:
        # What went wrong may have left the engine in any state.
        con.close()
        engine.con.close()
        if isinstance(error, RuntimeError) and INTERRUPTED in str(error):
            raise KeyboardInterrupt from error
        raise


def _new() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(MEMORY, config=SETTINGS)


def _spill_folder(file: str, limits: _Limits, *, is_own: bool = False) -> str:
    """Whose own files an engine may read is not told where others leave theirs: its folder `is_own`."""
    own = f".{secrets.token_hex(8)}" if is_own else ""
    return limits.temp_directory or f"{file}{own}.tmp"


def _shut(engine: _Engine) -> None:
    """From here on it opens nothing but the file that is attached; no statement can take that back."""
    if not engine.is_shut:
        engine.con.execute("set enable_external_access = false")
        engine.is_shut = True


def _take(only: _Guard | None) -> _Engine:
    passed_over: list[_Engine] = []
    try:
        while (engine := _idle.pop()).only != only:
            passed_over.insert(0, engine)
    except IndexError:
        return _Engine(_new(), only)
    finally:
        _idle[:0] = passed_over
    return engine


def _give_back(engine: _Engine) -> None:
    """Keep the engine, unless it is worn, or holds a folder of what did not fit into memory."""
    engine.uses += 1
    engine.con.execute(f"detach {STORE}")
    if engine.only is None:
        try:
            engine.con.execute("set temp_directory = ''")
        except duckdb.Error:
            engine.uses = MOST_USES
    elif Path(_spill_folder(engine.only.file, engine.only.limits)).exists():
        engine.uses = MOST_USES
    if engine.uses < MOST_USES:
        _idle.append(engine)
    else:
        engine.con.close()
    while len(_idle) > MOST_IDLE:
        _idle.pop(0).con.close()


def _end_idle() -> None:
    while _idle:
        _idle.pop().con.close()


# A forked process would have the engine without its threads, and crash when it ends it.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_end_idle)


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
