"""Somebody's knowledge base in SQLite: aggregates of runs are written back into its table eval_runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from eval_pipeline.errors import StoreBusy, StoreError, UnknownName, UsageError
from eval_pipeline.store.open import says_what_failed
from eval_pipeline.store.project import Project

HEADER: Final = b"SQLite format 3\0"
BUSY_SECONDS: Final = 5.0
UPDATE: Final = "UPDATE eval_runs SET aggregate_json = :json WHERE run_id = :id"
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_NOT_WRITABLE = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
_MISSING = ("no such table", "no such column")


def _is_knowledge_base(db: Path) -> bool:
    """Whether the file begins as a database of SQLite does."""
    with says_what_failed(db):
        if not db.is_file():
            return False
        with db.open("rb") as file:
            return file.read(len(HEADER)) == HEADER


@dataclass(frozen=True)
class WrittenBack:
    """Which runs of a knowledge base have their aggregate there now, and why the others do not; as named there."""

    written: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


def require_writable(db: Path) -> None:
    """An error where the aggregates of runs could not be written now; nothing is."""
    if not _is_knowledge_base(db):
        raise UsageError(
            f"{db} is no database of a knowledge base (SQLite): only there can aggregates be written back"
        )
    try:
        with closing(_connect(db)) as con:
            con.execute("select run_id, aggregate_json from eval_runs limit 0")
            con.execute("begin immediate")
            con.rollback()
    except sqlite3.Error as error:
        raise _explained(db, error) from error


def write_aggregates(project: Project, db: Path, names: Mapping[str, str]) -> WrittenBack:
    """The stored aggregates of these runs (name here → name there) into the knowledge base, all or none."""
    report = WrittenBack()
    with project.read() as store:
        rows = store.con.execute(
            "select run_id, aggregate_json from eval_runs where run_id in (select unnest(?))", [list(names)]
        ).fetchall()
    known = dict(rows)
    for run_id, there in names.items():
        if run_id not in known:
            report.left_out[there] = "it is not in the store"
        elif known[run_id] is None:
            report.left_out[there] = "it could not be computed"
        else:
            report.written.append(there)
    here = {there: run_id for run_id, there in names.items()}
    _write_all(db, {there: known[here[there]] for there in report.written})
    return report


def _write_back(db: Path, run_id: str, aggregate_json: str) -> None:
    """Make this the run's aggregate_json; an unknown run is an error and nothing is written."""
    _write_all(db, {run_id: aggregate_json})


def _write_all(db: Path, aggregates: Mapping[str, str]) -> None:
    """In one transaction; another column, or another run, is never touched."""
    try:
        with closing(_connect(db)) as con, con:
            for run_id, aggregate_json in aggregates.items():
                if con.execute(UPDATE, {"json": aggregate_json, "id": run_id}).rowcount == 0:
                    rows = con.execute("select run_id from eval_runs").fetchall()
                    raise UnknownName("run", run_id, (str(known) for (known,) in rows))
    except sqlite3.Error as error:
        raise _explained(db, error) from error


def _connect(db: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{db.resolve().as_uri()}?mode=rw", uri=True, timeout=BUSY_SECONDS)


def _explained(db: Path, error: sqlite3.Error) -> StoreError:
    # The lower byte is the kind; what is above it says more than a user can act on.
    kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if kind in _LOCKED:
        return StoreBusy(
            f"{db} is being written by another program; waited {BUSY_SECONDS:g} s and wrote nothing. Try again when it "
            "has finished."
        )
    if kind in _NOT_WRITABLE:
        return StoreError(
            f"{db} cannot be written ({error}): give yourself the right to write to it and to its folder, where SQLite "
            "keeps a journal meanwhile. Nothing was written."
        )
    if str(error).startswith(_MISSING):
        return StoreError(
            f"{db} is an SQLite database and no knowledge base ({error}): a table eval_runs with the columns run_id "
            "and aggregate_json is needed. Nothing was written."
        )
    return StoreError(f"{db} could not be written; SQLite says: {error}. Nothing was written.")
