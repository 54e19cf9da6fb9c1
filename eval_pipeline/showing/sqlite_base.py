"""Somebody's knowledge base in SQLite: a run's aggregate is written back into its table eval_runs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from eval_pipeline.errors import StoreBusy, StoreError, UnknownName
from eval_pipeline.store.open import says_what_failed

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


def _write_back(db: Path, run_id: str, aggregate_json: str) -> None:
    """Make this the run's aggregate_json, in one transaction; an unknown run is an error and nothing is written."""
    try:
        with closing(_connect(db)) as con, con:
            changed = con.execute(UPDATE, {"json": aggregate_json, "id": run_id}).rowcount
            if changed == 0:
                rows = con.execute("select run_id from eval_runs").fetchall()
                raise UnknownName("run", run_id, (str(known) for (known,) in rows))
    except sqlite3.Error as error:
        raise _explained(db, error) from error


def _connect(db: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{db.as_uri()}?mode=rw", uri=True, timeout=BUSY_SECONDS)


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
