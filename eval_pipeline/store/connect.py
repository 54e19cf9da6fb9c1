"""Opening the store: always the same configuration, always behind the lock, never for longer than needed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb

from eval_pipeline.errors import StoreBusy, StoreDamaged, StoreError, StoreMissing
from eval_pipeline.store.lock import PATIENCE_SECONDS, Tell, reader_lock, writer_lock
from eval_pipeline.store.migrate import is_current, migrate
from eval_pipeline.store.views import refresh_shipped_views

Connection = duckdb.DuckDBPyConnection

MEMORY_LIMIT = "900MB"
RETRY_SECONDS = 0.05
MEMORY = ":memory:"
STORE = "store"
DISK_TROUBLE = (
    duckdb.IOException,
    duckdb.TransactionException,
    duckdb.FatalException,
    duckdb.OutOfMemoryException,
)


@contextmanager
def open_writer(db: Path, *, tell: Tell | None = None) -> Iterator[Connection]:
    """The store for reading and writing; created, or brought up to date, when needed."""
    with _says_what_failed(db):
        db.parent.mkdir(parents=True, exist_ok=True)
        with writer_lock(db, tell=tell):
            con = _connect(db, read_only=False)
            try:
                migrate(con)
                refresh_shipped_views(con)
                yield con
            finally:
                con.close()


@contextmanager
def _says_what_failed(db: Path) -> Iterator[None]:
    """A full disk, a folder without rights: in words, whoever was told by the system first."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        place = error.filename or db
        raise StoreError(f"{place} cannot be used: {error.strerror or error}") from error
    except DISK_TROUBLE as error:
        raise StoreError(
            f"{db} could not be read or written: {_first_line(str(error))}. Nothing was half written."
        ) from error


@contextmanager
def open_reader(db: Path, *, tell: Tell | None = None) -> Iterator[Connection]:
    """The store for reading, for the length of a query or two."""
    if not db.is_file():
        raise StoreMissing(
            f"there is no store at {db}: `eval-pipeline load PATH` makes one, "
            "--db or EVAL_PIPELINE_DB names another place"
        )
    while True:
        with _says_what_failed(db), reader_lock(db, tell=tell):
            con = _connect(db, read_only=True)
            try:
                if is_current(con):
                    yield con
                    return
            finally:
                con.close()
        with open_writer(db, tell=tell):
            pass


@contextmanager
def open_what_if(db: Path, *, tell: Tell | None = None) -> Iterator[Connection]:
    """The store for reading beside scratch space in memory: to compute what is not meant to be kept."""
    with open_reader(db, tell=tell):
        pass
    with reader_lock(db, tell=tell):
        con = duckdb.connect(MEMORY, config=_config(db))
        try:
            con.execute(f"attach '{str(db).replace(chr(39), chr(39) * 2)}' as {STORE} (read_only)")
            con.execute(f"use {STORE}")
            yield con
        finally:
            con.close()


def open_in_memory() -> Connection:
    """A store that lives as long as its connection, for examples."""
    con = duckdb.connect(MEMORY, config=_config(None))
    migrate(con)
    refresh_shipped_views(con)
    return con


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


def _config(db: Path | None) -> dict[str, str | bool | int | float | list[str]]:
    config: dict[str, str | bool | int | float | list[str]] = {
        "custom_user_agent": "eval_pipeline",
        "memory_limit": MEMORY_LIMIT,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    if db is not None:
        config["temp_directory"] = str(db.with_name(db.name + ".tmp"))
    return config


def _connect(db: Path, *, read_only: bool) -> Connection:
    """Open the file, waiting for programs that hold it without knowing our lock."""
    started = time.monotonic()
    while True:
        try:
            return duckdb.connect(str(db), read_only=read_only, config=_config(db))
        except duckdb.IOException as error:
            message = str(error)
            if "lock" not in message.lower():
                raise StoreDamaged(_damaged(db, message)) from error
            if time.monotonic() - started > PATIENCE_SECONDS:
                raise StoreBusy(
                    f"{db} is held by another program: {message}. Close it and try again."
                ) from error
        except duckdb.Error as error:
            raise StoreDamaged(_damaged(db, str(error))) from error
        time.sleep(RETRY_SECONDS)


def _damaged(db: Path, message: str) -> str:
    return (
        f"{db} cannot be opened: {_first_line(message)}. Move the file away and load again: what was delivered is "
        f"kept in {db.name}.deliveries beside it, as bundles that `eval-pipeline load` takes."
    )


def _first_line(message: str) -> str:
    return message.splitlines()[0] if message else "unreadable"


def first_row(con: Connection, sql: str, parameters: Sequence[object] = ()) -> tuple[Any, ...] | None:
    """The first row of a query, with the result closed (an open one would block the connection)."""
    rows = con.execute(sql, list(parameters)).fetchall()
    return rows[0] if rows else None


def first_value(con: Connection, sql: str, parameters: Sequence[object] = ()) -> Any:
    """The first column of the first row, or None."""
    row = first_row(con, sql, parameters)
    return row[0] if row else None
