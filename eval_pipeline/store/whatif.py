"""Computing without keeping: what definitions would yield, for runs as they are stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eval_pipeline.formulas.definition import Definition, quoted
from eval_pipeline.store.connect import Connection
from eval_pipeline.store.derived import statement_of
from eval_pipeline.store.visible import CATALOGUE, Scope, show


def evaluate(
    con: Connection,
    store: str,
    definitions: Sequence[Definition],
    scope: Scope,
    *,
    standing: Iterable[str] = (),
) -> None:
    """Compute definitions, parents first, into the second catalogue; what is not among them is read from the store.

    `standing` names what an earlier call left in the second catalogue. Afterwards each definition stands there under
    its own name, with the columns it would have in the store.
    """
    for one in definitions:
        drop(con, [one.name])
    computed = set(standing)
    for one in definitions:
        show(con, store, scope, [name for name in one.reads if name not in computed])
        statement, _ = statement_of(con, one)
        con.execute(f"create table {scratch(one.name)} as {statement}")
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
