"""A run or a dataset forgotten for good: rows or only texts, in store, file and kept deliveries."""

# The order makes an interrupted call harmless. First, in one transaction, the tombstone and everything it stands for;
# then the kept deliveries; then the file is written anew. What was not finished is finished by the same call again.

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

from eval_pipeline.computing.measure import Progress
from eval_pipeline.computing.states import states_of_cells
from eval_pipeline.documents import Document, Help
from eval_pipeline.errors import StoreMissing, UnknownName, UsageError
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
from eval_pipeline.store.open import Connection, first_value, transaction
from eval_pipeline.store.project import Project, Store, at_one_time
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
from eval_pipeline.upkeep._calls import forget_calls, is_begun
from eval_pipeline.upkeep._deliveries import (
    empty_kept,
    kept_folders_of,
    remove_kept,
    remove_originals,
)
from eval_pipeline.upkeep._rows import (
    Removed,
    Target,
    find_target,
    quarantine_of,
    remove_rows,
    remove_unused_ids,
)

KINDS: tuple[Kind, ...] = ("run", "dataset")

TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


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
    calls: int = 0
    unreadable: list[str] = field(default_factory=list)

    @property
    def has_done_something(self) -> bool:
        """Whether anything was there to forget."""
        removed = self.removed
        return any(
            (
                *(removed.rows, removed.ids, removed.emptied, removed.texts, removed.quarantine),
                *(self.kept, self.calls),
            )
        )


class _DryRun(Exception):
    """Ends a transaction that was only asked what it would do."""


def find_request(project: Project, name: str, *, kind: Kind | None, text: bool, history: bool) -> Request:
    """What the name means here: a run, a dataset, or something that was only ever delivered or forgotten."""
    kinds = [one for one in KINDS if kind in (None, one) and _is_known(project, one, name)]
    if not kinds:
        raise UnknownName("run or dataset", name, _known_names(project))
    if len(kinds) > 1:
        raise UsageError(f"{name!r} is a run and a dataset: say which with --kind run or --kind dataset")
    return Request(kinds[0], name, text, history)


def _is_known(project: Project, kind: Kind, name: str) -> bool:
    with project.read() as store:
        target = find_target(store.con, kind, name)
        if target.run_keys or target.dataset_key is not None:
            return True
        condition, parameters = quarantine_of(target)
        if first_value(store.con, f"select 1 from ledger.quarantine where {condition} limit 1", parameters):
            return True
        if any((one.kind, one.name) == (kind, name) for one in read_tombstones(store.con)):
            return True
    if kind == "run" and is_begun(project, name):
        return True
    folder = "runs" if kind == "run" else "datasets"
    return any((one.path / folder / name).is_dir() for one in KeptDelivery.all(project.settings.db))


def _known_names(project: Project) -> list[str]:
    with project.read() as store:
        rows = store.con.execute(
            "select run_id from raw.runs union all select dataset_id from raw.datasets"
        ).fetchall()
    return [name for (name,) in rows]


def forget(
    project: Project,
    request: Request,
    *,
    dry_run: bool = False,
    compacts: bool = True,
    progress: Progress | None = None,
) -> ForgetReport:
    """Forget, or only say what would go."""
    settings, project = project.settings, at_one_time(project)
    if not is_there(settings.db):
        raise StoreMissing(f"there is no store at {settings.db}: nothing to forget")
    if request.text:
        # What is wrong with one is said before anything is touched.
        project.definitions()
    report = ForgetReport(request.kind, request.name, request.scope)
    with project.write() as store:
        if not dry_run:
            Keeping.of(settings.db, project.clock()).settle(store.con)
        target = find_target(store.con, request.kind, request.name)
        report.was_unfinished = _is_unfinished(store.con, request)
        # First, as the store knows which answers were whose only until it has forgotten.
        report.calls = forget_calls(store.con, project, _run_ids_of(request, target), dry_run=dry_run)
        try:
            with transaction(store.con):
                _forget_in_store(store, request, target, report)
                if dry_run:
                    raise _DryRun
        except _DryRun:
            report.kept = len(_kept_of(settings, request, target))
            return report
        write_mirror(store.con, settings.db)
        citations = _citations(store.con, target) if request.text else set()
    with project.write() as store:
        folders = _kept_of(settings, request, target)
        report.kept = len(folders)
        remove_originals(settings.db, folders)
        if request.text:
            report.unreadable = [str(path) for path in empty_kept(folders, citations)]
        else:
            remove_kept(folders)
        note_purged(store, request.kind, request.name)
        write_mirror(store.con, settings.db)
    if compacts and (report.was_unfinished or report.has_done_something):
        report.compacted = compact_store(project, progress=progress)
    report.beside = _beside(settings, target)
    return report


def _is_unfinished(con: Connection, request: Request) -> bool:
    return any(
        (one.kind, one.name, one.scope) == (request.kind, request.name, request.scope)
        and one.lifted_at is None
        and (one.purged_at is None or one.compacted_at is None)
        for one in read_tombstones(con)
    )


def _forget_in_store(store: Store, request: Request, target: Target, report: ForgetReport) -> None:
    con = store.con
    report.runs = list(target.run_ids) if target.run_keys else []
    _write_tombstones(store, request, target)
    if not request.text:
        report.removed = remove_rows(store, target, with_history=request.history)
        return
    owners = Owners(target.run_keys, target.golden_keys, target.archive_keys)
    removed = Removed(emptied=empty_texts(con, owners, at=store.clock()))
    if target.is_dataset and (n := forget_what_is_expected(con, request.name, until=store.clock())):
        removed.emptied["ledger.expected_cases.ground_truth_hash"] = n
    removed.quarantine = empty_quarantine(con, *quarantine_of(target))
    empty_findings(con, target.run_ids, request.name if target.is_dataset else None)
    # What a formula failed on may quote a text.
    con.execute("delete from ledger.failures where run_key in (select unnest(?))", [list(target.run_keys)])
    if request.history:
        for table in ("ledger.aggregate_history", "ledger.summary_history"):
            con.execute(f"delete from {table} where run_key in (select unnest(?))", [list(target.run_keys)])
    removed.texts = remove_unused_texts(con)
    removed.ids = remove_unused_ids(con)
    report.removed = removed
    report.frozen = _frozen_tables(store, target)


def _write_tombstones(store: Store, request: Request, target: Target) -> None:
    """One for the name, and of a dataset one for each of its runs; a name that has one already gets no second."""
    standing = {
        (one.kind, one.name, one.scope, one.run_key)
        for one in read_tombstones(store.con)
        if one.lifted_at is None
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
            new.append(Tombstone(kind, name, request.scope, run_key, dataset, store.clock(), by))
    add_tombstones(store.con, new)


def _frozen_tables(store: Store, target: Target) -> dict[str, int]:
    """Table → runs in which it is frozen from now on."""
    if not target.run_keys:
        return {}
    with states_of_cells(store, runs=target.run_keys) as states:
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
    return kept_folders_of(
        settings.db,
        run_ids=_run_ids_of(request, target),
        dataset=request.name if request.kind == "dataset" else None,
    )


def _run_ids_of(request: Request, target: Target) -> set[str]:
    """Also of a run that was only ever delivered, or begun."""
    return {*target.run_ids} | ({request.name} if request.kind == "run" else set())


def compact_store(project: Project, *, progress: Progress | None = None) -> Compacted:
    """Write the store's file anew, and note that nothing of what had been forgotten is in it."""
    compacted = compact(project, progress=progress)
    with project.write() as store:
        note_compacted(store)
        _write_mirror_if_needed(store.con, project.settings.db)
    return compacted


def _write_mirror_if_needed(con: Connection, db: Path) -> None:
    """Beside a store in which nothing was ever forgotten no file has to say so."""
    if read_tombstones(con):
        write_mirror(con, db)


def _beside(settings: Settings, target: Target) -> list[str]:
    """What may still show it and is not ours to delete: files moved aside by a rebuild, pages of its runs."""
    own = [default_file(settings, (run_id,), None) for run_id in target.run_ids]
    names = {path.stem for path in own}
    pages = [path for path in settings.reports.glob("*.html") if names & set(path.stem.split(".."))]
    pages += [folder for path in own if (folder := documents_beside(path)).is_dir()]
    moved = settings.db.parent.glob(f"{settings.db.name}.broken-*")
    return sorted(str(path) for path in (*moved, *pages))


def lift_tombstones(project: Project, name: str, *, kind: Kind | None) -> list[str]:
    """Let deliveries of the name in again; returns the names that were lifted."""
    with project.write() as store:
        lifted: list[str] = []
        with transaction(store.con):
            for one in KINDS:
                if kind in (None, one):
                    lifted += lift(store, one, name)
        _write_mirror_if_needed(store.con, project.settings.db)
        if not lifted:
            standing = sorted({one.name for one in read_tombstones(store.con) if one.lifted_at is None})
            raise UnknownName("forgotten run or dataset", name, standing)
    return sorted(set(lifted))


class ForgottenEntry(Document, frozen=True):
    """An entry of `forget --json`: a name that was forgotten. Times are in UTC."""

    kind: Annotated[str, Help("`run` or `dataset`.")]
    name: Annotated[str, Help("The run or dataset.")]
    scope: Annotated[str, Help("`rows` for all of it, or `texts`.")]
    dataset: Annotated[
        str | None, Help("The dataset that the run was forgotten with; null where it was not.")
    ]
    forgotten_at: Annotated[str, Help("When.")]
    forgotten_by: Annotated[str, Help("By whom.")]
    purged_at: Annotated[str | None, Help("When the last of it was removed; null while it is unfinished.")]
    compacted_at: Annotated[str | None, Help("When the file was written anew without it; null before that.")]
    lifted_at: Annotated[str | None, Help("When the name was let in again; null while it stays out.")]


def list_forgotten(project: Project) -> list[ForgottenEntry]:
    """Everything that was forgotten here."""
    with project.read() as store:
        return [
            ForgottenEntry(
                kind=one.kind,
                name=one.name,
                scope=one.scope,
                dataset=one.dataset,
                forgotten_at=f"{one.forgotten_at:{TIME}}",
                forgotten_by=one.forgotten_by,
                purged_at=_time(one.purged_at),
                compacted_at=_time(one.compacted_at),
                lifted_at=_time(one.lifted_at),
            )
            for one in read_tombstones(store.con)
        ]


def _time(at: dt.datetime | None) -> str | None:
    return None if at is None else f"{at:{TIME}}"
