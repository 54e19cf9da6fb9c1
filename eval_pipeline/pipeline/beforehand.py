"""What the store held when a load began. What is written asks again: others may have been there in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from eval_pipeline.ingest.bundle import Bundle
from eval_pipeline.pipeline.dry_run import StoredRuns, stored_runs
from eval_pipeline.settings import Settings
from eval_pipeline.store.archives import current_archive_hash
from eval_pipeline.store.connect import Connection, open_as_it_is, open_writer, transaction
from eval_pipeline.store.labels import current_golden_hash
from eval_pipeline.store.lock import Tell
from eval_pipeline.store.tombstones import (
    Forgotten,
    Scope,
    add_tombstones,
    find_forgotten,
    read_mirror,
    read_tombstones,
)


@dataclass
class Beforehand:
    """Content hashes of what is there, by name, and the names that no delivery may bring back.

    `golden_sets` and `archives` are kept up to date by the load, which may meet one twice.
    """

    forgotten: Forgotten = field(default_factory=Forgotten)
    golden_sets: dict[str, str | None] = field(default_factory=dict)
    archives: dict[tuple[str | None, str], str | None] = field(default_factory=dict)
    runs: StoredRuns = field(default_factory=StoredRuns)


def look_beforehand(
    settings: Settings,
    bundles: Sequence[Bundle],
    *,
    scopes: Sequence[Scope],
    dry_run: bool,
    tell: Tell | None,
) -> Beforehand:
    """Look once, however much is delivered: every opening of the store is felt in a small load."""
    with looking(settings, dry_run=dry_run, tell=tell) as con:
        if con is None:
            return Beforehand()
        if not dry_run:
            _adopt_tombstones(con, settings.db)
        golden = {one.dataset for bundle in bundles for one in bundle.golden_sets}
        archives = {(one.dataset, one.chunker_version) for bundle in bundles for one in bundle.archives}
        return Beforehand(
            find_forgotten(con, scopes=scopes),
            {dataset: current_golden_hash(con, dataset) for dataset in golden},
            {named: current_archive_hash(con, *named) for named in archives},
            stored_runs(con),
        )


@contextmanager
def looking(settings: Settings, *, dry_run: bool, tell: Tell | None) -> Iterator[Connection | None]:
    """The store, to see what is there: made when it is not, except by a dry run."""
    if dry_run:
        with open_as_it_is(settings.db, tell=tell) as found:
            yield found
    else:
        with open_writer(settings.db, tell=tell) as con:
            yield con


def _adopt_tombstones(con: Connection, db: Path) -> None:
    """A store that was deleted and is made again by a load knows what its predecessor had forgotten."""
    if read_tombstones(con):
        return
    with transaction(con):
        add_tombstones(con, read_mirror(db).tombstones)
