"""A broken store made again from the kept deliveries, in their order."""

# The new store is made beside the old file and takes its place at the end, so that a process that dies leaves the old
# file where it was. The old file is moved aside and never deleted.

from __future__ import annotations

import datetime as dt
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from eval_pipeline.bundle.layout import ROW_PARTS, find_bundle
from eval_pipeline.errors import StoreBusy, StoreDamaged, StoreError, StoreMissing, UsageError
from eval_pipeline.loading.cases import forget_what_is_expected
from eval_pipeline.loading.context import LoadOptions, LoadReport
from eval_pipeline.loading.inbox import is_bundle
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.store.compact import require_whole
from eval_pipeline.store.durable import place_durably
from eval_pipeline.store.frozen import (
    ARCHIVE,
    GOLDEN_SET,
    RUN,
    Owners,
    add_marks,
    empty_findings,
    empty_quarantine,
    empty_texts,
    remove_unused_texts,
    tables_of_part,
)
from eval_pipeline.store.kept import Keeping, KeptDelivery, kept_folder
from eval_pipeline.store.lock import writer_lock
from eval_pipeline.store.open import (
    Connection,
    StatementError,
    first_value,
    says_what_failed,
    transaction,
)
from eval_pipeline.store.project import Project, at_one_time
from eval_pipeline.store.tombstones import Mirror, add_tombstones, read_mirror, read_tombstones
from eval_pipeline.upkeep._findings import read_everything
from eval_pipeline.upkeep._repair import Repaired, repair
from eval_pipeline.upkeep._rows import find_target, quarantine_of, remove_unused_ids
from eval_pipeline.upkeep.verify import verify_kept

LOST_ALWAYS = (
    "replaced values (`show --as-of`, formula_history)",
    "pins (`apply --since`)",
    "who delivered what from where",
)
# Beside a store's file by name: what is not in it yet, and what an unfinished checkpoint would be undone with.
LEFT_BEHIND = (".wal", ".blocks")

Progress = Callable[[int, int], None]


@dataclass
class RebuildReport:
    """What came back, where the old file is, and what could not come back.

    `damaged` are kept files that were not what was delivered, or missing; of so many deliveries as are `unchecked`, of
    earlier versions, nobody can say.
    """

    deliveries: int = 0
    golden_sets: list[str] = field(default_factory=list)
    archives: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    results: int = 0
    quarantined: int = 0
    forgotten: list[str] = field(default_factory=list)
    moved_to: Path | None = None
    not_back: list[str] = field(default_factory=list)
    damaged: list[Repaired] = field(default_factory=list)
    unchecked: int = 0


def why_unreadable(project: Project) -> str | None:
    """What is broken about the store's file; None when nothing is. Raises for a whole one that may not be read."""
    try:
        with project.read() as store:
            read_everything(store.con)
    except StoreMissing:
        return f"there is no file at {project.settings.db}"
    except StoreDamaged as error:
        return str(error)
    return None


def rebuild(project: Project, *, progress: Progress | None = None) -> RebuildReport:
    """Make the store anew; whoever wants to use it meanwhile waits."""
    settings, project = project.settings, at_one_time(project)
    damaged, unchecked = _put_kept_right(project)
    deliveries = [one for one in KeptDelivery.all(settings.db) if is_bundle(one.path)]
    if not deliveries:
        raise UsageError(
            f"{settings.db}.deliveries holds no deliveries, so there is nothing to make a store from. If you have "
            f"them elsewhere, move {settings.db.name} away and call `eval-pipeline load PATH`"
        )
    mirror = read_mirror(settings.db)
    beside = settings.db.with_name(settings.db.name + ".rebuilding")
    fresh = replace(project, settings=replace(settings, db=beside), notify=None)
    report = RebuildReport(deliveries=len(deliveries), damaged=damaged, unchecked=unchecked)
    with says_what_failed(settings.db), writer_lock(settings.db, project.clock, notify=project.notify):
        # What nobody can ask the old store about is used; the new store has a ledger of its own.
        Keeping.of(settings.db, project.clock()).confirm()
        _remove(beside)
        try:
            with fresh.write() as store, transaction(store.con):
                add_tombstones(store.con, mirror.tombstones)
            for number, delivery in enumerate(deliveries, start=1):
                _add(report, _load(fresh, delivery))
                if progress:
                    progress(number, len(deliveries))
            with fresh.write() as store, transaction(store.con):
                _forget_texts_again(store.con, mirror, report)
            require_whole(beside)
            report.moved_to = _take_the_place(beside, settings.db, now=project.clock())
        finally:
            _remove(beside)
    report.not_back = [*LOST_ALWAYS, *report.not_back]
    return report


def _put_kept_right(project: Project) -> tuple[list[Repaired], int]:
    """Before anything is made of them: what was kept for a commit that never came goes, what is damaged is repaired.

    As far as the old store can be read it says what was delivered, and has the rows of what is lost.
    """
    settings = project.settings
    for path in kept_folder(settings.db).glob("*"):
        if path.is_symlink() and not path.exists():
            raise StoreError(
                f"{path} is linked to {path.readlink()}, which is not there: mount that disk, or remove the link, "
                "which lets the delivery count as missing; then call `eval-pipeline rebuild` again"
            )
    with ExitStack() as stack:
        con: Connection | None = None
        try:
            con = stack.enter_context(project.read()).con
            Keeping.of(settings.db, project.clock()).settle(con)
            check = verify_kept(settings.db, con)
        except StoreBusy:
            raise
        except (StoreError, StatementError):
            con = None
            check = verify_kept(settings.db)
        return [repair(con, finding) for finding in check.findings], check.unchecked


def _load(fresh: Project, delivery: KeptDelivery) -> LoadReport:
    """Load a kept delivery, as of its time and with its runs in their old places."""
    as_of = replace(fresh, clock=lambda: delivery.time or fresh.clock())
    places = {file.run_id: file.place or 0 for file in delivery.files() or () if file.part == "run"}
    bundle = find_bundle(delivery.path)
    bundle.runs = [replace(run, place=places.get(run.path.name, 0)) for run in bundle.runs]
    return load_bundles([bundle], as_of, options=LoadOptions(rebuilding=True, is_ordered=False))


def _add(report: RebuildReport, loaded: LoadReport) -> None:
    for name in ("golden_sets", "archives", "runs", "forgotten"):
        known = getattr(report, name)
        known += [one for one in getattr(loaded, name) if one not in known]
    report.results += loaded.results
    report.quarantined += loaded.quarantined


def _forget_texts_again(con: Connection, mirror: Mirror, report: RebuildReport) -> None:
    """What was emptied is empty and frozen again, unless it was delivered anew since.

    The kept files hold no texts any more where forgetting came to its end; where it did not, it does here.
    """
    for one in read_tombstones(con):
        if one.scope != "texts" or one.dataset is not None:
            continue
        target = find_target(con, one.kind, one.name)
        runs = [key for key in target.run_keys if not _came_after(con, RUN, key, one.forgotten_at)]
        owners = Owners(
            runs,
            [key for key in target.golden_keys if not _came_after(con, GOLDEN_SET, key, one.forgotten_at)],
            [key for key in target.archive_keys if not _came_after(con, ARCHIVE, key, one.forgotten_at)],
        )
        empty_texts(con, owners, at=one.forgotten_at)
        if target.is_dataset:
            forget_what_is_expected(con, one.name, until=one.forgotten_at)
        if one.lifted_at is None:
            empty_quarantine(con, *quarantine_of(target))
            empty_findings(con, target.run_ids, one.name if target.is_dataset else None)
    for emptied in mirror.texts:
        for owner_key, places in _owners_of(
            con, emptied.owner, emptied.name, emptied.chunker_version, emptied.places
        ):
            still = [
                place
                for place in places
                if not _came_after(con, emptied.owner, owner_key, emptied.forgotten_at, place=place)
            ]
            add_marks(con, emptied.owner, owner_key, still, at=emptied.forgotten_at)
    if first_value(con, "select 1 from ledger.forgotten_texts limit 1"):
        report.not_back.append(
            "values that were computed from texts forgotten since: their cells are frozen and empty"
        )
    remove_unused_texts(con)
    remove_unused_ids(con)


def _owners_of(
    con: Connection, owner: str, name: str | None, version: str | None, places: tuple[str, ...]
) -> Iterator[tuple[int, tuple[str, ...]]]:
    sql = {
        RUN: "select run_key from raw.runs where run_id = ?",
        GOLDEN_SET: "select golden_key from labels.golden_sets join raw.datasets using (dataset_key) "
        "where dataset_id = ?",
        ARCHIVE: "select archive_key from raw.archives join raw.datasets using (dataset_key) "
        "where dataset_id = ? and chunker_version = ?",
    }[owner]
    for (key,) in con.execute(sql, [name, version] if owner == ARCHIVE else [name]).fetchall():
        yield key, places


def _came_after(
    con: Connection, owner: str, key: int, moment: dt.datetime, *, place: str | None = None
) -> bool:
    """Whether what stands there was delivered after that moment."""
    if owner == RUN:
        parts = [
            part for part in ("run", *ROW_PARTS) if place and place.rsplit(".", 1)[0] in tables_of_part(part)
        ]
        return bool(
            first_value(
                con,
                "select 1 from raw.run_parts join ledger.deliveries using (delivery_key) "
                "where run_key = ? and delivered_at > ? and (? or run_parts.part in (select unnest(?)))",
                [key, moment, place is None, parts],
            )
        )
    table = "labels.golden_sets" if owner == GOLDEN_SET else "raw.archives"
    return bool(first_value(con, f"select 1 from {table} where {owner} = ? and loaded_at > ?", [key, moment]))


def _take_the_place(fresh: Path, db: Path, *, now: dt.datetime) -> Path | None:
    """The old file gets a name of its own before the new one takes its place: at no time is there none."""
    aside = _free_name(db.with_name(f"{db.name}.broken-{now:%Y%m%dT%H%M%S}"))
    moved = None
    if db.exists():
        moved = aside
        try:
            os.link(db, aside)
        except OSError:
            # A file system without links.
            db.rename(aside)
    for suffix in LEFT_BEHIND:
        if (beside := db.with_name(db.name + suffix)).exists():
            beside.rename(aside.with_name(aside.name + suffix))
    place_durably(fresh, db)
    return moved


def _free_name(wanted: Path) -> Path:
    number = 1
    found = wanted
    while found.exists():
        found = wanted.with_name(f"{wanted.name}-{number}")
        number += 1
    return found


def _remove(fresh: Path) -> None:
    for suffix in ("", *LEFT_BEHIND, ".lock", ".turn"):
        with suppress(FileNotFoundError):
            fresh.with_name(fresh.name + suffix).unlink()
    shutil.rmtree(fresh.with_name(fresh.name + ".tmp"), ignore_errors=True)
