"""What derived tables said at a point of time or under a fingerprint; pins, and what is replaced."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eval_pipeline.computing.derived import table_columns
from eval_pipeline.computing.states import CellSpec, States
from eval_pipeline.errors import UsageError
from eval_pipeline.formulas.definition import Definition, quoted
from eval_pipeline.store.open import Connection, first_row, first_value
from eval_pipeline.store.project import Store
from eval_pipeline.store.runs import RunRow

FINGERPRINT_START = "fp1:"
Row = dict[str, Any]


@dataclass(frozen=True)
class Point:
    """A moment (inclusive), or a fingerprint; both None is now."""

    moment: dt.datetime | None = None
    fingerprint: str | None = None


@dataclass(frozen=True)
class Stored:
    """One aggregate as it stood: its exact value, and what it was made of."""

    value: float | None
    n: int
    total: float | None
    source: str
    fingerprint: str
    golden_key: int
    results_hash: str


def parse_point(text: str | None) -> Point:
    """A date means the end of that day in UTC, a time to the second the end of that second; fp1:… is a fingerprint."""
    if text is None:
        return Point()
    if text.startswith(FINGERPRINT_START):
        return Point(fingerprint=text)
    try:
        day = dt.date.fromisoformat(text)
        return Point(moment=dt.datetime.combine(day, dt.time.max))
    except ValueError:
        pass
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"--as-of {text!r} is no date such as 2026-08-31, no time such as 2026-08-31T12:00:00Z and no "
            "fingerprint such as fp1:0123abcd…"
        ) from error
    if "." not in text and "," not in text:
        moment = moment.replace(microsecond=dt.time.max.microsecond)
    return Point(moment=moment.astimezone(dt.UTC).replace(tzinfo=None) if moment.tzinfo else moment)


# Everything an aggregate ever said about a run, with how long it stood; what stands now has no end.
STOOD = """
select m.source, m.metric, m.slice, m.slice_value, m.value, m.n, m.total, c.source_fingerprint as fingerprint,
    c.golden_key, c.results_hash, c.computed_at as valid_from, timestamp '9999-12-31' as valid_to
from aggregates.run_metrics m
join ledger.cells c on c.run_key = m.run_key and c.source = m.source
where m.run_key = $run_key
union all
select source, metric, slice, slice_value, value, n, total, formula_fingerprint, golden_key, results_hash,
    valid_from, valid_to
from ledger.aggregate_history
where run_key = $run_key
"""


def stood_at(con: Connection, run: RunRow, point: Point) -> dict[tuple[str, str], dict[str, Stored]]:
    """(slice, slice value) → metric → what stood there at that point."""
    if point.fingerprint is not None:
        condition = "starts_with(fingerprint, $fingerprint)"
        parameters: dict[str, object] = {"run_key": run.run_key, "fingerprint": point.fingerprint}
    else:
        condition = "valid_from <= $moment and $moment < valid_to"
        moment = point.moment or dt.datetime(9999, 12, 30)
        parameters = {"run_key": run.run_key, "moment": moment}
    rows = con.execute(
        f"with stood as ({STOOD}) select slice, slice_value, metric, value, n, total, source, fingerprint, golden_key, "
        f"results_hash from stood where {condition} "
        "qualify row_number() over (partition by slice, slice_value, metric order by valid_from desc) = 1",
        parameters,
    ).fetchall()
    found: dict[tuple[str, str], dict[str, Stored]] = {}
    for slice_name, slice_value, metric, *stored in rows:
        found.setdefault((slice_name, slice_value), {})[metric] = Stored(*stored)
    return found


_BECAUSE = "case s.reason when 'parent' then 'formula' else s.reason end"
# An entry of the history that ended when what is replaced began, and says the same.
_OF_ONE_AGGREGATE = (
    "h.run_key = r.run_key and h.source = r.source and h.metric = r.metric and h.slice = r.slice "
    "and h.slice_value = r.slice_value"
)
_SAME_AGGREGATE = (
    f"{_OF_ONE_AGGREGATE} and h.valid_to = r.valid_from and h.value is not distinct from r.value and h.n = r.n "
    "and h.total is not distinct from r.total and h.formula_fingerprint = r.formula_fingerprint "
    "and h.golden_key is not distinct from r.golden_key"
)
_PROLONGED_AGGREGATE = f"{_OF_ONE_AGGREGATE} and h.valid_to = r.valid_to and h.valid_from < r.valid_from"
_SAME_ROWS = (
    "h.run_key = r.run_key and h.definition = r.definition and h.valid_to = r.valid_from "
    "and h.fingerprint = r.fingerprint and h.golden_key is not distinct from r.golden_key"
)


def _keep_replaced(
    states: States,
    catalogue: str,
    wanted: CellSpec,
    run_keys: Sequence[int],
    *,
    now: dt.datetime,
    note: str | None,
) -> None:
    """Move the aggregates that are about to be replaced into the history; a repetition leaves no trace.

    What stood there before with the same number stood longer: its entry is prolonged, and there is no second one.
    """
    history = f'"{catalogue}".ledger.aggregate_history'
    states.con.execute(
        "create or replace temp table replaced_aggregates as "
        "select m.run_key, m.source, m.metric, m.slice, m.slice_value, m.value, m.n, m.total, "
        "c.source_fingerprint as formula_fingerprint, c.results_hash, c.labels_hash, c.archive_hash, c.golden_key, "
        f"c.computed_at as valid_from, cast(? as timestamp) as valid_to, {_BECAUSE} as replaced_because, "
        "cast(? as varchar) as note "
        f'from "{catalogue}".aggregates.run_metrics m '
        f'join "{catalogue}".ledger.cells c on c.definition = ? and c.source = m.source and c.run_key = m.run_key '
        f"join {states.table} s on s.definition = c.definition and s.source = c.source and s.run_key = c.run_key "
        "where m.source = ? and m.run_key between ? and ? and s.reason is not null "
        "and m.run_key in (select unnest(?))",
        [now, note, wanted.definition, wanted.source, min(run_keys), max(run_keys), list(run_keys)],
    )
    states.con.execute(
        f"update {history} h set valid_to = r.valid_to, replaced_because = r.replaced_because, note = r.note "
        f"from temp.replaced_aggregates r where {_SAME_AGGREGATE}"
    )
    states.con.execute(
        f"insert into {history} from temp.replaced_aggregates r "
        f"where not exists (from {history} h where {_PROLONGED_AGGREGATE})"
    )


def _carry_rename(con: Connection, old: str, new: str) -> None:
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
        con.execute(f"alter table {quoted(schema)}.{quoted(old_table)} rename to {quoted(new_table)}")
    for column in ("definition", "source"):
        for table in ("ledger.cells", "ledger.pins"):
            con.execute(f"update {table} set {column} = ? where {column} = ?", [new, old])
    for table in ("aggregates.run_metrics", "ledger.aggregate_history"):
        con.execute(f"update {table} set source = ? where source = ?", [new, old])
    con.execute("update ledger.summary_history set definition = ? where definition = ?", [new, old])


def pin_cells(store: Store, cells: Sequence[tuple[str, str, int, str]], *, note: str | None) -> None:
    """Leave cells (definition, source, run_key, fingerprint) on the definition they were computed with."""
    if cells:
        store.con.executemany(
            "insert into ledger.pins values (?, ?, ?, ?, ?, ?)",
            [(*cell, store.clock(), note) for cell in cells],
        )


def drop_pins(con: Connection, cells: Sequence[tuple[str, str, int]]) -> None:
    """These cells are stale again, if anything has changed since they were computed."""
    if cells:
        con.executemany("delete from ledger.pins where definition = ? and source = ? and run_key = ?", cells)


def computed_rows(con: Connection, name: str, run: RunRow) -> list[Row]:
    """What stands in a derived table for the run, with the case ids of cases; nothing before it was ever computed."""
    schema, table = name.split(".", 1)
    known = table_columns(con, name)
    if not known:
        return []
    source = f"from {schema}.{quoted(table)} computed"
    if "case_key" in known:
        source += (
            " join raw.case_ids using (case_key) left join (select case_key, row_no from raw.extraction_cases "
            "where run_key = $run_key) delivered using (case_key)"
        )
    ordered = " order by row_no nulls last, case_key" if "case_key" in known else ""
    cursor = con.execute(
        f"select * {source} where computed.run_key = $run_key{ordered}", {"run_key": run.run_key}
    )
    columns = [column[0] for column in cursor.description or ()]
    return [dict(zip(columns, values, strict=True)) for values in cursor.fetchall()]


def delivered_rows(con: Connection, run: RunRow) -> dict[str, int]:
    """Part → how many of its rows were taken in."""
    return dict(
        con.execute("select part, n_rows from raw.run_parts where run_key = ?", [run.run_key]).fetchall()
    )


def computed_parameters(con: Connection, name: str, run: RunRow) -> Row | None:
    """The parameters that the run's rows of a derived table were computed with."""
    header = first_value(
        con,
        "select d.header from ledger.cells c join ledger.definitions d "
        "on d.name = c.definition and d.fingerprint = c.fingerprint "
        "where c.definition = ? and c.source = '' and c.run_key = ?",
        [name, run.run_key],
    )
    return None if header is None else dict(json.loads(header)["parameters"])


def run_file(con: Connection, run: RunRow) -> Row:
    """run.json as it was delivered."""
    document: Row = json.loads(
        first_value(con, "select document from raw.runs where run_key = ?", [run.run_key])
    )
    return document


def _keep_replaced_rows(
    states: States,
    catalogue: str,
    definition: Definition,
    run_keys: Sequence[int],
    *,
    now: dt.datetime,
    note: str | None,
) -> None:
    """Put the rows that are about to be replaced into the history; a repetition leaves no trace.

    Where all rows of a run are the same as those that stood there before, these are said to have stood longer.
    """
    history = f'"{catalogue}".ledger.summary_history'
    states.con.execute(
        "create or replace temp table replaced_rows as "
        'select replaced.run_key, c.definition, cast(to_json(replaced) as varchar) as "row", c.fingerprint, '
        "c.results_hash, c.labels_hash, c.archive_hash, c.golden_key, c.computed_at as valid_from, "
        f"cast(? as timestamp) as valid_to, {_BECAUSE} as replaced_because, cast(? as varchar) as note "
        f'from "{catalogue}".{definition.schema}.{quoted(definition.short_name)} replaced '
        f"join \"{catalogue}\".ledger.cells c on c.definition = ? and c.source = '' and c.run_key = replaced.run_key "
        f"join {states.table} s on s.definition = c.definition and s.source = '' and s.run_key = c.run_key "
        "where replaced.run_key between ? and ? and s.reason is not null "
        "and replaced.run_key in (select unnest(?))",
        [now, note, definition.name, min(run_keys), max(run_keys), list(run_keys)],
    )
    states.con.execute(
        "create or replace temp table prolonged_runs as "
        'select run_key from (select run_key, list(r."row" order by r."row") as stood from temp.replaced_rows r '
        'group by run_key) join (select r.run_key, list(h."row" order by h."row") as stood '
        f"from (select distinct run_key, definition, fingerprint, golden_key, valid_from from temp.replaced_rows) r "
        f"join {history} h on {_SAME_ROWS} group by r.run_key) using (run_key, stood)"
    )
    states.con.execute(
        f"update {history} h set valid_to = r.valid_to, replaced_because = r.replaced_because, note = r.note "
        f'from (select distinct * exclude ("row") from temp.replaced_rows) r where {_SAME_ROWS} '
        "and r.run_key in (from temp.prolonged_runs)"
    )
    states.con.execute(
        f"insert into {history} from temp.replaced_rows where run_key not in (from temp.prolonged_runs)"
    )


def rows_at(con: Connection, name: str, run: RunRow, point: Point) -> list[Row] | None:
    """What stood in a derived table for the run at that point; None where nobody knows any more."""
    if still_stands(con, name, run, point):
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


def still_stands(con: Connection, name: str, run: RunRow, point: Point) -> bool:
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
