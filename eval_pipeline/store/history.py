"""What aggregates said before they were replaced."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from eval_pipeline.store.connect import Connection
from eval_pipeline.store.ledger import Wanted


def keep_replaced(
    con: Connection,
    store: str,
    wanted: Wanted,
    run_keys: Sequence[int],
    *,
    now: dt.datetime,
    note: str | None,
) -> None:
    """Move the aggregates that are about to be replaced into the history; a repetition leaves no trace."""
    con.execute(
        f'insert into "{store}".ledger.aggregate_history '
        "select m.run_key, m.source, m.metric, m.slice, m.slice_value, m.value, m.n, m.total, c.source_fingerprint, "
        "c.results_hash, c.labels_hash, c.archive_hash, c.golden_key, c.computed_at, ?, "
        "case s.reason when 'parent' then 'formula' else s.reason end, ? "
        f'from "{store}".aggregates.run_metrics m '
        f'join "{store}".ledger.cells c on c.definition = ? and c.source = m.source and c.run_key = m.run_key '
        "join temp.cell_states s on s.definition = c.definition and s.source = c.source and s.run_key = c.run_key "
        "where m.source = ? and m.run_key between ? and ? and s.reason is not null "
        "and m.run_key in (select unnest(?))",
        [now, note, wanted.definition, wanted.source, min(run_keys), max(run_keys), list(run_keys)],
    )


def carry_rename(con: Connection, old: str, new: str) -> None:
    """What stood under a definition's old name stands under its new one from now on; call it inside a transaction."""
    schema, old_table = old.split(".", 1)
    new_table = new.split(".", 1)[1]
    tables = {
        name
        for (name,) in con.execute(
            "select table_name from duckdb_tables() where schema_name = ?", [schema]
        ).fetchall()
    }
    if old_table in tables and new_table not in tables:
        con.execute(f'alter table {schema}."{old_table}" rename to "{new_table}"')
    for column in ("definition", "source"):
        for table in ("ledger.cells", "ledger.pins"):
            con.execute(f"update {table} set {column} = ? where {column} = ?", [new, old])
    for table in ("aggregates.run_metrics", "ledger.aggregate_history"):
        con.execute(f"update {table} set source = ? where source = ?", [new, old])
    con.execute("update ledger.summary_history set definition = ? where definition = ?", [new, old])


def pin_cells(
    con: Connection, cells: Sequence[tuple[str, str, int, str]], *, now: dt.datetime, note: str | None
) -> None:
    """Leave cells (definition, source, run_key, fingerprint) on the definition they were computed with."""
    if cells:
        con.executemany(
            "insert into ledger.pins values (?, ?, ?, ?, ?, ?)", [(*cell, now, note) for cell in cells]
        )


def drop_pins(con: Connection, cells: Sequence[tuple[str, str, int]]) -> None:
    """These cells are stale again, if anything has changed since they were computed."""
    if cells:
        con.executemany("delete from ledger.pins where definition = ? and source = ? and run_key = ?", cells)
