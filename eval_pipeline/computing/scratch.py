"""Computing without keeping: under other definitions, and the store as it would be afterwards."""

# It shows every table of the store, and lays over it, for the runs it was told, what stands in the scratch catalogue.
# Questions about pairs of runs, gates and nights are then answered by the functions that answer them from the store.

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from eval_pipeline.computing.aggregates import compute_aggregates
from eval_pipeline.computing.definition_versions import _find_version, _record_versions
from eval_pipeline.computing.derived import _failure_of, _statement_of, table_of
from eval_pipeline.computing.scope import CATALOGUE, Scope, point_views_at
from eval_pipeline.formulas.definition import Definition, Helper, quoted
from eval_pipeline.store.open import Connection, StatementError
from eval_pipeline.store.project import Store

AS_IF: Final = "as_if"
SCHEMAS: Final = ("raw", "labels", "facts", "metrics", "aggregates", "comparisons", "ledger")
VIEWS: Final = "schema_name = 'ledger' or (schema_name = 'main' and view_name = 'run_nights')"
RUN_METRICS: Final = "aggregates.run_metrics"
COPIED: Final = ("ledger.cells", "ledger.definitions", RUN_METRICS)
DISTINCT_CHANGES = 5000


def evaluate(
    con: Connection,
    catalogue: str,
    wanted: Sequence[Definition],
    scope: Scope,
    *,
    standing: Iterable[str] = (),
) -> None:
    """Compute definitions, parents first, into the second catalogue; what is not among them is read from the store.

    `standing` names what an earlier call left in the second catalogue. Afterwards each definition stands there under
    its own name, with the columns it would have in the store.
    """
    for one in wanted:
        drop(con, [one.name])
    computed = set(standing)
    for one in wanted:
        point_views_at(con, catalogue, scope, [name for name in one.reads if name not in computed])
        statement, _ = _statement_of(con, one)
        try:
            con.execute(f"create table {scratch(one.name)} as {statement}")
        except StatementError as error:
            raise _failure_of(one, error) from error
        computed.add(one.name)


def scratch(name: str) -> str:
    """A definition's table in the second catalogue."""
    schema, table = name.split(".", 1)
    return f"{CATALOGUE}.{schema}.{quoted(table)}"


def drop(con: Connection, names: Iterable[str]) -> None:
    """Forget what was computed, or shown, under these names."""
    for name in names:
        schema, table = name.split(".", 1)
        kinds = con.execute(
            "select table_type from information_schema.tables "
            "where table_catalog = ? and table_schema = ? and table_name = ?",
            [CATALOGUE, schema, table],
        ).fetchall()
        for (kind,) in kinds:
            con.execute(f"drop {'view' if kind == 'VIEW' else 'table'} {scratch(name)}")


# The cells of these runs as they would stand: what is to be computed as it is expected, the others as they are.
_CELLS: Final = """
create table as_if.ledger.cells as
select c.* from {store}.ledger.cells c
where c.run_key in (select unnest($run_keys)) and not exists (
    from {expected} e
    where e.definition = c.definition and e.source = c.source and e.run_key = c.run_key
)
union all
select definition, source, run_key, fingerprint, own_fingerprint, source_fingerprint, results_hash, labels_hash,
    archive_hash, golden_key, coalesce(n_rows, 0), 0, cast($now as timestamp), null, reason, null, null
from {expected}
where run_key in (select unnest($run_keys))
"""

# The runs of the pairs, and the newest of their datasets: gates look at trends, comparisons at what moves by itself.
_RUNS_BEHIND: Final = """
select run_key from (
    select run_key, row_number() over (
        partition by dataset_key order by ordered_at desc, run_id desc
    ) as age
    from ledger.runs_in_order
    where dataset_key in (select dataset_key from raw.runs where run_key in (select unnest($run_keys)))
)
where age <= $most or run_key in (select unnest($run_keys))
"""


def runs_behind(con: Connection, run_keys: Sequence[int], *, most: int) -> list[int]:
    """The runs that a judgement about these runs rests on."""
    rows = con.execute(_RUNS_BEHIND, {"run_keys": list(run_keys), "most": most}).fetchall()
    return sorted(run_key for (run_key,) in rows)


@contextmanager
def scratch_catalogue(store: Store, run_keys: Sequence[int], *, expected: str) -> Iterator[str]:
    """Set the catalogue up for these runs; yields the name of the store's own catalogue.

    The table `expected` says how the cells that are to be computed would stand.
    """
    con = store.con
    catalogue = str(con.execute("select current_database()").fetchall()[0][0])
    con.execute(f"attach ':memory:' as {AS_IF}")
    try:
        for schema in (*SCHEMAS, "computed"):
            con.execute(f"create schema {AS_IF}.{schema}")
        for table in _tables(con, catalogue):
            if table not in COPIED:
                con.execute(f'create view {AS_IF}.{_named(table)} as from "{catalogue}".{_named(table)}')
        con.execute(
            _CELLS.format(store=f'"{catalogue}"', expected=expected),
            {"run_keys": list(run_keys), "now": store.clock()},
        )
        con.execute(f'create table {AS_IF}.ledger.definitions as from "{catalogue}".ledger.definitions')
        con.execute(
            f'create table {AS_IF}.{RUN_METRICS} as from "{catalogue}".{RUN_METRICS} '
            "where run_key in (select unnest(?))",
            [list(run_keys)],
        )
        con.execute(f"create table {AS_IF}.computed.runs (definition varchar, run_key integer)")
        yield catalogue
    finally:
        con.execute(f'use "{catalogue}"')
        con.execute(f"detach {AS_IF}")


def _tables(con: Connection, catalogue: str) -> list[str]:
    rows = con.execute(
        "select schema_name, table_name from duckdb_tables() "
        "where database_name = $store and list_contains($schemas, schema_name) "
        f"union all select schema_name, view_name from duckdb_views() where database_name = $store and ({VIEWS})",
        {"store": catalogue, "schemas": list(SCHEMAS)},
    ).fetchall()
    return [f"{schema}.{table}" for schema, table in rows]


def _named(table: str) -> str:
    schema, name = table.split(".", 1)
    return f"{quoted(schema)}.{quoted(name)}"


def keep_computed(
    con: Connection, catalogue: str, chain: Sequence[Definition], run_metrics: Definition, scope: Scope
) -> None:
    """Keep what stands in the scratch catalogue for the runs of the scope, and the aggregates made of it."""
    point_views_at(con, catalogue, scope, ["labels.slices"])
    for one in chain:
        kept = f"{AS_IF}.computed.{quoted(one.name)}"
        con.execute(f"create table if not exists {kept} as from {scratch(one.name)} where false")
        con.execute(f"insert into {kept} by name from {scratch(one.name)}")
        con.execute(
            f"insert into {AS_IF}.computed.runs select ?, unnest(?)", [one.name, list(scope.run_keys)]
        )
        if one.is_scored_per_query or one.is_scored_by_name:
            compute_aggregates(con, AS_IF, run_metrics, one, scope)


def lay_over(store: Store, catalogue: str) -> None:
    """Show what was kept in the place of what is stored, and make the catalogue the one that is read."""
    con = store.con
    con.execute(f"use {AS_IF}")
    kept = [name for (name,) in con.execute("select distinct definition from as_if.computed.runs").fetchall()]
    stored = set(_tables(con, catalogue))
    for name in kept:
        computed = f"from {AS_IF}.computed.{quoted(name)}"
        rest = (
            f'from "{catalogue}".{_named(name)} where run_key not in '
            f"(select run_key from {AS_IF}.computed.runs where definition = '{name}') union all by name "
        )
        con.execute(
            f"create or replace view {AS_IF}.{_named(name)} as {rest if name in stored else ''}{computed}"
        )
    _record_versions(store)


@dataclass(frozen=True)
class Outcome:
    """Mean, and the value of every query that has one."""

    values: Mapping[int, float]
    mean: float | None


def compute_under(
    store: Store, catalogue: str, *, formula: str, fingerprint: str, key: str, scope: Scope
) -> Outcome | None:
    """The key's values for the one run of the scope; None when the meaning is not known well enough."""
    con = store.con
    chain = chain_of(store, catalogue, formula, fingerprint)
    if chain is None:
        return None
    names = [definition.name for definition, _ in chain]
    drop(con, names)
    for definition, helpers in chain:
        for helper in helpers:
            arguments = ", ".join(helper.header.arguments)
            con.execute(f"create or replace temp macro {helper.name}({arguments}) as ({helper.body})")
        evaluate(con, catalogue, [definition], scope, standing=names[: names.index(definition.name)])
    source = _values_of(chain[-1][0], key)
    if source is None:
        return None
    column, condition, parameters = source
    of_key = f"from {scratch(names[-1])} where {column} is not null and {condition}"
    rows = con.execute(f"select query_key, {column} {of_key}", parameters).fetchall()
    mean = con.execute(f"select exact_sum({column}) / nullif(count({column}), 0) {of_key}", parameters)
    value = mean.fetchall()[0][0]
    drop(con, names)
    return Outcome(dict(rows), value)


def _values_of(definition: Definition, key: str) -> tuple[str, str, list[str]] | None:
    """Where the values of the key stand: column, condition and what is asked with it; None where it has none."""
    if definition.is_scored_by_name:
        return quoted(next(iter(definition.keys))), "metric = ? and query_key is not null", [key]
    return (quoted(key), "true", []) if key in definition.keys else None


def chain_of(
    store: Store, catalogue: str, name: str, fingerprint: str
) -> list[tuple[Definition, list[Helper]]] | None:
    """The definition at that meaning with everything it read, parents first."""
    con = store.con
    con.execute(f'use "{catalogue}"')
    found: dict[str, tuple[Definition, list[Helper]]] = {}

    def collect(one: str, meaning: str) -> bool:
        if one in found:
            return True
        entry = _find_version(store, one, meaning)
        if entry is None:
            return False
        definition, parents, helpers = entry
        if not all(collect(parent, parents[parent]) for parent in parents):
            return False
        found[one] = (definition, helpers)
        return True

    complete = collect(name, fingerprint)
    con.execute(f"use {CATALOGUE}")
    return list(found.values()) if complete else None


@dataclass
class KeyPreview:
    """What a change would do to one metric key."""

    changed: int = 0
    newly_defined: int = 0
    newly_undefined: int = 0
    changes: dict[float, int] = field(default_factory=dict)
    runs: dict[int, tuple[float | None, float | None]] = field(default_factory=dict)


def compare_with_stored(
    con: Connection,
    catalogue: str,
    definition: Definition,
    scope: Scope,
    found: dict[str, KeyPreview],
    *,
    rounding: str,
) -> None:
    """Add what the scratch table of the definition says about the runs of the scope."""
    if definition.is_scored_by_name:
        _compare_names_with_stored(con, catalogue, definition, scope, found, rounding=rounding)
        return
    for key in definition.keys:
        found.setdefault(key, KeyPreview())
    stored = _stored_columns(con, catalogue, definition)
    if not stored:
        stored_side = f"(select * from {scratch(definition.name)} where false)"
    else:
        stored_side = f"(from {table_of(definition, catalogue)} where {scope.condition()})"
    grain = [column for column in _columns(con, definition) if column not in definition.keys]
    using = ", ".join(quoted(column) for column in grain)
    for key in definition.keys:
        old = f"o.{quoted(key)}" if key in stored or not stored else "cast(null as double)"
        con.execute(
            f"create or replace temp table both_values as select run_key, {old} as old, n.{quoted(key)} as new "
            f"from {scratch(definition.name)} n full join {stored_side} o using ({using})"
        )
        _add(con, found[key], rounding=rounding)


# A score of a whole run has no query, and is what it is about all the same.
_NAMED_CHANGES: Final = """
create or replace temp table named_changes as
select metric, run_key, o.{key} as old, n.{key} as new
from (select *, coalesce(query_key, -1) as place from {new}) n
full join (select *, coalesce(query_key, -1) as place from {old} where {condition}) o
    using (run_key, metric, place)
"""


def _compare_names_with_stored(
    con: Connection,
    catalogue: str,
    definition: Definition,
    scope: Scope,
    found: dict[str, KeyPreview],
    *,
    rounding: str,
) -> None:
    """The same where rows name their metric: of those names alone of which a value would change."""
    new = scratch(definition.name)
    is_stored = bool(_stored_columns(con, catalogue, definition))
    con.execute(
        _NAMED_CHANGES.format(
            key=quoted(next(iter(definition.keys))),
            new=new,
            old=table_of(definition, catalogue) if is_stored else new,
            condition=scope.condition() if is_stored else "false",
        )
    )
    changed = "select distinct metric from temp.named_changes where old is distinct from new order by metric"
    for (metric,) in con.execute(changed).fetchall():
        con.execute(
            "create or replace temp table both_values as "
            "select run_key, old, new from temp.named_changes where metric = ?",
            [metric],
        )
        _add(con, found.setdefault(metric, KeyPreview()), rounding=rounding)


def _columns(con: Connection, definition: Definition) -> list[str]:
    return [row[0] for row in con.execute(f"describe {scratch(definition.name)}").fetchall()]


def _stored_columns(con: Connection, catalogue: str, definition: Definition) -> set[str]:
    rows = con.execute(
        "select column_name from duckdb_columns() where database_name = ? and schema_name = ? and table_name = ?",
        [catalogue, definition.schema, definition.short_name],
    ).fetchall()
    return {row[0] for row in rows}


def _add(con: Connection, found: KeyPreview, *, rounding: str) -> None:
    rows: Sequence[tuple[int, int, int, int, float | None, float | None]] = con.execute(
        "select run_key, "
        "count(*) filter (old is distinct from new), "
        "count(*) filter (old is null and new is not null), "
        "count(*) filter (old is not null and new is null), "
        "rounded_by(exact_sum(old) / nullif(count(old), 0), $rounding), "
        "rounded_by(exact_sum(new) / nullif(count(new), 0), $rounding) "
        "from temp.both_values group by run_key",
        {"rounding": rounding},
    ).fetchall()
    for run_key, changed, defined, undefined, old, new in rows:
        found.changed += changed
        found.newly_defined += defined
        found.newly_undefined += undefined
        found.runs[run_key] = (old, new)
    if len(found.changes) < DISTINCT_CHANGES:
        for change, count in con.execute(
            "select round(new - old, 6) as change, count(*) from temp.both_values "
            f"where old <> new group by change order by change limit {DISTINCT_CHANGES}"
        ).fetchall():
            found.changes[change] = found.changes.get(change, 0) + count
