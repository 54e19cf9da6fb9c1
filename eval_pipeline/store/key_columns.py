"""Where the store refers to a run, a golden set, an archive or an id: by names of columns."""

# New tables are found by themselves: a key of a run is called `run_key`, `run_a_key`, `run_b_key`; an id's key
# `chunk_key` or `cited_chunk_key`, several in one column `chunk_keys`.

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from eval_pipeline.formulas.definition import quoted
from eval_pipeline.store.open import Connection


@dataclass(frozen=True)
class StoredColumn:
    """A column of a table."""

    schema: str
    table: str
    name: str
    kind: str

    @property
    def full_table(self) -> str:
        """The table as SQL."""
        return f"{quoted(self.schema)}.{quoted(self.table)}"

    @property
    def plain_table(self) -> str:
        """The table's name for people."""
        return f"{self.schema}.{self.table}"

    @property
    def values(self) -> str:
        """A select of everything that stands there, each value once."""
        column = f"unnest({quoted(self.name)})" if self.kind.endswith("[]") else quoted(self.name)
        return f"select distinct {column} as key from {self.full_table}"


def stored_columns(con: Connection) -> list[StoredColumn]:
    """Every column of every table, not of views."""
    rows = con.execute(
        "select c.schema_name, c.table_name, c.column_name, c.data_type from duckdb_columns() c "
        "semi join duckdb_tables() t using (database_name, schema_name, table_name) "
        "where c.database_name = current_database() order by c.schema_name, c.table_name, c.column_index"
    ).fetchall()
    return [StoredColumn(*row) for row in rows]


def columns_with_key(columns: list[StoredColumn], entity: str) -> Iterator[StoredColumn]:
    """The columns that hold keys of runs, queries, chunks, …"""
    name = re.compile(rf"(?:\w+_)?{entity}_(?:\w+_)?keys?")
    yield from (one for one in columns if name.fullmatch(one.name))
