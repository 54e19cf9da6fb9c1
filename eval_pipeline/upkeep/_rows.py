"""A run's or dataset's rows removed wherever they are, with the ids and texts nobody else uses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from eval_pipeline.computing.history import Row
from eval_pipeline.store.frozen import ARCHIVE, GOLDEN_SET, RUN, count_of, remove_unused_texts
from eval_pipeline.store.key_columns import StoredColumn, columns_with_key, stored_columns
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Store

HISTORY = ("ledger.aggregate_history", "ledger.summary_history")
# These say that something was there, and nothing of what it was.
STAYING = frozenset(("ledger.deliveries", "ledger.tombstones", "ledger.forgotten_texts"))
IDS = ("query", "chunk", "doc", "case")


@dataclass(frozen=True)
class Target:
    """What is to be forgotten, by keys; a run that was only rejected has a name and no key."""

    kind: str
    name: str
    run_keys: Sequence[int] = ()
    run_ids: Sequence[str] = ()
    dataset_key: int | None = None
    golden_keys: Sequence[int] = ()
    archive_keys: Sequence[int] = ()

    @property
    def is_dataset(self) -> bool:
        return self.kind == "dataset"


@dataclass
class Removed:
    """How many rows went, by table, and how many ids and texts that nobody else used."""

    rows: dict[str, int] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    texts: int = 0
    emptied: dict[str, int] = field(default_factory=dict)
    quarantine: int = 0


def find_target(con: Connection, kind: str, name: str) -> Target:
    """The keys behind a name."""
    if kind == "run":
        rows = con.execute("select run_key from raw.runs where run_id = ?", [name]).fetchall()
        return Target("run", name, [key for (key,) in rows], [name])
    dataset = con.execute("select dataset_key from raw.datasets where dataset_id = ?", [name]).fetchall()
    if not dataset:
        return Target("dataset", name)
    key = dataset[0][0]
    runs = con.execute(
        "select run_key, run_id from raw.runs where dataset_key = ? order by all", [key]
    ).fetchall()
    return Target(
        "dataset",
        name,
        [run_key for run_key, _ in runs],
        [run_id for _, run_id in runs],
        key,
        _keys(con, _GOLDEN_KEYS, key),
        _keys(con, "select archive_key from raw.archives where dataset_key = ?", key),
    )


_GOLDEN_KEYS = """
with sets as (select golden_key from labels.golden_sets where dataset_key = ?)
from sets
union all
select variant_key from ledger.label_chunkers semi join sets using (golden_key) where variant_key is not null
"""


def _keys(con: Connection, sql: str, key: int) -> list[int]:
    return [row[0] for row in con.execute(sql, [key]).fetchall()]


def remove_rows(store: Store, target: Target, *, with_history: bool) -> Removed:
    """Remove every row of the target; call it inside a transaction."""
    con = store.con
    removed = Removed()
    columns = [one for one in stored_columns(con) if one.plain_table not in STAYING]
    quarantine, parameters = quarantine_of(target)
    removed.quarantine = count_of(
        con.execute(f"delete from ledger.quarantine where {quarantine}", parameters)
    )
    for column in columns_with_key(columns, "run"):
        if column.plain_table not in HISTORY:
            _remove(con, column, target.run_keys, removed)
    for column in columns:
        if column.plain_table == "ledger.quarantine" or column.kind != "VARCHAR":
            continue
        if column.name == "run_id":
            _remove(con, column, target.run_ids, removed)
        elif column.name == "dataset_id" and target.is_dataset:
            _remove(con, column, [target.name], removed)
    golden_keys = [*target.golden_keys, *_unused_implied_sets(con)]
    of_runs = {one.plain_table for one in columns_with_key(columns, "run")}
    for name, keys in (
        (GOLDEN_SET, golden_keys),
        (ARCHIVE, target.archive_keys),
        ("dataset_key", [target.dataset_key] if target.dataset_key is not None else []),
    ):
        for column in columns:
            if column.name == name and column.plain_table not in of_runs:
                _remove(con, column, keys, removed)
    _remove_marks(con, target)
    _remove_history(con, target, removed, with_history=with_history)
    close_deliveries(store, target)
    removed.ids = remove_unused_ids(con)
    removed.texts = remove_unused_texts(con)
    return removed


def _unused_implied_sets(con: Connection) -> list[int]:
    """Queries that stood as a golden set for runs that are gone; what was computed from them may be asked for yet."""
    of_runs = " union all ".join(
        f"select golden_key from {table} semi join raw.runs using (run_key)"
        for table in ("ledger.implied_golden_sets", "ledger.cells", *HISTORY)
    )
    rows = con.execute(
        "select distinct golden_key from labels.queries where golden_key < 0 and golden_key not in "
        f"(select golden_key from ({of_runs}) where golden_key is not null)"
    ).fetchall()
    return [key for (key,) in rows]


def _remove(con: Connection, column: StoredColumn, keys: Sequence[int | str], removed: Removed) -> None:
    if not keys or column.kind.endswith("[]"):
        return
    n = count_of(
        con.execute(
            f'delete from {column.full_table} where "{column.name}" in (select unnest(?))', [list(keys)]
        )
    )
    if n:
        removed.rows[column.plain_table] = removed.rows.get(column.plain_table, 0) + n


def _remove_marks(con: Connection, target: Target) -> None:
    for owner, keys in (
        (RUN, target.run_keys),
        (GOLDEN_SET, target.golden_keys),
        (ARCHIVE, target.archive_keys),
    ):
        con.execute(
            "delete from ledger.forgotten_texts where owner = ? and owner_key in (select unnest(?))",
            [owner, list(keys)],
        )


def _remove_history(con: Connection, target: Target, removed: Removed, *, with_history: bool) -> None:
    """Replaced values go too when asked to; else they stay as numbers: names of a dataset's slices are its own."""
    keys = list(target.run_keys)
    for table in HISTORY:
        slices = " and slice <> ''" if table == HISTORY[0] else ""
        if with_history or (slices and target.is_dataset):
            condition = "" if with_history else slices
            n = count_of(
                con.execute(f"delete from {table} where run_key in (select unnest(?)){condition}", [keys])
            )
            if n:
                removed.rows[table] = n
    if not with_history:
        rows = con.execute(
            'select distinct "row" from ledger.summary_history where run_key in (select unnest(?))', [keys]
        ).fetchall()
        for (text,) in rows:
            con.execute(
                'update ledger.summary_history set "row" = ? where "row" = ? and run_key in (select unnest(?))',
                [json.dumps(_numbers_of(json.loads(text))), text, keys],
            )


def _numbers_of(row: Row) -> Row:
    return {
        name: value if value is None or isinstance(value, bool | int | float) else None
        for name, value in row.items()
    }


def quarantine_of(target: Target) -> tuple[str, list[object]]:
    """The rejected rows of the target, as a condition: by its runs' names, and by where the files stood."""
    folder = "datasets" if target.is_dataset else "runs"
    condition = "run_id in (select unnest(?)) or contains(path, ?) or ends_with(path, ?)"
    place = f"/{folder}/{target.name}"
    parameters: list[object] = [list(target.run_ids), f"{place}/", place]
    if target.is_dataset:
        condition += (
            " or dataset_id = ? or content_hash in (select d.content_hash from ledger.deliveries d "
            "where d.dataset_id = ?)"
        )
        parameters += [target.name, target.name]
    return f"({condition})", parameters


def close_deliveries(store: Store, target: Target) -> None:
    """That something was delivered stays known; it stands no more."""
    column = "dataset_id" if target.is_dataset else "run_id"
    store.con.execute(
        f"update ledger.deliveries set superseded_at = coalesce(superseded_at, ?) where {column} = ?",
        [store.clock(), target.name],
    )


def remove_unused_ids(con: Connection) -> dict[str, int]:
    """Ids that nothing refers to: they may say as much as a text."""
    found: dict[str, int] = {}
    columns = stored_columns(con)
    for kind in IDS:
        table = f"raw.{kind}_ids"
        used = " union all ".join(
            one.values for one in columns_with_key(columns, kind) if one.plain_table != table
        )
        n = count_of(
            con.execute(
                f"delete from {table} where {kind}_key not in (select key from ({used}) where key is not null)"
            )
        )
        if n:
            found[kind] = n
    return found
