"""The store as it would be once some runs were computed anew: a catalogue in memory that is read like the store.

It shows every table of the store, and lays over it, for the runs it was told, what stands in the scratch catalogue.
Questions about pairs of runs, gates and nights are then answered by the functions that answer them from the store.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from eval_pipeline.formulas.definition import Definition, Helper, quoted
from eval_pipeline.store.aggregates import compute_aggregates
from eval_pipeline.store.connect import Connection
from eval_pipeline.store.meanings import record_meanings
from eval_pipeline.store.visible import Scope, show
from eval_pipeline.store.whatif import scratch

AS_IF: Final = "as_if"
SCHEMAS: Final = ("raw", "labels", "facts", "metrics", "aggregates", "comparisons", "ledger")
VIEWS: Final = ("run_nights",)
RUN_METRICS: Final = "aggregates.run_metrics"
COPIED: Final = ("ledger.cells", "ledger.definitions", RUN_METRICS)

# The cells of these runs as they would stand: what is to be computed as it is expected, the others as they are.
_CELLS: Final = """
create table as_if.ledger.cells as
select c.* from {store}.ledger.cells c
where c.run_key in (select unnest($run_keys)) and not exists (
    from temp.expected_cells e
    where e.definition = c.definition and e.source = c.source and e.run_key = c.run_key
)
union all
select definition, source, run_key, fingerprint, own_fingerprint, source_fingerprint, results_hash, labels_hash,
    archive_hash, golden_key, coalesce(n_rows, 0), 0, cast($now as timestamp), null, reason, null
from temp.expected_cells
where run_key in (select unnest($run_keys))
"""

# The runs of the pairs, and the newest of their datasets: gates look at trends, comparisons at what moves by itself.
_RUNS_BEHIND: Final = """
select run_key from (
    select run_key, row_number() over (
        partition by dataset_key order by coalesce(created_at, first_loaded_at) desc, run_id desc
    ) as age
    from raw.runs
    where dataset_key in (select dataset_key from raw.runs where run_key in (select unnest($run_keys)))
)
where age <= $most or run_key in (select unnest($run_keys))
"""


def keep_expected(con: Connection) -> set[int]:
    """Remember how the plan's stale cells would stand, before other questions are asked; returns their runs.

    What is pinned or frozen is not among them.
    """
    con.execute(
        "create or replace temp table expected_cells as select e.* from temp.stale_cells s "
        "join temp.cell_states e using (definition, source, run_key)"
    )
    rows = con.execute("select distinct run_key from temp.expected_cells").fetchall()
    return {run_key for (run_key,) in rows}


def runs_behind(con: Connection, run_keys: Sequence[int], *, most: int) -> list[int]:
    """The runs that a judgement about these runs rests on."""
    rows = con.execute(_RUNS_BEHIND, {"run_keys": list(run_keys), "most": most}).fetchall()
    return sorted(run_key for (run_key,) in rows)


@contextmanager
def as_if_catalogue(con: Connection, run_keys: Sequence[int], *, now: dt.datetime) -> Iterator[str]:
    """Set the catalogue up for these runs, after `keep_expected`; yields the name of the store's own catalogue."""
    store = str(con.execute("select current_database()").fetchall()[0][0])
    con.execute(f"attach ':memory:' as {AS_IF}")
    try:
        for schema in (*SCHEMAS, "computed"):
            con.execute(f"create schema {AS_IF}.{schema}")
        for table in _tables(con, store):
            if table not in COPIED:
                con.execute(f'create view {AS_IF}.{_named(table)} as from "{store}".{_named(table)}')
        con.execute(_CELLS.format(store=f'"{store}"'), {"run_keys": list(run_keys), "now": now})
        con.execute(f'create table {AS_IF}.ledger.definitions as from "{store}".ledger.definitions')
        con.execute(
            f'create table {AS_IF}.{RUN_METRICS} as from "{store}".{RUN_METRICS} where run_key in (select unnest(?))',
            [list(run_keys)],
        )
        con.execute(f"create table {AS_IF}.computed.runs (definition varchar, run_key integer)")
        yield store
    finally:
        con.execute(f'use "{store}"')
        con.execute(f"detach {AS_IF}")


def _tables(con: Connection, store: str) -> list[str]:
    rows = con.execute(
        "select schema_name, table_name from duckdb_tables() "
        "where database_name = $store and list_contains($schemas, schema_name) "
        "union all select schema_name, view_name from duckdb_views() "
        "where database_name = $store and schema_name = 'main' and list_contains($views, view_name)",
        {"store": store, "schemas": list(SCHEMAS), "views": list(VIEWS)},
    ).fetchall()
    return [f"{schema}.{table}" for schema, table in rows]


def _named(table: str) -> str:
    schema, name = table.split(".", 1)
    return f"{schema}.{quoted(name)}"


def keep_computed(
    con: Connection, store: str, chain: Sequence[Definition], run_metrics: Definition, scope: Scope
) -> None:
    """Keep what stands in the scratch catalogue for the runs of the scope, and the aggregates made of it."""
    show(con, store, scope, ["labels.slices"])
    for one in chain:
        kept = f"{AS_IF}.computed.{quoted(one.name)}"
        con.execute(f"create table if not exists {kept} as from {scratch(one.name)} where false")
        con.execute(f"insert into {kept} by name from {scratch(one.name)}")
        con.execute(
            f"insert into {AS_IF}.computed.runs select ?, unnest(?)", [one.name, list(scope.run_keys)]
        )
        if one.is_scored_per_query:
            compute_aggregates(con, AS_IF, run_metrics, one, scope)


def lay_over(
    con: Connection,
    store: str,
    definitions: Mapping[str, Definition],
    helpers: Mapping[str, Helper],
    *,
    now: dt.datetime,
) -> None:
    """Show what was kept in the place of what is stored, and make the catalogue the one that is read."""
    con.execute(f"use {AS_IF}")
    kept = [name for (name,) in con.execute("select distinct definition from as_if.computed.runs").fetchall()]
    stored = set(_tables(con, store))
    for name in kept:
        computed = f"from {AS_IF}.computed.{quoted(name)}"
        rest = (
            f'from "{store}".{_named(name)} where run_key not in '
            f"(select run_key from {AS_IF}.computed.runs where definition = '{name}') union all by name "
        )
        con.execute(
            f"create or replace view {AS_IF}.{_named(name)} as {rest if name in stored else ''}{computed}"
        )
    record_meanings(con, definitions, helpers, now=now)
