"""Aggregates that are tables of their own: what they said before they were replaced, and at a point of time."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence

from eval_pipeline.formulas.definition import Definition, quoted
from eval_pipeline.store.asof import Point
from eval_pipeline.store.connect import Connection, first_row
from eval_pipeline.store.read import RunRow
from eval_pipeline.store.read_parts import Row, computed_rows


def keep_replaced_rows(
    con: Connection,
    store: str,
    definition: Definition,
    run_keys: Sequence[int],
    *,
    now: dt.datetime,
    note: str | None,
) -> None:
    """Put the rows that are about to be replaced into the history; a repetition leaves no trace."""
    known = first_row(
        con,
        "select 1 from duckdb_tables() where database_name = ? and schema_name = ? and table_name = ?",
        [store, definition.schema, definition.short_name],
    )
    if known is None:
        return
    con.execute(
        f'insert into "{store}".ledger.summary_history '
        "select replaced.run_key, c.definition, to_json(replaced), c.fingerprint, c.results_hash, c.labels_hash, "
        "c.archive_hash, c.golden_key, c.computed_at, ?, "
        "case s.reason when 'parent' then 'formula' else s.reason end, ? "
        f'from "{store}".{definition.schema}.{quoted(definition.short_name)} replaced '
        f"join \"{store}\".ledger.cells c on c.definition = ? and c.source = '' and c.run_key = replaced.run_key "
        "join temp.cell_states s on s.definition = c.definition and s.source = '' and s.run_key = c.run_key "
        "where replaced.run_key between ? and ? and s.reason is not null "
        "and replaced.run_key in (select unnest(?))",
        [now, note, definition.name, min(run_keys), max(run_keys), list(run_keys)],
    )


def rows_at(con: Connection, name: str, run: RunRow, point: Point) -> list[Row] | None:
    """What stood in a derived table for the run at that point; None where nobody knows any more."""
    if _still_stands(con, name, run, point):
        return computed_rows(con, name, run)
    condition, value = (
        ("starts_with(fingerprint, ?)", point.fingerprint)
        if point.fingerprint is not None
        else ("valid_from <= ? and valid_to > ?", point.moment)
    )
    rows = con.execute(
        f'select "row" from ledger.summary_history where definition = ? and run_key = ? and {condition} '
        "qualify dense_rank() over (order by valid_from desc) = 1",
        [name, run.run_key, *([value] * condition.count("?"))],
    ).fetchall()
    return [json.loads(text) for (text,) in rows] or None


def _still_stands(con: Connection, name: str, run: RunRow, point: Point) -> bool:
    """Whether what stands there now stood there at that point too."""
    if point == Point():
        return True
    cell = first_row(
        con,
        "select computed_at, fingerprint from ledger.cells where definition = ? and source = '' and run_key = ?",
        [name, run.run_key],
    )
    if cell is None:
        return False
    if point.fingerprint is not None:
        return str(cell[1]).startswith(point.fingerprint)
    return point.moment is None or cell[0] <= point.moment
