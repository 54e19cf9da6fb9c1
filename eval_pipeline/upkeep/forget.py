"""A run or a dataset forgotten for good: rows or only texts, in store, file and kept deliveries."""

# The order makes an interrupted call harmless. First, in one transaction, the tombstone and everything it stands for;
# then the kept deliveries; then the file is written anew. What was not finished is finished by the same call again.

from __future__ import annotations

import datetime as dt
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from eval_pipeline.computing.measure import Progress
from eval_pipeline.computing.states import states_of_cells
from eval_pipeline.errors import StoreMissing, UnknownName, UsageError
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.loading.cases import forget_what_is_expected
from eval_pipeline.settings import Settings, default_file, documents_beside, who_calls
from eval_pipeline.store.compact import Compacted, compact
from eval_pipeline.store.damage import is_there
from eval_pipeline.store.frozen import (
    Owners,
    empty_findings,
    empty_quarantine,
    empty_texts,
    remove_unused_texts,
)
from eval_pipeline.store.kept import Keeping, KeptDelivery
from eval_pipeline.store.lock import Notify
from eval_pipeline.store.open import Connection, first_value, open_reader, open_writer, transaction
from eval_pipeline.store.tombstones import (
    Kind,
    Scope,
    Tombstone,
    add_tombstones,
    lift,
    note_compacted,
    note_purged,
    read_tombstones,
    write_mirror,
)
from eval_pipeline.upkeep._deliveries import empty_kept, kept_folders_of, remove_kept
from eval_pipeline.upkeep._rows import (
    Removed,
    Target,
    find_target,
    quarantine_of,
    remove_rows,
    remove_unused_ids,
)

KINDS: tuple[Kind, ...] = ("run", "dataset")


@dataclass(frozen=True)
class Request:
    """What is to be forgotten, and how much of it."""

    kind: Kind
    name: str
    text: bool = False
    history: bool = False

    @property
    def scope(self) -> Scope:
        return "texts" if self.text else "rows"


@dataclass
class ForgetReport:
    """What went (or, of a dry run, would go).

    `unreadable` are kept files that were removed because nobody can say what they held.
    """

    kind: str
    name: str
    scope: str
    runs: list[str] = field(default_factory=list)
    removed: Removed = field(default_factory=Removed)
    frozen: dict[str, int] = field(default_factory=dict)
    kept: int = 0
    compacted: Compacted | None = None
    beside: list[str] = field(default_factory=list)
    was_unfinished: bool = False
    unreadable: list[str] = field(default_factory=list)

    @property
    def has_done_something(self) -> bool:
        """Whether anything was there to forget."""
        removed = self.removed
        return any((removed.rows, removed.ids, removed.emptied, removed.texts, removed.quarantine, self.kept))


class _DryRun(Exception):
    """Ends a transaction that was only asked what it would do."""


def find_request(
    settings: Settings,
    name: str,
    *,
    kind: Kind | None,
    text: bool,
    history: bool,
    notify: Notify | None = None,
) -> Request:
    """What the name means here: a run, a dataset, or something that was only ever delivered or forgotten."""
    kinds = [one for one in KINDS if kind in (None, one) and _is_known(settings, one, name, notify)]
    if not kinds:
        raise UnknownName("run or dataset", name, _known_names(settings))
    if len(kinds) > 1:
        raise UsageError(f"{name!r} is a run and a dataset: say which with --kind run or --kind dataset")
    return Request(kinds[0], name, text, history)


def _is_known(settings: Settings, kind: Kind, name: str, notify: Notify | None) -> bool:
    with open_reader(settings.db, notify=notify) as con:
        target = find_target(con, kind, name)
        if target.run_keys or target.dataset_key is not None:
            return True
        condition, parameters = quarantine_of(target)
        if first_value(con, f"select 1 from ledger.quarantine where {condition} limit 1", parameters):
            return True
        if any((one.kind, one.name) == (kind, name) for one in read_tombstones(con)):
            return True
    folder = "runs" if kind == "run" else "datasets"
    return any((one.path / folder / name).is_dir() for one in KeptDelivery.all(settings.db))


def _known_names(settings: Settings) -> list[str]:
    with open_reader(settings.db) as con:
        rows = con.execute(
            "select run_id from raw.runs union all select dataset_id from raw.datasets"
        ).fetchall()
    return [name for (name,) in rows]


def forget(
    settings: Settings,
    registry: Registry,
    request: Request,
    *,
    now: dt.datetime,
    dry_run: bool = False,
    compacts: bool = True,
    notify: Notify | None = None,
    progress: Progress | None = None,
) -> ForgetReport:
    """Forget, or only say what would go."""
    if not is_there(settings.db):
        raise StoreMissing(f"there is no store at {settings.db}: nothing to forget")
    report = ForgetReport(request.kind, request.name, request.scope)
    with open_writer(settings.db, notify=notify) as con:
        if not dry_run:
            Keeping.of(settings.db, now).settle(con)
        target = find_target(con, request.kind, request.name)
        report.was_unfinished = _is_unfinished(con, request)
        try:
            with transaction(con):
                _forget_in_store(con, registry, request, target, report, now=now)
                if dry_run:
                    raise _DryRun
        except _DryRun:
            report.kept = len(_kept_of(settings, request, target))
            return report
        write_mirror(con, settings.db)
        citations = _citations(con, target) if request.text else set()
    with open_writer(settings.db, notify=notify) as con:
        folders = _kept_of(settings, request, target)
        report.kept = len(folders)
        if request.text:
            report.unreadable = [str(path) for path in empty_kept(folders, citations)]
        else:
            remove_kept(folders)
        note_purged(con, request.kind, request.name, now=now)
        write_mirror(con, settings.db)
    if compacts and (report.was_unfinished or report.has_done_something):
        report.compacted = compact_store(settings, now=now, notify=notify, progress=progress)
    report.beside = _beside(settings, target)
    return report


def _is_unfinished(con: Connection, request: Request) -> bool:
    return any(
        (one.kind, one.name, one.scope) == (request.kind, request.name, request.scope)
        and one.lifted_at is None
        and (one.purged_at is None or one.compacted_at is None)
        for one in read_tombstones(con)
    )


def _forget_in_store(
    con: Connection,
    registry: Registry,
    request: Request,
    target: Target,
    report: ForgetReport,
    *,
    now: dt.datetime,
) -> None:
    report.runs = list(target.run_ids) if target.run_keys else []
    _write_tombstones(con, request, target, now=now)
    if not request.text:
        report.removed = remove_rows(con, target, with_history=request.history, now=now)
        return
    owners = Owners(target.run_keys, target.golden_keys, target.archive_keys)
    removed = Removed(emptied=empty_texts(con, owners, now=now))
    if target.is_dataset and (n := forget_what_is_expected(con, request.name, until=now)):
        removed.emptied["ledger.expected_cases.ground_truth_hash"] = n
    removed.quarantine = empty_quarantine(con, *quarantine_of(target))
    empty_findings(con, target.run_ids, request.name if target.is_dataset else None)
    if request.history:
        for table in ("ledger.aggregate_history", "ledger.summary_history"):
            con.execute(f"delete from {table} where run_key in (select unnest(?))", [list(target.run_keys)])
    removed.texts = remove_unused_texts(con)
    removed.ids = remove_unused_ids(con)
    report.removed = removed
    report.frozen = _frozen_tables(con, registry, target)


def _write_tombstones(con: Connection, request: Request, target: Target, *, now: dt.datetime) -> None:
    """One for the name, and of a dataset one for each of its runs; a name that has one already gets no second."""
    standing = {
        (one.kind, one.name, one.scope, one.run_key) for one in read_tombstones(con) if one.lifted_at is None
    }
    keys = dict(zip(target.run_ids, target.run_keys, strict=False))
    own_key = keys.get(request.name) if request.kind == "run" else None
    wanted: list[tuple[Kind, str, int | None, str | None]] = [(request.kind, request.name, own_key, None)]
    if target.is_dataset:
        wanted += [("run", run_id, key, request.name) for run_id, key in keys.items()]
    by = who_calls()
    new = []
    for kind, name, run_key, dataset in wanted:
        is_there = any(
            one[:3] == (kind, name, request.scope) and (run_key is None or one[3] == run_key)
            for one in standing
        )
        if not is_there:
            new.append(Tombstone(kind, name, request.scope, run_key, dataset, now, by))
    add_tombstones(con, new)


def _frozen_tables(con: Connection, registry: Registry, target: Target) -> dict[str, int]:
    """Table → runs in which it is frozen from now on."""
    if not target.run_keys:
        return {}
    with states_of_cells(con, registry, runs=target.run_keys) as states:
        return dict(
            states.rows(
                "definition, count(distinct run_key)",
                "is_frozen group by definition order by definition",
            )
        )


def _citations(con: Connection, target: Target) -> set[str]:
    """The ids that the target's answers cite: what is cited beyond them may be any text."""
    rows = con.execute(
        "select distinct i.chunk_id from raw.citations c join raw.chunk_ids i using (chunk_key) "
        "where c.run_key in (select unnest(?))",
        [list(target.run_keys)],
    ).fetchall()
    return {chunk_id for (chunk_id,) in rows}


def _kept_of(settings: Settings, request: Request, target: Target) -> list[Path]:
    run_ids = {*target.run_ids} | ({request.name} if request.kind == "run" else set())
    return kept_folders_of(
        settings.db, run_ids=run_ids, dataset=request.name if request.kind == "dataset" else None
    )


def compact_store(
    settings: Settings,
    *,
    now: dt.datetime,
    notify: Notify | None = None,
    progress: Progress | None = None,
) -> Compacted:
    """Write the store's file anew, and note that nothing of what had been forgotten is in it."""
    compacted = compact(settings.db, notify=notify, progress=progress)
    with open_writer(settings.db, notify=notify) as con:
        note_compacted(con, now=now)
        _write_mirror_if_needed(con, settings)
    return compacted


def _write_mirror_if_needed(con: Connection, settings: Settings) -> None:
    """Beside a store in which nothing was ever forgotten no file has to say so."""
    if read_tombstones(con):
        write_mirror(con, settings.db)


def _beside(settings: Settings, target: Target) -> list[str]:
    """What may still show it and is not ours to delete: files moved aside by a rebuild, pages of its runs."""
    own = [default_file(settings, (run_id,), None) for run_id in target.run_ids]
    names = {path.stem for path in own}
    pages = [path for path in settings.reports.glob("*.html") if names & set(path.stem.split(".."))]
    pages += [folder for path in own if (folder := documents_beside(path)).is_dir()]
    moved = settings.db.parent.glob(f"{settings.db.name}.broken-*")
    return sorted(str(path) for path in (*moved, *pages))


def lift_tombstones(
    settings: Settings, name: str, *, kind: Kind | None, now: dt.datetime, notify: Notify | None = None
) -> list[str]:
    """Let deliveries of the name in again; returns the names that were lifted."""
    with open_writer(settings.db, notify=notify) as con:
        lifted: list[str] = []
        with transaction(con):
            for one in KINDS:
                if kind in (None, one):
                    lifted += lift(con, one, name, now=now)
        _write_mirror_if_needed(con, settings)
        if not lifted:
            standing = sorted({one.name for one in read_tombstones(con) if one.lifted_at is None})
            raise UnknownName("forgotten run or dataset", name, standing)
    return sorted(set(lifted))


def list_forgotten(settings: Settings, *, notify: Notify | None = None) -> list[dict[str, Any]]:
    """Every tombstone as a document."""
    with open_reader(settings.db, notify=notify) as con:
        found = read_tombstones(con)
    return [
        {
            name: value.strftime("%Y-%m-%dT%H:%M:%SZ") if isinstance(value, dt.datetime) else value
            for name, value in asdict(one).items()
            if name != "run_key"
        }
        for one in found
    ]
