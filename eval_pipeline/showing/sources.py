"""Golden sets and chunk archives as they are now, and what their newest delivery changed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from eval_pipeline.loading.inbox import digest
from eval_pipeline.loading.write_labels import FAMILIES
from eval_pipeline.store.open import Connection, first_value

LABEL_TABLES = ("query_details", *FAMILIES)
ARCHIVE_TABLES = ("archive_chunks", "archive_spans")


@dataclass(frozen=True)
class Difference:
    """How many queries or chunks a delivery added, removed and changed."""

    added: int
    removed: int
    changed: int


@dataclass(frozen=True)
class SourceVersion:
    """A golden set, or all archives of one chunker version, as they score now."""

    name: str
    version: str
    n_rows: int
    n_versions: int
    loaded_at: dt.datetime
    difference: Difference
    details: tuple[tuple[str, int], ...] = ()


def golden_sets(con: Connection) -> list[SourceVersion]:
    """The newest golden set of every dataset."""
    rows = con.execute(
        "select d.dataset_id, g.golden_key, g.content_hash, g.n_rows, g.loaded_at, "
        "(select count(*) from labels.golden_sets a where a.dataset_key = g.dataset_key), "
        "(select max(golden_key) from labels.golden_sets b "
        " where b.dataset_key = g.dataset_key and b.golden_key < g.golden_key) "
        "from ledger.golden_sets_in_force g join raw.datasets d using (dataset_key) order by d.dataset_id"
    ).fetchall()
    return [
        SourceVersion(
            dataset, version, n_rows, n_versions, loaded_at, _golden_difference(con, golden_key, before)
        )
        for dataset, golden_key, version, n_rows, loaded_at, n_versions, before in rows
    ]


def _golden_difference(con: Connection, golden_key: int, before: int | None) -> Difference:
    """A query has changed when anything that is said about it has, but not when only its place in the file has."""
    tables = [f"labels.{table}" for table in LABEL_TABLES]
    return _difference(con, tables, "golden_key", "query_key", golden_key, before, ignored=("query_no",))


def archives(con: Connection) -> list[SourceVersion]:
    """The newest state of every chunk archive, those of one chunker version together."""
    rows = con.execute(
        "select a.chunker_version, coalesce(d.dataset_id, ''), a.archive_key, a.content_hash, a.n_rows, a.loaded_at, "
        "count(*) over (partition by a.chunker_version, a.dataset_key), "
        "lag(a.archive_key) over (partition by a.chunker_version, a.dataset_key order by a.archive_key), "
        "a.superseded_at is null "
        "from raw.archives a left join raw.datasets d using (dataset_key) "
        "order by a.chunker_version, d.dataset_id nulls first"
    ).fetchall()
    current: dict[str, list[tuple[str, int, str, int, dt.datetime, int, int | None]]] = {}
    for version, *archive, is_newest in rows:
        if is_newest:
            current.setdefault(version, []).append(tuple(archive))
    return [_archive_version(con, version, states) for version, states in current.items()]


def _archive_version(
    con: Connection,
    version: str,
    states: Sequence[tuple[str, int, str, int, dt.datetime, int, int | None]],
) -> SourceVersion:
    """What changed is what changed last: the differences of the archives that were loaded last."""
    newest = max(loaded_at for *_, loaded_at, _, _ in states)
    found = [
        _difference(
            con, [f"raw.{table}" for table in ARCHIVE_TABLES], "archive_key", "chunk_key", key, before
        )
        for _, key, _, _, loaded_at, _, before in states
        if loaded_at == newest
    ]
    hashes = [content_hash for _, _, content_hash, *_ in states]
    return SourceVersion(
        name=version,
        version=hashes[0] if len(hashes) == 1 else digest(hashes),
        n_rows=sum(n_rows for _, _, _, n_rows, *_ in states),
        n_versions=sum(n_versions for *_, n_versions, _ in states),
        loaded_at=newest,
        difference=Difference(
            sum(one.added for one in found),
            sum(one.removed for one in found),
            sum(one.changed for one in found),
        ),
        details=tuple((dataset or "every dataset", n_rows) for dataset, _, _, n_rows, *_ in states),
    )


def _difference(
    con: Connection,
    tables: Sequence[str],
    owner: str,
    item: str,
    after: int,
    before: int | None,
    *,
    ignored: Sequence[str] = (),
) -> Difference:
    left_out = ", ".join((owner, *ignored))
    first = tables[0]
    added, removed = (
        first_value(
            con,
            f"select count(*) from (select {item} from {first} where {owner} = ? "
            f"except select {item} from {first} where {owner} = ?)",
            [one, other],
        )
        for one, other in ((after, before), (before, after))
    )
    if before is None:
        return Difference(added, 0, 0)
    sides = [
        f"(select {item} from (select * exclude ({left_out if table == first else owner}) from {table} "
        f"where {owner} = {one} except all select * exclude ({left_out if table == first else owner}) "
        f"from {table} where {owner} = {other}))"
        for table in tables
        for one, other in ((after, before), (before, after))
    ]
    touched = first_value(con, f"select count(distinct {item}) from ({' union all '.join(sides)})")
    return Difference(added, removed, touched - added - removed)
