"""Ways in which a store's file can be no store: each writes the file at its place anew."""

from __future__ import annotations

import gzip
import re
import sqlite3
import struct
import zipfile
from contextlib import closing
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import zstandard
from pyarrow import parquet


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


def of_sqlite(db: Path) -> None:
    db.unlink(missing_ok=True)
    with closing(sqlite3.connect(db)) as con, con:
        con.execute("create table eval_runs (run_id text primary key, aggregate_json text)")


def of_parquet(db: Path) -> None:
    parquet.write_table(pa.table({"run_id": ["monday"]}), db)


def zipped(db: Path) -> None:
    with zipfile.ZipFile(db, "w") as archive:
        archive.writestr("results.jsonl", "{}")


def of_lance(db: Path) -> None:
    """A database of LanceDB is a folder."""
    db.unlink(missing_ok=True)
    (db / "results.lance").mkdir(parents=True)


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
    db.unlink(missing_ok=True)
    with duckdb.connect(str(db)) as con:
        con.execute("create table orders (id integer); create table customers (id integer)")


def of_another_program_with_migrations(db: Path) -> None:
    db.unlink(missing_ok=True)
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
}
FOREIGN = {
    "of a newer DuckDB": (of_a_newer_duckdb, "another version of DuckDB"),
    "of a newer version": (of_a_newer_version, "written by a newer eval-pipeline (schema 9000)"),
}
# What is no store and was none: every command says what it is.
NOT_OURS = {
    "SQLite": (of_sqlite, "is an SQLite database"),
    "Parquet": (of_parquet, "is a Parquet file"),
    "zip": (zipped, "is a zip archive"),
    "gzip": (lambda db: db.write_bytes(gzip.compress(b"{}")), "is a gzip file"),
    "zstd": (lambda db: db.write_bytes(zstandard.compress(b"{}")), "is a zstd file"),
    "JSON": (lambda db: db.write_text('{"query_id": "q"}\n'), "is JSON text"),
    "a text": (lambda db: db.write_text("run_id,note\nmonday,Üben\n" * 500), "is a text file"),
    "of another program": (of_another_program, "it holds customers, orders"),
    "of another program with migrations": (of_another_program_with_migrations, "schema_migrations, users"),
    "LanceDB": (of_lance, "is a folder"),
}
