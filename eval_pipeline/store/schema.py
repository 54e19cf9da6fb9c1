"""The store's schema: numbered files applied in order, and the views that people and notebooks read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import duckdb

from eval_pipeline.formulas.definition import Definition, literal, quoted
from eval_pipeline.settings import product_version, shipped_sql
from eval_pipeline.store.lock import Clock
from eval_pipeline.store.versions import _newest_writer, _sign

# What the rows of a run's parts stand in, in schema raw.
TABLES_OF_PART: Final = {
    "results": ("results", "hits", "hit_spans", "citations", "references", "scores"),
    "extractions": ("extraction_cases",),
    "index_report": ("index_reports", "indexed_documents", "indexed_chunks"),
    "judge_spot_check": ("spot_checks",),
    "judgements": ("judgements",),
    "requests": ("judge_requests",),
}
_NUMBERED = re.compile(r"(\d{4})_\w+\.sql\Z")


@cache
def _files() -> tuple[tuple[int, Path], ...]:
    folder = shipped_sql() / "schema"
    return tuple(
        (int(matched[1]), path)
        for path in sorted(folder.iterdir())
        if (matched := _NUMBERED.match(path.name))
    )


def _is_current(con: duckdb.DuckDBPyConnection) -> bool:
    """Whether every schema file was applied to this store."""
    return _applied_numbers(con) >= _known_numbers()


def _known_numbers() -> set[int]:
    """The numbers of the schema files that this version knows."""
    return {number for number, _ in _files()}


def _migrate(con: duckdb.DuckDBPyConnection, clock: Clock) -> str | None:
    """Apply what is missing, with the views, and sign it: all or nothing; returns what was done to an older store."""
    applied = _applied_numbers(con)
    if applied >= _known_numbers():
        _sign(con, clock)
        return None
    before = _newest_writer(con)
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
                [number, path.name, clock()],
            )
        imply_golden_sets(con)
        assign_label_chunkers(con)
        _sign(con, clock)
        _refresh_shipped_views(con)
    except BaseException:
        con.execute("rollback")
        raise
    con.execute("commit")
    if not applied:
        return None
    return (
        f"written by eval-pipeline {before} (schema {max(applied)}), brought up to date for {product_version()} "
        f"(schema {max(_known_numbers())})"
    )


def imply_golden_sets(con: duckdb.DuckDBPyConnection) -> None:
    """Give runs whose dataset has no golden set the queries that they answered as one, where they have none yet."""
    con.execute((shipped_sql() / "schema" / "imply_golden_sets.sql").read_text("utf-8"))


# What a variant for runs of another chunker leaves out of a table of labels.
_IDS_OF_CHUNKS: Final = {
    **dict.fromkeys(("expected_chunks", "grades", "grade_counts"), "false"),
    "expected_chunk_counts": "n_expected = 0",
}


def assign_label_chunkers(
    con: duckdb.DuckDBPyConnection, datasets: Sequence[tuple[str, str | None, int]] = ()
) -> None:
    """Find the chunker whose ids each golden set holds, and derive the labels that score runs of other chunkers.

    `datasets` are the settings in eval-pipeline.toml: (dataset, `labels_of`, `relevant_from`).
    """
    names, versions, lowest = ([row[place] for row in datasets] for place in range(3))
    con.execute(
        "create or replace temp table chunker_settings as select dataset_key, chunker_version, relevant_from from "
        "(select unnest(cast(? as varchar[])) as dataset_id, unnest(cast(? as varchar[])) as chunker_version, "
        "unnest(cast(? as integer[])) as relevant_from) join raw.datasets using (dataset_id)",
        [names, versions, lowest],
    )
    con.execute((shipped_sql() / "schema" / "assign_label_chunkers.sql").read_text("utf-8"))
    if not con.execute("from temp.new_label_chunkers where variant_key is not null limit 1").fetchall():
        return
    tables = con.execute(
        "select table_name from duckdb_tables() where schema_name = 'labels' and database_name = current_database() "
        "and table_name not in ('golden_sets', 'family_hashes')"
    ).fetchall()
    for (table,) in tables:
        con.execute(
            f"insert into labels.{quoted(table)} by name select t.* replace (n.variant_key as golden_key) "
            f"from labels.{quoted(table)} t join temp.new_label_chunkers n using (golden_key) "
            f"where n.variant_key is not null and {_IDS_OF_CHUNKS.get(table, 'true')}"
        )


def _applied_numbers(con: duckdb.DuckDBPyConnection) -> set[int]:
    """The schema files that were applied to this store; none in a database that is no store."""
    # Asked at every opening: listing the columns of the catalogue would cost as much as the opening itself.
    try:
        rows = con.execute(
            "select number from main.schema_migrations where typeof(number) = 'INTEGER'"
        ).fetchall()
    except (duckdb.CatalogException, duckdb.BinderException):
        return set()
    return {number for (number,) in rows}


NO_METRICS = "select 0 as run_key, 0 as query_key, '' as metric, cast(null as double) as value where false"


def refresh_views(con: duckdb.DuckDBPyConnection, metrics: Mapping[str, Definition]) -> None:
    """Make the public views anew where their text changed; `metrics` are the keys that per_query_metrics shows."""
    _replace_changed(con, {"per_query_metrics": _per_query_metrics(con, metrics)}, _known(con))


def _refresh_shipped_views(con: duckdb.DuckDBPyConnection) -> None:
    """Make the views of sql/views anew where their file changed."""
    wanted = {path.stem: path.read_text("utf-8") for path in _view_files()}
    known = _known(con)
    if "per_query_metrics" not in known:
        wanted["per_query_metrics"] = _per_query_metrics(con, {})
    _replace_changed(con, wanted, known)


def _view_files() -> list[Path]:
    return sorted((shipped_sql() / "views").glob("*.sql"))


def _known(con: duckdb.DuckDBPyConnection) -> dict[str, str]:
    return dict(con.execute("select name, text from main.view_texts").fetchall())


def _replace_changed(
    con: duckdb.DuckDBPyConnection, wanted: Mapping[str, str], known: Mapping[str, str]
) -> None:
    for name, text in wanted.items():
        if known.get(name) != text:
            con.execute(f"create or replace view main.{name} as {text}")
            con.execute("delete from main.view_texts where name = ?", [name])
            con.execute("insert into main.view_texts values (?, ?)", [name, text])


def _per_query_metrics(con: duckdb.DuckDBPyConnection, metrics: Mapping[str, Definition]) -> str:
    """Every metric table turned long; one arm per key, so that a filter on the metric reads one column."""
    existing = set(
        con.execute(
            "select table_name, column_name from duckdb_columns() where schema_name = 'metrics'"
        ).fetchall()
    )
    arms = [
        f"select run_key, query_key, {literal(key)} as metric, {quoted(key)} as value "
        f"from metrics.{quoted(one.short_name)}"
        for key, one in metrics.items()
        if (one.short_name, key) in existing and (one.short_name, "query_key") in existing
    ] + [
        f"select run_key, query_key, metric, value from metrics.{quoted(table)}"
        for table, column in sorted(existing)
        if column == "metric" and (table, "value") in existing
    ]
    return (
        "select runs.run_id, query_ids.query_id, long.metric, long.value from ("
        + " union all ".join(arms or [NO_METRICS])
        + ") as long inner join raw.runs as runs on long.run_key = runs.run_key "
        "inner join raw.query_ids as query_ids on long.query_key = query_ids.query_key"
    )
