"""Derived tables: computed from a definition, replaced run by run, all or nothing."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from eval_pipeline.computing.scope import KnownTables, Scope
from eval_pipeline.errors import DefinitionError, FormulaFailed
from eval_pipeline.formulas.definition import APPLIES, Definition, is_key_name, quoted, render
from eval_pipeline.formulas.python_source import load_function
from eval_pipeline.store.open import Connection, StatementError, first_row

GRAIN_TYPES = {"run_key": "integer", "query_key": "integer"}
# What the statement raises at the first row without a value: asking for such rows beforehand would compute it twice.
_NO_VALUE = "no value where it applies"
# What DuckDB raises where the fault lies in the file, the machine or the engine, and not in what a statement says.
_TROUBLE = frozenset(
    f"{name}Exception"
    for name in ("IO", "Transaction", "Fatal", "Internal", "Serialization", "Interrupt", "Connection")
)


@dataclass(frozen=True)
class Column:
    name: str
    kind: str


def rank_rows(con: Connection) -> str:
    """The rows of facts.chunk_ranks as SQL, with ranks by characters for runs of a chunker that the labels do not name.

    Without that table it is a row of nulls.
    """
    if not table_columns(con, "facts.chunk_ranks"):
        return "(select null::int as run_key, null::int as query_key, null::int as n_expected, null::int as first_rank)"
    if not table_columns(con, "facts.span_ranks"):
        return "facts.chunk_ranks"
    return (
        "(select c.* replace (coalesce(nullif(s.n_spans, 0), c.n_expected) as n_expected, "
        "coalesce(c.first_rank, s.first_rank) as first_rank) from facts.chunk_ranks c left join "
        "(from facts.span_ranks where run_key in "
        "(select run_key from ledger.runs_in_order where labels_of is not null)) s using (run_key, query_key))"
    )


def table_of(definition: Definition, catalogue: str) -> str:
    """The definition's table in the store."""
    return f'"{catalogue}".{definition.schema}.{quoted(definition.short_name)}'


def compute(
    con: Connection,
    catalogue: str,
    definition: Definition,
    scope: Scope,
    known: KnownTables,
    *,
    has_no_values: bool = False,
) -> dict[int, int]:
    """Compute the definition for the runs of the scope, or no rows, and replace what was stored.

    Call it inside a transaction, with the views of what it reads set up. Returns the rows per run.
    """
    statement, columns = _statement_of(con, definition)
    _ensure_table(con, catalogue, definition, columns, known)
    target = table_of(definition, catalogue)
    if not scope.is_first:
        con.execute(f"delete from {target} where {scope.condition()}")
    if has_no_values:
        return {}
    names = ", ".join(quoted(column.name) for column in columns)
    try:
        ((n_rows,),) = con.execute(f"insert into {target} ({names}) {statement}").fetchall()
    except StatementError as error:
        raise _failure_of(definition, error) from error
    if definition.is_own and definition.schema == "metrics":
        _refuse_repeated_rows(con, catalogue, definition, scope)
    if len(scope.run_keys) == 1:
        return {scope.run_keys[0]: n_rows}
    counted = con.execute(
        f"select run_key, count(*) from {target} where {scope.condition()} group by run_key"
    ).fetchall()
    return dict(counted)


def _refuse_repeated_rows(con: Connection, catalogue: str, definition: Definition, scope: Scope) -> None:
    """What a formula scores stands in one row; in a second one it would count twice. Tests see to shipped files."""
    grain = ", ".join(quoted(column) for column in definition.grain)
    repeated = first_row(
        con,
        f"select count(*), {grain} from {table_of(definition, catalogue)} where {scope.condition()} "
        f"group by {grain} having count(*) > 1 order by {grain} limit 1",
    )
    if repeated:
        n, *values = repeated
        named = zip(definition.grain, values, strict=True)
        about = ", ".join(_named(con, catalogue, column, value) for column, value in named)
        raise FormulaFailed(
            definition.path,
            f"its rows are one per {', '.join(definition.grain)}, and for {about} there are {n}; "
            "group them, or join what it reads by its whole key",
        )


def _named(con: Connection, catalogue: str, column: str, value: object) -> str:
    """A key as people know it."""
    for key, table, name in (("run_key", "runs", "run_id"), ("query_key", "query_ids", "query_id")):
        if column == key:
            known = first_row(con, f'select {name} from "{catalogue}".raw.{table} where {key} = ?', [value])
            return f"{key.removesuffix('_key')} {known[0]!r}" if known else f"{column} {value!r}"
    return f"{column} {value!r}"


def _statement_of(con: Connection, definition: Definition) -> tuple[str, list[Column]]:
    """The definition's select with its keys named and blanked where it does not apply, and the columns it yields."""
    source = _source_of(con, definition)
    described = _describe(con, definition, source)
    keys = definition.column_of_key
    present = [column.name for column in described]
    missing = [key for key, column in keys.items() if column not in present]
    if missing:
        raise FormulaFailed(
            definition.path,
            f"the header names the key {missing[0]!r}, the statement has the columns "
            f"{', '.join(name for name in present if name != APPLIES)}",
            is_everywhere=True,
        )
    grain = [column for column in described if column.name not in keys.values() and column.name != APPLIES]
    _check_grain(definition, [column.name for column in grain])
    kinds = {column.name: column.kind for column in described}
    is_metric = definition.schema == "metrics"
    parts = [quoted(column.name) for column in grain]
    columns = [Column(column.name, GRAIN_TYPES.get(column.name, column.kind)) for column in grain]
    for key, column in keys.items():
        value = _finite(quoted(column)) if is_metric else quoted(column)
        if _must_have_values(definition):
            value = f"coalesce({value}, cast(error('{_NO_VALUE}') as double))"
        if definition.header.applies:
            value = f"case when {quoted(APPLIES)} then {value} end"
        parts.append(f"{value} as {quoted(key)}")
        columns.append(Column(key, "DOUBLE" if is_metric else kinds[column]))
    return f"select {', '.join(parts)} from {source}", columns


def _source_of(con: Connection, definition: Definition) -> str:
    """The definition's own rows, as what a select reads."""
    return _python_frame(con, definition) if definition.is_python else f"({definition.scored_sql}\n)"


def _must_have_values(definition: Definition) -> bool:
    """A mean over the rows that happen to have a value is not what was asked. Tests see to shipped files."""
    return definition.is_own and definition.schema == "metrics" and not definition.header.undefined


def _rows_without_value(con: Connection, definition: Definition, *, most: int) -> list[dict[str, Any]]:
    """The first rows where it applies and gives no value, as the columns that say what they are about."""
    source = _source_of(con, definition)
    lacking = [f"{_finite(quoted(column))} is null" for column in definition.column_of_key.values()]
    applies = quoted(APPLIES) if definition.header.applies else "true"
    grain = ", ".join(quoted(column) for column in definition.grain)
    rows = con.execute(
        f"select distinct {grain} from {source} where {applies} and ({' or '.join(lacking)}) "
        f"order by {grain} limit {most}"
    ).fetchall()
    return [dict(zip(definition.grain, row, strict=True)) for row in rows]


def _finite(column: str) -> str:
    """A value is a number or none: NaN and the infinities are none."""
    value = f"cast({column} as double)"
    return f"case when isfinite({value}) then {value} end"


def _check_grain(definition: Definition, found: list[str]) -> None:
    unnamed = [name for name in found if name not in definition.grain and not is_key_name(name)]
    if unnamed:
        raise FormulaFailed(
            definition.path,
            f"the column {unnamed[0]!r} is no key of the header; describe it there, or name it in `grain` when it "
            "says what the row is about",
            is_everywhere=True,
        )
    if found[:1] != ["run_key"]:
        raise FormulaFailed(
            definition.path,
            "the first column is run_key, so that a run can be replaced",
            is_everywhere=True,
        )
    if definition.schema == "metrics" and set(found) != set(definition.grain):
        raise FormulaFailed(
            definition.path,
            f"its rows are per {', '.join(found)}, its text says {', '.join(definition.grain)}; "
            "spell the columns out in the outermost select, or name them in `grain`",
            is_everywhere=True,
        )


def _describe(con: Connection, definition: Definition, source: str) -> list[Column]:
    try:
        rows = con.execute(f"describe select * from {source}").fetchall()
    except StatementError as error:
        raise _failure_of(definition, error, is_everywhere=True) from error
    return [Column(row[0], row[1]) for row in rows]


def _failure_of(definition: Definition, error: Exception, *, is_everywhere: bool = False) -> Exception:
    """What a statement of the definition raised, as its own failure where it is that."""
    if type(error).__name__ in _TROUBLE:
        return error
    text = _first_line(error)
    return FormulaFailed(
        definition.path, text, is_everywhere=is_everywhere, lacks_values=text.endswith(_NO_VALUE)
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def _python_frame(con: Connection, definition: Definition) -> str:
    """Run a Python formula on Polars frames of what it reads; its result is seen by SQL as a table."""
    function = _function_of(definition)
    frames = [_frame(con, definition, place) for place in range(len(definition.reads))]
    try:
        result = function(*frames, **_used_parameters(function, definition))
    except (Exception, SystemExit) as error:
        raise FormulaFailed(
            definition.path, f"the formula failed: {error or type(error).__name__}"
        ) from error
    if not hasattr(result, "to_arrow"):
        raise FormulaFailed(
            definition.path,
            f"the formula gives a {type(result).__name__}, expected a polars DataFrame; "
            "return one, and collect what is lazy",
            is_everywhere=True,
        )
    con.register("formula_result", result.to_arrow())
    if not definition.header.applies:
        return "formula_result"
    first, *others = definition.reads
    grain = ", ".join(quoted(column) for column in definition.grain)
    joins = "".join(f" inner join {table} using ({grain})" for table in others)
    condition = _rendered_applies(definition)
    return (
        f"(select coalesce(({condition}), false) as {quoted(APPLIES)}, formula_result.* "
        f"from {first}{joins} inner join formula_result using ({grain}))"
    )


def _function_of(definition: Definition) -> Callable[..., Any]:
    try:
        return load_function(definition.path, definition.body)
    except DefinitionError as error:
        # Of what is refused nothing is tried; what cannot be imported fails, and its siblings do not.
        if error.__cause__ is None:
            raise
        text = str(error).removeprefix(f"{definition.path}: ")
        raise FormulaFailed(definition.path, text, is_everywhere=True) from error


def _frame(con: Connection, definition: Definition, place: int) -> Any:
    """What arrives of one of the tables that it reads."""
    taken = definition.taken[place] if definition.taken else ()
    try:
        return con.sql(f"select {', '.join(map(quoted, taken)) or '*'} from {definition.reads[place]}").pl()
    except StatementError as error:
        raise _failure_of(definition, error, is_everywhere=True) from error


def _used_parameters(function: Callable[..., Any], definition: Definition) -> dict[str, Any]:
    accepted = inspect.signature(function).parameters
    return {name: value for name, value in definition.header.parameters.items() if name in accepted}


def _rendered_applies(definition: Definition) -> str:
    return render(definition.header.applies or "true", definition.header.parameters, path=definition.path)


def table_columns(con: Connection, name: str) -> dict[str, str]:
    """The columns of a definition's table with their types; empty when nothing was computed yet.

    Not for use inside a transaction, which a table that is not there would end.
    """
    schema, table = name.split(".", 1)
    try:
        rows = con.execute(f"describe {schema}.{quoted(table)}").fetchall()
    except StatementError:
        return {}
    return {name: kind for name, kind, *_ in rows}


def add_new_columns(con: Connection, catalogue: str, definition: Definition, known: KnownTables) -> None:
    """Give a stored table the columns that its definition has today; the views of what it reads have to be set up."""
    _, columns = _statement_of(con, definition)
    _ensure_table(con, catalogue, definition, columns, known)


def _ensure_table(
    con: Connection, catalogue: str, definition: Definition, columns: list[Column], known: KnownTables
) -> None:
    """Create the table, or give it the columns that it lacks; a column whose type changed is made anew."""
    existing = known.columns.setdefault(definition.name.lower(), {})
    lacking = [one for one in columns if existing.get(one.name, "").upper() != one.kind.upper()]
    if not lacking:
        return
    # A view does not survive that the columns of its table change.
    known.views.pop(definition.name, None)
    table = table_of(definition, catalogue)
    if not existing:
        listed = ", ".join(f"{quoted(column.name)} {column.kind}" for column in columns)
        con.execute(f'create schema if not exists "{catalogue}".{definition.schema}')
        con.execute(f"create table {table} ({listed})")
    for column in lacking if existing else ():
        name = quoted(column.name)
        change = f"alter column {name} type" if column.name in existing else f"add column {name}"
        con.execute(f"alter table {table} {change} {column.kind}")
    existing.update({column.name: column.kind for column in lacking})
