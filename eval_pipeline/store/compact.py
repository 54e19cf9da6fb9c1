"""The store's file written again without the blocks that removed rows have left."""

# DuckDB keeps freed blocks, and what stood in them.

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from eval_pipeline.errors import StoreError, StoreMissing
from eval_pipeline.formulas.definition import literal, quoted
from eval_pipeline.store.checkpoint import _blocks_of, _log_of
from eval_pipeline.store.damage import is_there
from eval_pipeline.store.durable import place_durably
from eval_pipeline.store.engine import STORE
from eval_pipeline.store.lock import writer_lock
from eval_pipeline.store.open import (
    Connection,
    _connect,
    _make_current,
    _refuse_others,
    _say_migrated,
    first_value,
    says_what_failed,
)
from eval_pipeline.store.project import Project

FRESH = "fresh"
LOOK_SECONDS = 0.1
SPARE_BYTES = 1 << 20

_Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Compacted:
    """What came of it, in bytes and rows."""

    bytes_before: int
    bytes_after: int
    tables: int
    rows: int


def compact(project: Project, *, progress: _Progress | None = None) -> Compacted:
    """Copy everything into a new file and put it in the place of the old one; nobody else has the store meanwhile.

    A process that dies leaves the old file or the new one, both whole.
    """
    db = project.settings.db
    _refuse_others(db)
    if not is_there(db):
        raise StoreMissing(f"there is no store at {db}: nothing to compact")
    fresh = db.with_name(db.name + ".compacting")
    with says_what_failed(db), writer_lock(db, project.clock, notify=project.notify):
        _remove(fresh)
        _bring_up_to_date(project)
        before = db.stat().st_size
        _check_room(db, before)
        try:
            with _watching(fresh, before, progress):
                counts = _copy(db, fresh)
            _check_copy(fresh, counts)
            require_whole(fresh)
            after = fresh.stat().st_size
            # Everything of the old file's log is in the file: it must not be read into the new one.
            _log_of(db).unlink(missing_ok=True)
            place_durably(fresh, db)
        finally:
            _remove(fresh)
        shutil.rmtree(db.with_name(db.name + ".tmp"), ignore_errors=True)
    return Compacted(before, after, len(counts.rows), sum(counts.rows.values()))


@dataclass(frozen=True)
class _Contents:
    """What a file holds: rows per table, and everything else by kind and name."""

    rows: dict[str, int]
    others: tuple[tuple[str, str], ...]


def _bring_up_to_date(project: Project) -> None:
    with _connect(project.settings.db, read_only=False) as con:
        _say_migrated(project.settings.db, _make_current(con, project.clock), project.notify)


def _copy(db: Path, fresh: Path) -> _Contents:
    with _connect(db, read_only=False, guarded=False) as con:
        con.execute(f"attach {literal(str(fresh))} as {FRESH}")
        con.execute(f"copy from database {STORE} to {FRESH}")
        contents = _contents(con)
        con.execute(f"detach {FRESH}")
    return contents


def _check_copy(fresh: Path, expected: _Contents) -> None:
    """Open the copy by itself, as the next command will."""
    with _connect(fresh, read_only=False) as con:
        found = _contents(con)
    if found != expected:
        differing = sorted(
            {
                *(set(found.rows.items()) ^ set(expected.rows.items())),
                *(set(found.others) ^ set(expected.others)),
            },
            key=str,
        )
        raise StoreError(
            f"the copy differs from the store in {differing[0]}: the store stays as it was. Free space, then try again."
        )


def _contents(con: Connection) -> _Contents:
    tables = con.execute(
        "select schema_name, table_name from duckdb_tables() "
        "where database_name = current_database() and not internal order by all"
    ).fetchall()
    rows = {
        f"{schema}.{table}": int(first_value(con, f"select count(*) from {quoted(schema)}.{quoted(table)}"))
        for schema, table in tables
    }
    return _Contents(rows, tuple(con.execute(_OTHERS).fetchall()))


_OTHERS = """
select * from (
    select 'schema' as kind, schema_name as name from duckdb_schemas()
    where database_name = current_database() and not internal
    union all
    select 'column', concat_ws('.', schema_name, table_name, column_name, data_type, is_nullable)
    from duckdb_columns()
    where database_name = current_database() and not internal
    union all
    select 'view', concat_ws('.', schema_name, view_name) from duckdb_views()
    where database_name = current_database() and not internal
    union all
    select 'macro', concat_ws('.', schema_name, function_name) from duckdb_functions()
    where database_name = current_database() and not internal
    union all
    select 'sequence', concat_ws('.', schema_name, sequence_name) from duckdb_sequences()
    where database_name = current_database()
    union all
    select 'index', concat_ws('.', schema_name, table_name, index_name) from duckdb_indexes()
    where database_name = current_database()
    union all
    select 'constraint', concat_ws('.', schema_name, table_name, constraint_text) from duckdb_constraints()
    where database_name = current_database()
)
order by all
"""


def _check_room(db: Path, wanted: int) -> None:
    free = shutil.disk_usage(db.parent).free
    if free < wanted + SPARE_BYTES:
        raise StoreError(
            f"compacting {db.name} needs room for a copy of it, up to {wanted / 1e6:,.1f} MB, and {db.parent} has "
            f"{free / 1e6:,.1f} MB left: make room, then call `eval-pipeline compact`. The store is as it was."
        )


@contextmanager
def _watching(fresh: Path, total: int, progress: _Progress | None) -> Iterator[None]:
    """Say how far the copy has grown; it ends below the size of the old file."""
    if progress is None:
        yield
        return
    is_done = threading.Event()
    report = progress

    def watch() -> None:
        while not is_done.wait(LOOK_SECONDS):
            with suppress(OSError):
                report(min(fresh.stat().st_size, total), total)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_done.set()
        watcher.join()
    report(total, total)


def require_whole(db: Path) -> None:
    """Raise unless the closed file holds everything by itself: on a full disk the last of it stays in its log."""
    with _connect(db, read_only=False):
        pass
    if _log_of(db).exists():
        raise StoreError(f"{db} could not be written to its end: make room in {db.parent}, then try again")


def _remove(fresh: Path) -> None:
    for path in (fresh, _log_of(fresh), _blocks_of(fresh)):
        path.unlink(missing_ok=True)
    shutil.rmtree(fresh.with_name(fresh.name + ".tmp"), ignore_errors=True)
