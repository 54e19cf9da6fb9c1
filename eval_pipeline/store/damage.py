"""A file that is no store or is broken: found before it is touched, with the way back."""

from __future__ import annotations

import codecs
import errno
import os
from pathlib import Path

import duckdb

from eval_pipeline.errors import (
    EvalPipelineError,
    NotAStore,
    StoreDamaged,
    StoreError,
    StoreForeign,
    StoreLost,
    StoreNewer,
)
from eval_pipeline.settings import product_version
from eval_pipeline.store.schema import _applied_numbers, _known_numbers
from eval_pipeline.store.versions import _is_newer_release, _newest_writer
from eval_pipeline.words import count

ENOUGH = 4096
# The folder of kept deliveries has the name of the store's file with this behind.
_KEPT = ".deliveries"
SQLITE = b"SQLite format 3\0"
AN_SQLITE_DATABASE = "an SQLite database"
BEGINNINGS = (
    (SQLITE, AN_SQLITE_DATABASE),
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"PK\x03\x04", "a zip archive"),
    (b"PK\x05\x06", "a zip archive"),
    (b"\x1f\x8b\x08", "a gzip file"),
    (b"\x28\xb5\x2f\xfd", "a zstd file"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"%PDF-", "a PDF file"),
)
WHITE = "\t\n\r\f"
MAGIC = b"DUCK"
MAGIC_PLACE = 8
DISK_TROUBLE = (
    duckdb.IOException,
    duckdb.TransactionException,
    duckdb.FatalException,
    duckdb.OutOfMemoryException,
    duckdb.InternalException,
    duckdb.SerializationException,
)
SIGNS_OF_DAMAGE = (
    "corrupt",
    "checksum",
    "could not read enough bytes",
    "not a valid duckdb",
    "deserialize",
    "failure while replaying wal",
    "internal error",
    "database has been invalidated",
)
OTHER_VERSION = "storage version"
NO_RIGHTS = "Permission denied"
SHOWN_TABLES = 3
ANOTHER_FILE = "and is left alone: name another file with --db or EVAL_PIPELINE_DB."
WHAT_SQLITE_CAN = (
    " If it is a knowledge base with a table eval_runs, the Python function store_aggregate(run_id, aggregate, db=…) "
    "writes a run's aggregate_json into it. No command reads it: results come in as JSON Lines, CSV or Parquet "
    "(`eval-pipeline init FILE` looks at yours)."
)
# What makes a store anew in the place of a file that is whole.
NOT_BROKEN = "rebuild --yes"


def _refuse_other_files(db: Path) -> None:
    """Raise for a file that DuckDB would not know, or would want to read with an extension."""
    if not is_there(db):
        return
    with db.open("rb") as file:
        start = file.read(ENOUGH)
    if not start:
        raise StoreDamaged(_damaged(db, "it is empty"))
    if start[MAGIC_PLACE : MAGIC_PLACE + len(MAGIC)] == MAGIC:
        return
    kind = _format_of(start)
    if kind:
        more = WHAT_SQLITE_CAN if kind == AN_SQLITE_DATABASE else ""
        raise NotAStore(f"{db} is {kind}, no store of eval-pipeline, {ANOTHER_FILE}{more}")
    raise StoreDamaged(_damaged(db, "it is no DuckDB database, or its beginning was overwritten"))


def _refuse_lost(db: Path) -> None:
    """Raise StoreLost if deliveries are kept beside the place of a store that is missing."""
    folder = db.with_name(db.name + _KEPT)
    found = folder.iterdir() if folder.is_dir() else ()
    n_kept = sum(path.is_dir() and not path.name.startswith(".") for path in found)
    if n_kept:
        kept = count(n_kept, "delivery", plural="deliveries")
        raise StoreLost(
            f"there is no store at {db}, but {folder} contains {kept} to it. Bring the file back, or make it again "
            "with `eval-pipeline rebuild`; `eval-pipeline load PATH --new` starts an empty store"
        )


def is_there(db: Path) -> bool:
    """Whether there is a file; a folder in its place, or one that may not be looked into, is an error about it."""
    try:
        is_folder = db.is_dir()
        is_file = db.is_file()
    except OSError as error:
        raise _unusable(db, error) from error
    if is_folder:
        raise NotAStore(f"{db} is a folder, no store of eval-pipeline, {ANOTHER_FILE}")
    return is_file


def _refuse_foreign(con: duckdb.DuckDBPyConnection, db: Path) -> None:
    """Raise for a DuckDB database of another program, or one that a newer version of this program has written."""
    numbers = _applied_numbers(con)
    if numbers:
        _refuse_newer(con, db, numbers)
        return
    tables = con.execute(
        "select case schema_name when 'main' then '' else schema_name || '.' end || table_name "
        "from duckdb_tables() where database_name = current_database() and not internal order by all"
    ).fetchall()
    if tables:
        shown = ", ".join(name for (name,) in tables[:SHOWN_TABLES]) + (
            " …" if len(tables) > SHOWN_TABLES else ""
        )
        raise NotAStore(f"{db} is a DuckDB database of another program (it holds {shown}) {ANOTHER_FILE}")


def _refuse_newer(con: duckdb.DuckDBPyConnection, db: Path, numbers: set[int]) -> None:
    writer = _newest_writer(con)
    is_newer = _is_newer_release(writer)
    if is_newer or numbers - _known_numbers():
        raise StoreNewer(
            f"{db} was written by {f'eval-pipeline {writer}' if is_newer else 'a newer eval-pipeline'} (schema "
            f"{max(numbers)}), and this is {product_version()} (schema {max(_known_numbers())}), which would misread "
            "it and compute it back; nothing was changed. Install that version or a later one, or name another file "
            "with --db or EVAL_PIPELINE_DB. " + _way_back(db, words=NOT_BROKEN)
        )


def _opening_failed(db: Path, error: duckdb.Error) -> StoreError:
    """Why a file could not be opened."""
    message = str(error)
    if NO_RIGHTS in message:
        return _unusable(db, PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(db)))
    if OTHER_VERSION in message:
        return StoreForeign(
            f"{db} was written by another version of DuckDB than the one installed here ({_first_line(message)}): "
            "install that version. " + _way_back(db, words=NOT_BROKEN)
        )
    if isinstance(error, duckdb.OutOfMemoryException):
        return _in_trouble(db, message)
    return StoreDamaged(_damaged(db, _first_line(message)))


def _what_failed(db: Path, error: BaseException) -> StoreError | None:
    """The error as one about the store's file, if that is what it is."""
    while isinstance(error, EvalPipelineError) and not isinstance(error, StoreError) and error.__cause__:
        error = error.__cause__
    if isinstance(error, OSError):
        return _unusable(db, error)
    if not isinstance(error, duckdb.Error):
        return None
    message = str(error)
    if any(sign in message.lower() for sign in SIGNS_OF_DAMAGE):
        return StoreDamaged(_damaged(db, _first_line(message)))
    if isinstance(error, DISK_TROUBLE):
        return _in_trouble(db, message)
    return None


def _in_trouble(db: Path, message: str) -> StoreError:
    return StoreError(f"{db} could not be read or written: {_first_line(message)}. Nothing was half written.")


def _unusable(db: Path, error: OSError) -> StoreError:
    place = Path(error.filename or db)
    return StoreError(f"{place} cannot be used: {error.strerror or error}.{_rights(place, error)}")


def _rights(place: Path, error: OSError) -> str:
    if not isinstance(error, PermissionError):
        return ""
    return (
        f" Whoever asks the store, even to read, notes in {place.parent} that it is in use: give yourself the right to "
        "write there, or copy the store to a folder of your own."
    )


def _damaged(db: Path, why: str) -> str:
    return f"{db} cannot be read: {why}. {_way_back(db)}"


def _way_back(db: Path, *, words: str = "rebuild") -> str:
    if not _has_deliveries(db):
        return (
            f"Nothing is kept in {db.name}.deliveries to make it anew from. To start over: move the file away and call "
            "`eval-pipeline load PATH`."
        )
    return (
        f"To start over: `eval-pipeline {words} --db {db}` moves the file aside (deleting nothing) and makes the store "
        f"anew from the deliveries kept in {db.name}.deliveries."
    )


def _has_deliveries(db: Path) -> bool:
    kept = db.with_name(db.name + ".deliveries")
    return kept.is_dir() and any(path.is_dir() and not path.name.startswith(".") for path in kept.iterdir())


def _first_line(message: str) -> str:
    """What fits into a sentence."""
    return message.splitlines()[0].rstrip(".! ") if message else "unreadable"


def _format_of(start: bytes) -> str | None:
    """What a file that begins like this is, in words; None where nobody can say."""
    for beginning, words in BEGINNINGS:
        if start.startswith(beginning):
            return words
    text = _as_text(start)
    if text is None:
        return None
    return "JSON text" if text.lstrip().startswith(("{", "[")) else "a text file"


def _as_text(start: bytes) -> str | None:
    """The beginning as text, where it reads like one; a character may be cut off at its end."""
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(start)
    except UnicodeDecodeError:
        return None
    return text if text.strip() and all(one.isprintable() or one in WHITE for one in text) else None
