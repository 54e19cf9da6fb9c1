"""A connection that can read the store and nothing else."""

from __future__ import annotations

from typing import Any

import duckdb
from duckdb import StatementType

from eval_pipeline.errors import UsageError
from eval_pipeline.store.open import Connection

# A pivot is several statements in one.
QUESTIONS = (
    StatementType.SELECT,
    StatementType.EXPLAIN,
    StatementType.PRAGMA,
    StatementType.CALL,
    StatementType.MULTI,
)


def ask_guarded(con: Connection, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Run somebody's SQL without files, network, extensions and settings; the connection is of no other use after."""
    con.execute("set enable_external_access = false")
    con.execute("set lock_configuration = true")
    try:
        statements = con.extract_statements(sql)
        if len(statements) != 1:
            raise UsageError(f"expected one SQL statement, got {len(statements)}: ask one question at a time")
        if not _is_question(statements[0]):
            raise UsageError(
                "this is no question: `query` only reads; `load`, `run` and `forget` change the store"
            )
        cursor = con.execute(statements[0])
        columns = _distinct([column[0] for column in cursor.description or []])
        return columns, cursor.fetchall()
    except duckdb.Error as error:
        raise UsageError(str(error).strip()) from error


def _is_question(statement: duckdb.Statement) -> bool:
    try:
        return statement.type in QUESTIONS
    except ValueError:
        # A kind of statement that DuckDB's Python has no name for.
        return False


def _distinct(names: list[str]) -> list[str]:
    """A column whose name is taken gets a number behind it, so that no value is lost in an object of its row."""
    found: list[str] = []
    for name in names:
        free = name
        number = 1
        while free in found:
            free = f"{name}_{number}"
            number += 1
        found.append(free)
    return found
