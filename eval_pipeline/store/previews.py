"""New values beside the stored ones, computed and compared without writing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from eval_pipeline.formulas.definition import Definition, quoted
from eval_pipeline.store.connect import Connection
from eval_pipeline.store.derived import table_of
from eval_pipeline.store.visible import Scope
from eval_pipeline.store.whatif import scratch

DISTINCT_CHANGES = 5000


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
    store: str,
    definition: Definition,
    scope: Scope,
    found: Mapping[str, KeyPreview],
    *,
    rounding: str,
) -> None:
    """Add what the scratch table of the definition says about the runs of the scope."""
    stored = _stored_columns(con, store, definition)
    if not stored:
        stored_side = f"(select * from {scratch(definition.name)} where false)"
    else:
        stored_side = f"(from {table_of(definition, store)} where {scope.condition()})"
    grain = [column for column in _columns(con, definition) if column not in definition.keys]
    using = ", ".join(quoted(column) for column in grain)
    for key in definition.keys:
        old = f"o.{quoted(key)}" if key in stored or not stored else "cast(null as double)"
        con.execute(
            f"create or replace temp table both_values as select run_key, {old} as old, n.{quoted(key)} as new "
            f"from {scratch(definition.name)} n full join {stored_side} o using ({using})"
        )
        _add(con, found[key], rounding=rounding)


def _columns(con: Connection, definition: Definition) -> list[str]:
    return [row[0] for row in con.execute(f"describe {scratch(definition.name)}").fetchall()]


def _stored_columns(con: Connection, store: str, definition: Definition) -> set[str]:
    rows = con.execute(
        "select column_name from duckdb_columns() where database_name = ? and schema_name = ? and table_name = ?",
        [store, definition.schema, definition.short_name],
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
