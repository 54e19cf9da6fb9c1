"""Numbered schema files, each applied once, in order."""

from __future__ import annotations

import datetime as dt
import re
from functools import cache
from pathlib import Path

import duckdb

from eval_pipeline.settings import shipped_sql

_NUMBERED = re.compile(r"(\d{4})_\w+\.sql\Z")


@cache
def _files() -> tuple[tuple[int, Path], ...]:
    folder = shipped_sql() / "schema"
    return tuple(
        (int(matched[1]), path)
        for path in sorted(folder.iterdir())
        if (matched := _NUMBERED.match(path.name))
    )


def is_current(con: duckdb.DuckDBPyConnection) -> bool:
    """Whether every schema file was applied to this store."""
    return _applied(con) >= {number for number, _ in _files()}


def migrate(con: duckdb.DuckDBPyConnection) -> None:
    """Apply what is missing, all of it or nothing."""
    if is_current(con):
        return
    applied = _applied(con)
    con.execute("begin transaction")
    try:
        con.execute(
            "create table if not exists main.schema_migrations "
            "(number integer not null, name varchar not null, applied_at timestamp not null)"
        )
        for number, path in _files():
            if number in applied:
                continue
            con.execute(path.read_text("utf-8"))
            con.execute(
                "insert into main.schema_migrations values (?, ?, ?)",
                [number, path.name, dt.datetime.now(dt.UTC).replace(tzinfo=None)],
            )
    except BaseException:
        con.execute("rollback")
        raise
    con.execute("commit")


def _applied(con: duckdb.DuckDBPyConnection) -> set[int]:
    found = con.execute(
        "select 1 from duckdb_tables() where schema_name = 'main' and table_name = 'schema_migrations'"
    ).fetchall()
    if not found:
        return set()
    return {number for (number,) in con.execute("select number from main.schema_migrations").fetchall()}
