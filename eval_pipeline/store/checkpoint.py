"""What was committed brought into the store's file, in a way that a torn write can be undone."""

# DuckDB writes what has changed into free blocks and then turns the header over: what is torn on the way harms nobody.
# But where everything lies (its metadata) it adds to blocks that the header still refers to, and these it writes in
# place. One of them half written has a wrong checksum, and the whole file is lost. So they are copied beside the store
# before, and whoever opens it next puts them back, as long as the header is what it was.

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb

from eval_pipeline.store.durable import _to_disk

# Where DuckDB would by itself: a longer log is brought in between two transactions, too.
LOG_BYTES = 16 << 20
HEADER_BYTES = 3 * 4096

# The file of each store that is open for writing here. It stays open as long as DuckDB has it: closing any descriptor
# of a file gives up this process' lock on it, which keeps other programs out.
_open_files: dict[str, int] = {}


def _log_of(db: Path) -> Path:
    """Where DuckDB keeps what is committed and not yet in the file."""
    return _beside(db, ".wal")


def _blocks_of(db: Path) -> Path:
    """Where blocks wait to be put back."""
    return _beside(db, ".blocks")


def _beside(db: Path, suffix: str) -> Path:
    """Beside the file itself, as DuckDB does it, where `db` is a link to it."""
    return Path(os.path.realpath(db) + suffix)


@contextmanager
def _open_for_checkpoints(db: Path) -> Iterator[None]:
    """Around the time that DuckDB has the file open for writing; behind the writer's lock."""
    _restore_blocks(db)
    if not db.exists():
        yield
        return
    file = os.path.realpath(db)
    _open_files[file] = os.open(file, os.O_RDONLY)
    try:
        yield
    finally:
        os.close(_open_files.pop(file))


def _checkpoint(con: duckdb.DuckDBPyConnection, db: Path) -> None:
    """Bring everything of the log into the file."""
    if not _log_of(db).exists():
        return
    if (file := _open_files.get(os.path.realpath(db))) is not None:
        _keep_blocks(con, db, file)
    con.execute("checkpoint")
    # Back after a power loss it harms nobody: the header is another one.
    _blocks_of(db).unlink(missing_ok=True)


def _checkpoint_long_log(con: duckdb.DuckDBPyConnection) -> None:
    """The same where a long job has written much; not now if another thread's transaction is open."""
    # Most often one store is written to, so that its connection is asked only where there is something to do.
    for db in map(Path, list(_open_files)):
        with suppress(FileNotFoundError, duckdb.TransactionException):
            if _log_of(db).stat().st_size > LOG_BYTES and _is_of(con, db):
                _checkpoint(con, db)


def _is_of(con: duckdb.DuckDBPyConnection, db: Path) -> bool:
    asked = "select path from duckdb_databases() where database_name = current_database()"
    return con.execute(asked).fetchall() == [(str(db),)]


def _restore_blocks(db: Path) -> None:
    """Put back the blocks of a checkpoint that did not end."""
    if not _blocks_of(db).exists():
        return
    kept = _read_blocks(_blocks_of(db))
    if kept is not None and db.exists():
        with db.open("r+b") as file:
            if _hash(file.read(HEADER_BYTES)) == kept.header:
                for number, data in zip(kept.numbers, kept.data, strict=True):
                    file.seek(_place(number, len(data)))
                    file.write(data)
                file.flush()
                os.fsync(file.fileno())
    _blocks_of(db).unlink(missing_ok=True)


@dataclass(frozen=True)
class _Blocks:
    """Blocks as they were while the file had this header (its hash)."""

    header: str
    numbers: list[int]
    data: list[bytes]


def _keep_blocks(con: duckdb.DuckDBPyConnection, db: Path, file: int) -> None:
    """A hash and what is kept, a line each, and the blocks one after the other."""
    ((size,),) = con.execute(
        "select block_size from pragma_database_size() where database_name = current_database()"
    ).fetchall()
    numbers = [number for (number,) in con.execute("select block_id from pragma_metadata_info()").fetchall()]
    # What was not yet in the file at the last checkpoint has nothing to be put back.
    data = {number: os.pread(file, size, _place(number, size)) for number in numbers}
    whole = {number: block for number, block in data.items() if len(block) == size}
    told = json.dumps(
        {"header": _hash(os.pread(file, HEADER_BYTES, 0)), "size": size, "numbers": list(whole)}
    ).encode()
    body = b"".join([told, b"\n", *whole.values()])
    with _blocks_of(db).open("wb") as written:
        written.write(_hash(body).encode() + b"\n" + body)
    _to_disk(_blocks_of(db))
    _to_disk(db.parent)


def _read_blocks(path: Path) -> _Blocks | None:
    """None where it was not written to its end: then the checkpoint had not begun."""
    digest, _, body = path.read_bytes().partition(b"\n")
    if digest != _hash(body).encode():
        return None
    line, _, rest = body.partition(b"\n")
    told = json.loads(line)
    size = told["size"]
    data = [rest[start : start + size] for start in range(0, len(rest), size)]
    return _Blocks(told["header"], told["numbers"], data)


def _place(number: int, size: int) -> int:
    return HEADER_BYTES + number * size


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
