"""What a definition sees while it is computed: the same table names with only its own rows."""

# A second, empty catalogue carries views named like the store's tables. Raw and derived tables show the runs being
# computed, label tables the golden set that scores their dataset, archive tables that dataset's archives. A
# definition's text runs in it unchanged and cannot reach anything else.

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from eval_pipeline.config import Config
from eval_pipeline.formulas.definition import Helper
from eval_pipeline.formulas.registry import DERIVED
from eval_pipeline.store.open import Connection, first_value

CATALOGUE = "visible_rows"
UNSCOPED = ("raw.texts", "raw.chunk_ids", "raw.doc_ids", "raw.query_ids", "raw.case_ids")
# What eval-pipeline.toml says of a dataset's labels, as one row: no table of the store.
SETTINGS = "labels.settings"
LABEL_SETTINGS = "temp.label_settings"
ARCHIVES = ("raw.archives", "raw.archive_chunks", "raw.archive_spans")
SCHEMAS = ("raw", "labels", "facts", "metrics", "aggregates", "comparisons")


@dataclass(frozen=True)
class Scope:
    """The runs of one dataset that are computed together; `run_keys` ascend. `is_first`: none has rows of it yet."""

    dataset_key: int
    golden_key: int
    run_keys: Sequence[int]
    is_first: bool = False

    @property
    def is_range(self) -> bool:
        """Whether the keys leave no gap."""
        return len(self.run_keys) == self.run_keys[-1] - self.run_keys[0] + 1

    def condition(self) -> str:
        """The runs as SQL: bounds that let whole row groups be skipped, and the exact set where there are gaps."""
        bounds = f"run_key between {self.run_keys[0]} and {self.run_keys[-1]}"
        return bounds if self.is_range else f"{bounds} and run_key in (select run_key from temp.scoped_runs)"


@dataclass
class KnownTables:
    """The derived tables as they stand, by name in lower case, and the views as they point: true under this lock."""

    columns: dict[str, dict[str, str]] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)
    run_keys: Sequence[int] = ()
    # Golden key → whether it is the variant for runs of another chunker.
    variants: dict[int, bool] = field(default_factory=dict)


def known_tables(con: Connection, catalogue: str) -> KnownTables:
    """Ask the store for its derived tables, once for everything that is computed under this lock."""
    known = KnownTables()
    for name, column, kind in con.execute(
        "select lower(schema_name || '.' || table_name), column_name, data_type from duckdb_columns() "
        "where database_name = ? and list_contains(?, schema_name)",
        [catalogue, list(DERIVED)],
    ).fetchall():
        known.columns.setdefault(name, {})[column] = kind
    return known


def _note_label_settings(con: Connection, config: Config) -> None:
    """Put what is said of the labels of datasets where statements find it."""
    said = config.label_settings
    con.execute(
        f"create or replace temp table {LABEL_SETTINGS} as select d.dataset_key, s.relevant_from, s.labels "
        "from (select unnest(cast($names as varchar[])) as dataset_id, "
        "unnest(cast($lowest as integer[])) as relevant_from, unnest(cast($labels as varchar[])) as labels) s "
        "join raw.datasets d using (dataset_id)",
        {
            "names": [name for name, _, _ in said],
            "lowest": [lowest for _, lowest, _ in said],
            "labels": [labels for *_, labels in said],
        },
    )


@contextmanager
def visible_catalogue(
    con: Connection, helpers: Iterable[Helper], config: Config | None = None
) -> Iterator[str]:
    """Set the second catalogue up on this connection; yields the name of the store's own."""
    catalogue = str(first_value(con, "select current_database()"))
    _note_label_settings(con, config or Config())
    con.execute(f"attach ':memory:' as {CATALOGUE}")
    for schema in SCHEMAS:
        con.execute(f"create schema if not exists {CATALOGUE}.{schema}")
    for helper in helpers:
        arguments = ", ".join(helper.header.arguments)
        con.execute(f"create or replace temp macro {helper.name}({arguments}) as ({helper.body})")
    con.execute("create or replace temp table scoped_runs (run_key integer)")
    con.execute(f"use {CATALOGUE}")
    try:
        yield catalogue
    finally:
        con.execute(f'use "{catalogue}"')
        con.execute(f"detach {CATALOGUE}")


def point_views_at(
    con: Connection, catalogue: str, scope: Scope, tables: Iterable[str], known: KnownTables | None = None
) -> None:
    """Point the views at the runs of a scope; those that are known to point there stay."""
    known = known or KnownTables()
    if not scope.is_range and known.run_keys != scope.run_keys:
        con.execute("delete from temp.scoped_runs")
        con.execute("insert into temp.scoped_runs select unnest(?)", [list(scope.run_keys)])
        known.run_keys = scope.run_keys
    for table in tables:
        schema, name = table.split(".", 1)
        text = _select(catalogue, schema, name, scope)
        if known.views.get(table) != text:
            con.execute(f'create or replace view {CATALOGUE}.{schema}."{name}" as {text}')
            known.views[table] = text


def _select(catalogue: str, schema: str, name: str, scope: Scope) -> str:
    source = f'"{catalogue}".{schema}."{name}"'
    table = f"{schema}.{name}"
    if table in UNSCOPED:
        return f"from {source}"
    if table == SETTINGS:
        return (
            "select coalesce(max(relevant_from), 1) as relevant_from, max(labels) as labels, "
            f'exists(from "{catalogue}".ledger.label_chunkers where variant_key = {scope.golden_key}) '
            "as is_of_other_chunker "
            f"from {LABEL_SETTINGS} where dataset_key = {scope.dataset_key}"
        )
    if schema == "labels":
        return f"select * exclude (golden_key) from {source} where golden_key = {scope.golden_key}"
    if table in ARCHIVES:
        in_force = f'"{catalogue}".ledger.archives_in_force where dataset_key = {scope.dataset_key}'
        return f"from {source} where archive_key in (select archive_key from {in_force})"
    return f"from {source} where {scope.condition()}"
