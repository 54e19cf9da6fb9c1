"""The views that people and notebooks read, in the schema main."""

from __future__ import annotations

from eval_pipeline.formulas.registry import Registry
from eval_pipeline.settings import shipped_sql
from eval_pipeline.store.connect import Connection
from eval_pipeline.store.derived import quoted


def refresh_views(con: Connection, registry: Registry) -> None:
    """Make the public views anew where their text changed."""
    wanted = {path.stem: path.read_text("utf-8") for path in sorted((shipped_sql() / "views").glob("*.sql"))}
    wanted["per_query_metrics"] = _per_query_metrics(con, registry)
    con.execute("create table if not exists main.view_texts (name varchar not null, text varchar not null)")
    known = dict(con.execute("select name, text from main.view_texts").fetchall())
    for name, text in wanted.items():
        if known.get(name) != text:
            con.execute(f"create or replace view main.{name} as {text}")
            con.execute("delete from main.view_texts where name = ?", [name])
            con.execute("insert into main.view_texts values (?, ?)", [name, text])


def _per_query_metrics(con: Connection, registry: Registry) -> str:
    """Every metric table turned long; one arm per key, so that a filter on the metric reads one column."""
    existing = {
        (table, column)
        for table, column in con.execute(
            "select table_name, column_name from duckdb_columns() where schema_name = 'metrics'"
        ).fetchall()
    }
    arms = [
        f"select run_key, query_key, {_text(key)} as metric, {quoted(key)} as value "
        f"from metrics.{quoted(one.short_name)}"
        for key, one in registry.keys().items()
        if (one.short_name, key) in existing and (one.short_name, "query_key") in existing
    ]
    nothing = "select 0 as run_key, 0 as query_key, '' as metric, cast(null as double) as value where false"
    return (
        "select runs.run_id, query_ids.query_id, long.metric, long.value from ("
        + " union all ".join(arms or [nothing])
        + ") as long inner join raw.runs as runs on long.run_key = runs.run_key "
        "inner join raw.query_ids as query_ids on long.query_key = query_ids.query_key"
    )


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
