"""The store opened: configured alike, behind the lock, for as short as can be."""

from __future__ import annotations

import itertools
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from eval_pipeline.errors import StoreBusy, StoreMissing
from eval_pipeline.store.checkpoint import (
    _blocks_of,
    _checkpoint_long_log,
    _log_of,
    _restore_blocks,
)
from eval_pipeline.store.damage import (
    _opening_failed,
    _refuse_foreign,
    _refuse_lost,
    _refuse_other_files,
    _what_failed,
    is_there,
)
from eval_pipeline.store.durable import place_durably
from eval_pipeline.store.engine import attached
from eval_pipeline.store.lock import (
    PATIENCE_SECONDS,
    Clock,
    Notify,
    _is_used_here,
    _mark_used,
    reader_lock,
    writer_lock,
)
from eval_pipeline.store.schema import _is_current, _migrate, _refresh_shipped_views

Connection = duckdb.DuckDBPyConnection
# What a statement raises.
StatementError = duckdb.Error

RETRY_SECONDS = 0.05
_first_look = threading.Lock()
_numbers = itertools.count(1)


@contextmanager
def _open_writer(
    db: Path, clock: Clock, notify: Notify | None, *, is_new: bool = False
) -> Iterator[Connection]:
    """As `Project.write` says."""
    _refuse_others(db)
    with says_what_failed(db):
        db.parent.mkdir(parents=True, exist_ok=True)
        with writer_lock(db, clock, notify=notify):
            if not is_there(db):
                if not is_new:
                    _refuse_lost(db)
                _make_new(db, clock)
            with _connect(db, read_only=False) as con:
                _say_migrated(db, _make_current(con, clock), notify)
                yield con


def _make_new(db: Path, clock: Clock) -> None:
    """A new store is made beside its place: whoever finds one there finds all of it."""
    fresh = db.with_name(db.name + ".making")
    beside = [fresh, _log_of(fresh)]
    for path in beside:
        path.unlink(missing_ok=True)
    try:
        with _connect(fresh, read_only=False) as con:
            _migrate(con, clock)
        # What is left of a file that is gone must not be read into this one.
        for path in (_log_of(db), _blocks_of(db)):
            path.unlink(missing_ok=True)
        place_durably(fresh, db)
    finally:
        for path in beside:
            path.unlink(missing_ok=True)


def _make_current(con: Connection, clock: Clock) -> str | None:
    """Bring the store up to date; returns what was done to an older one."""
    migrated = _migrate(con, clock)
    _refresh_shipped_views(con)
    return migrated


def _say_migrated(db: Path, migrated: str | None, notify: Notify | None) -> None:
    """Where nobody listens as a warning."""
    if migrated:
        (notify or warnings.warn)(f"{db}: {migrated}")


@contextmanager
def says_what_failed(db: Path) -> Iterator[None]:
    """A full disk, a folder without rights, a broken file: in words, whoever was told by the system first."""
    try:
        yield
    except BrokenPipeError:
        raise
    except Exception as error:
        failed = _what_failed(db, error)
        if failed is None:
            raise
        raise failed from error


@contextmanager
def _open_reader(
    db: Path, clock: Clock, notify: Notify | None, patience: float, *, for_others: bool
) -> Iterator[Connection]:
    """As `Project.read` says."""
    _refuse_others(db)
    if not is_there(db):
        _refuse_lost(db)
        raise StoreMissing(
            f"there is no store at {db}: `eval-pipeline load PATH` makes one, "
            "--db or EVAL_PIPELINE_DB names another place"
        )
    while True:
        with says_what_failed(db):
            _end_checkpoint(db, clock, notify, patience)
        with (
            says_what_failed(db),
            reader_lock(db, clock, notify=notify, patience=patience),
            _connect(db, read_only=True, for_others=for_others, patience=patience) as con,
        ):
            if _is_current(con):
                yield con
                return
        with _open_writer(db, clock, notify):
            pass


def _end_checkpoint(db: Path, clock: Clock, notify: Notify | None, patience: float) -> None:
    """Wait for one that is under way, and undo one whose process died."""
    if _blocks_of(db).exists():
        with writer_lock(db, clock, notify=notify, patience=patience):
            _restore_blocks(db)


def _refuse_others(db: Path) -> None:
    """Raise for what is no store of ours, before anything is put beside it."""
    with says_what_failed(db):
        _refuse_other_files(db)
        if _is_used_here(db) or not is_there(db):
            return
        # Two threads must not look at once: one would open for writing what the other still reads.
        with _first_look:
            if not _is_used_here(db):
                with _connect(db, read_only=True):
                    pass
                _mark_used(db)


@contextmanager
def open_in_memory(clock: Clock) -> Iterator[Connection]:
    """A store that lives as long as the block, for examples; guarded, since these are formulas."""
    with attached(None, guarded=True) as con:
        _migrate(con, clock)
        yield con


@contextmanager
def transaction(con: Connection) -> Iterator[None]:
    """All of the block's writes, or none of them."""
    con.execute("begin transaction")
    try:
        yield
    except BaseException:
        with suppress(duckdb.Error):
            con.execute("rollback")
        raise
    con.execute("commit")
    _checkpoint_long_log(con)


@contextmanager
def _connect(
    db: Path,
    *,
    read_only: bool,
    for_others: bool = False,
    guarded: bool = True,
    patience: float = PATIENCE_SECONDS,
) -> Iterator[Connection]:
    """Open the file, waiting for programs that hold it without knowing our lock; call it behind the lock.

    A store can come from another person: its views and macros open no other file, unless `guarded` is false.
    """
    _refuse_other_files(db)
    with ExitStack() as stack:
        opening = partial(
            attached, db, read_only=read_only, for_others=for_others, guarded=guarded and not for_others
        )
        con = _wait_for(db, stack, opening, patience=patience)
        _refuse_foreign(con, db)
        yield con


def _wait_for(
    db: Path,
    stack: ExitStack,
    opening: Callable[[], AbstractContextManager[Connection]],
    *,
    patience: float,
) -> Connection:
    started = time.monotonic()
    while True:
        try:
            return stack.enter_context(opening())
        except duckdb.ResourceInUseException as error:
            raise StoreBusy(
                f"{db} is open in this very process, beside eval-pipeline: close that connection, or make it with "
                "`duckdb.connect(path, read_only=True)` if both only read. Then try again."
            ) from error
        except duckdb.IOException as error:
            message = str(error)
            if "lock" not in message.lower():
                raise _opening_failed(db, error) from error
            if time.monotonic() - started > patience:
                raise StoreBusy(
                    f"{db} is held by another program: {message}. Close it and try again."
                ) from error
        except duckdb.Error as error:
            raise _opening_failed(db, error) from error
        time.sleep(RETRY_SECONDS)


def own_table(
    con: Connection, stem: str, select: str, parameters: Sequence[object] | Mapping[str, object] = ()
) -> str:
    """Keep the rows of a query in a temporary table that no other question names; returns what statements call it."""
    name = f"{stem}_{next(_numbers)}"
    con.execute(f"create temp table {name} as {select}", parameters)
    return f"temp.{name}"


def first_row(con: Connection, sql: str, parameters: Sequence[object] = ()) -> tuple[Any, ...] | None:
    """The first row of a query, with the result closed (an open one would block the connection)."""
    rows = con.execute(sql, list(parameters)).fetchall()
    return rows[0] if rows else None


def first_value(con: Connection, sql: str, parameters: Sequence[object] = ()) -> Any:
    """The first column of the first row, or None."""
    row = first_row(con, sql, parameters)
    return row[0] if row else None
