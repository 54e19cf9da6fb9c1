"""What a definition fails on: once it has failed, it is computed for fewer and fewer queries."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from eval_pipeline.computing.derived import _failure_of, _named, _rows_without_value, _statement_of
from eval_pipeline.computing.scope import CATALOGUE, Scope, _select, point_views_at
from eval_pipeline.errors import FormulaFailed
from eval_pipeline.formulas.definition import Definition, quoted
from eval_pipeline.store.open import Connection, StatementError

NAMED_ROWS = 3
WHAT_TO_WRITE = (
    "give it a value (such as 0 for a miss), narrow `applies`, or say in the header "
    "`undefined: why it may have none`"
)


@dataclass(frozen=True)
class Culprit:
    """The first query of a run that a definition fails on, where it is one, and the failure in words."""

    query_key: int | None
    text: str


def _find_culprit(
    con: Connection,
    catalogue: str,
    definition: Definition,
    scope: Scope,
    error: FormulaFailed,
    *,
    standing: Collection[str] = (),
) -> Culprit:
    """Call it outside a transaction. `standing` are tables of the second catalogue itself, not views of the store's."""
    point_views_at(con, catalogue, scope, [name for name in definition.reads if name not in standing])
    if error.lacks_values:
        return _without_value(con, catalogue, definition)
    if error.is_everywhere or len(scope.run_keys) > 1:
        return Culprit(None, error.text)
    query_key, found = _find_query(con, catalogue, definition, scope, standing)
    return Culprit(query_key, (found or error).text)


def _without_value(con: Connection, catalogue: str, definition: Definition) -> Culprit:
    rows = _rows_without_value(con, definition, most=NAMED_ROWS)
    named = [
        " of ".join(
            _named(con, catalogue, column, value) for column, value in row.items() if column != "run_key"
        )
        for row in rows
    ]
    about = f" for {listed}" if (listed := ", ".join(one for one in named if one)) else ""
    return Culprit(None, f"no value where it applies{about}: {WHAT_TO_WRITE}")


def _find_query(
    con: Connection, catalogue: str, definition: Definition, scope: Scope, standing: Collection[str]
) -> tuple[int | None, FormulaFailed | None]:
    """The query that it fails on when it is computed for that one alone, and how."""
    keys = [
        key
        for (key,) in con.execute(
            f'select distinct query_key from "{catalogue}".raw.results where run_key = ? order by query_key',
            [scope.run_keys[0]],
        ).fetchall()
    ]
    tables = _tables_of_queries(con, catalogue, definition, scope, standing)
    while len(keys) > 1 and tables:
        half = keys[: len(keys) // 2]
        keys = half if _fails(con, definition, tables, half) else keys[len(half) :]
    # It may fail on several queries together alone, or whatever they are.
    found = _fails(con, definition, tables, keys) if keys and tables else None
    for view, text in tables:
        con.execute(f"create or replace view {view} as {text}")
    return (keys[0], found) if found else (None, None)


def _tables_of_queries(
    con: Connection, catalogue: str, definition: Definition, scope: Scope, standing: Collection[str]
) -> list[tuple[str, str]]:
    """What it reads that has rows by query, as the second catalogue names it, with what it shows of the run."""
    found = []
    for table in definition.reads:
        schema, name = table.split(".", 1)
        view = f"{CATALOGUE}.{schema}.{quoted(name)}"
        columns = [row[0] for row in con.execute(f"describe {view}").fetchall()]
        if "query_key" not in columns:
            continue
        text = _select(catalogue, schema, name, scope)
        if table in standing:
            whole = quoted(f"all of {name}")
            con.execute(f"alter table {view} rename to {whole}")
            text = f"from {CATALOGUE}.{schema}.{whole}"
        found.append((view, text))
    return found


def _fails(
    con: Connection, definition: Definition, tables: list[tuple[str, str]], keys: list[int]
) -> FormulaFailed | None:
    for view, text in tables:
        con.execute(
            f"create or replace view {view} as from ({text}) where query_key between {keys[0]} and {keys[-1]}"
        )
    try:
        statement, _ = _statement_of(con, definition)
        try:
            con.execute(f"create or replace temp table tried as {statement}")
        except StatementError as error:
            raise _failure_of(definition, error) from error
    except FormulaFailed as failed:
        return failed
    return None
