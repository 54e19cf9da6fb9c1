"""Ways in which a store's file can be no store: each writes the file at its place anew."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from random import Random

import duckdb


def cut_off(db: Path) -> None:
    """Two blocks remain; blocks that nothing needs may be missing at the end of a whole file."""
    db.write_bytes(db.read_bytes()[: 12288 + 2 * 262144])


def cut_to_a_header(db: Path) -> None:
    db.write_bytes(db.read_bytes()[:4096])


def emptied(db: Path) -> None:
    db.write_bytes(b"")


def overwritten_at_the_start(db: Path) -> None:
    db.write_bytes(b"\0" * 4096 + db.read_bytes()[4096:])


def overwritten_behind_the_start(db: Path) -> None:
    data = db.read_bytes()
    noise = Random("noise").randbytes(len(data) - 12288)
    db.write_bytes(data[:12288] + noise)


def a_text_file(db: Path) -> None:
    db.write_text("run_id,score\nmonday,0.5\n" * 500)


def a_file_of_sqlite(db: Path) -> None:
    db.write_bytes(b"SQLite format 3\0" + b"\0" * 9000)


def of_a_newer_duckdb(db: Path) -> None:
    """Another storage version, with the checksum that DuckDB says it should have."""
    data = bytearray(db.read_bytes())
    data[12:20] = struct.pack("<Q", 9999)
    db.write_bytes(data)
    try:
        duckdb.connect(str(db), read_only=True).close()
    except duckdb.Error as error:
        expected = re.search(r"computed checksum (\d+)", str(error))
        assert expected, error
        data[0:8] = struct.pack("<Q", int(expected[1]))
    db.write_bytes(data)


def of_another_program(db: Path) -> None:
    db.unlink()
    with duckdb.connect(str(db)) as con:
        con.execute("create table orders (id integer); create table customers (id integer)")


def of_another_program_with_migrations(db: Path) -> None:
    db.unlink()
    with duckdb.connect(str(db)) as con:
        con.execute("create table schema_migrations (version varchar); create table users (id integer)")


def of_a_newer_version(db: Path) -> None:
    with duckdb.connect(str(db)) as con:
        con.execute("insert into main.schema_migrations values (9000, '9000_later.sql', now()::timestamp)")


UNREADABLE = {
    "cut off": cut_off,
    "cut to a header": cut_to_a_header,
    "emptied": emptied,
    "overwritten at the start": overwritten_at_the_start,
    "overwritten behind the start": overwritten_behind_the_start,
    "a text file": a_text_file,
    "a file of SQLite": a_file_of_sqlite,
}
FOREIGN = {
    "of a newer DuckDB": (of_a_newer_duckdb, "another version of DuckDB"),
    "of another program": (of_another_program, "it holds customers, orders"),
    "of another program with migrations": (of_another_program_with_migrations, "schema_migrations, users"),
    "of a newer version": (of_a_newer_version, "written by a newer eval-pipeline (schema 9000)"),
}
