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
    return applied_numbers(con) >= {number for number, _ in _files()}


def newest_number() -> int:
    """The number of the last schema file that this version knows."""
    return max(number for number, _ in _files())


def migrate(con: duckdb.DuckDBPyConnection) -> None:
    """Apply what is missing, all of it or nothing."""
    if is_current(con):
        return
    applied = applied_numbers(con)
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


def applied_numbers(con: duckdb.DuckDBPyConnection) -> set[int]:
    """The schema files that were applied to this store; none in a database that is no store."""
    # Asked at every opening: listing the columns of the catalogue would cost as much as the opening itself.
    try:
        rows = con.execute(
            "select number from main.schema_migrations where typeof(number) = 'INTEGER'"
        ).fetchall()
    except (duckdb.CatalogException, duckdb.BinderException):
        return set()
    return {number for (number,) in rows}
