"""What every step of a load shares: where it goes, what it may do, and what it has done so far."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from eval_pipeline.bundle.layout import ORIGINAL, Bundle, Original
from eval_pipeline.bundle.problems import Problem
from eval_pipeline.bundle.results import InvertedSpans
from eval_pipeline.bundle.texts import textless_hash
from eval_pipeline.errors import StoreError
from eval_pipeline.loading._archives import current_archive_hash
from eval_pipeline.loading._case_lists import current_list_hash
from eval_pipeline.loading._dry_run import StoredRuns, stored_runs
from eval_pipeline.loading.deliveries import _add_quarantine
from eval_pipeline.loading.lint import Finding
from eval_pipeline.loading.write_labels import _current_golden_hash, _current_queries
from eval_pipeline.store.inspection import inspecting
from eval_pipeline.store.kept import Keeping, KeptFile
from eval_pipeline.store.open import Connection, transaction
from eval_pipeline.store.project import Project
from eval_pipeline.store.tombstones import (
    Forgotten,
    Scope,
    add_tombstones,
    find_forgotten,
    read_mirror,
    read_tombstones,
)

SHOWN_PROBLEMS = 10_000
# How a file is called that is not written to its end yet: nobody reads or copies it.
UNFINISHED = ".part"


@dataclass
class StoreSnapshot:
    """Content hashes of what is there, by name, and the names that no delivery may bring back.

    `golden_sets`, `queries`, `archives` and `case_lists` are kept up to date by the load, which may meet one twice.
    """

    forgotten: Forgotten = field(default_factory=Forgotten)
    golden_sets: dict[str, str | None] = field(default_factory=dict)
    queries: dict[str, dict[str, bool]] = field(default_factory=dict)
    archives: dict[tuple[str | None, str], str | None] = field(default_factory=dict)
    case_lists: dict[str, str | None] = field(default_factory=dict)
    runs: StoredRuns = field(default_factory=StoredRuns)


def _snapshot_of_store(
    project: Project, bundles: Sequence[Bundle], *, keeping: Keeping, options: LoadOptions
) -> StoreSnapshot:
    """Look once, however much is delivered: every opening of the store is felt in a small load."""
    with _looking(project, dry_run=options.dry_run) as con:
        if con is None:
            return StoreSnapshot()
        if not options.dry_run:
            _adopt_tombstones(con, project.settings.db)
        if options.keeps:
            keeping.begin(con)
        golden = {one.dataset for bundle in bundles for one in bundle.golden_sets}
        archives = {(one.dataset, one.chunker_version) for bundle in bundles for one in bundle.archives}
        cases = {one.dataset for bundle in bundles for one in bundle.case_lists}
        return StoreSnapshot(
            find_forgotten(con, scopes=options.forgotten_scopes),
            {dataset: _current_golden_hash(con, dataset) for dataset in golden},
            {dataset: _current_queries(con, dataset) for dataset in golden},
            {named: current_archive_hash(con, *named) for named in archives},
            {dataset: current_list_hash(con, dataset) for dataset in cases},
            stored_runs(con),
        )


@contextmanager
def _looking(project: Project, *, dry_run: bool) -> Iterator[Connection | None]:
    """The store, to see what is there: made when it is not, except by a dry run."""
    if dry_run:
        with inspecting(project) as found:
            if found and found.schema < found.known_schema:
                raise StoreError(
                    f"{project.settings.db} was written by an earlier version, and bringing it up to date would write "
                    "to it: `eval-pipeline status` does that"
                )
            yield found.con if found else None
    else:
        with project.write() as store:
            yield store.con


def _adopt_tombstones(con: Connection, db: Path) -> None:
    """A store that was deleted and is made again by a load knows what its predecessor had forgotten."""
    if read_tombstones(con):
        return
    with transaction(con):
        add_tombstones(con, read_mirror(db).tombstones)


@dataclass
class LoadReport:
    """What a load did (or, of a dry run, what it would do), in the order it happened.

    `replaced` are those of the runs of which a part was there before; `runs_left` were not looked at, because somebody
    asked to stop; of those that are `waiting` the dataset has no golden set. Of very many problems only the first are
    held. `forgotten` names what stayed out because it was forgotten on purpose. `refused` explains which golden sets
    did not replace the ones in force.
    """

    golden_sets: list[str] = field(default_factory=list)
    archives: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    unchanged: int = 0
    rejected: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    results: int = 0
    quarantined: int = 0
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)
    stopped: bool = False
    runs_left: int = 0
    waiting: list[str] = field(default_factory=list)
    case_lists: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether the paths contained nothing that could be loaded, was loaded before, or stays out on purpose."""
        loaded = (self.golden_sets, self.archives, self.runs, self.case_lists, self.forgotten, self.rejected)
        return not any(loaded) and not self.unchanged and not self.stopped


@dataclass(frozen=True)
class LoadOptions:
    """How a load is done. `texts_again`: what was taken in without its texts is taken in with them now.

    The files of `read_again` are read although the store has their bytes: the rules by which rows are taken changed.
    `rebuilding`: what comes was kept before; it is not kept once more, and comes in although its texts were forgotten.
    `replace_labels`: golden sets may lose queries and labels.
    `is_ordered`: the order of the bundles is the order in time of runs that have the same time.
    """

    dry_run: bool = False
    no_text: bool = False
    texts_again: bool = True
    read_again: frozenset[Path] = frozenset()
    rebuilding: bool = False
    replace_labels: bool = False
    is_ordered: bool = True

    @property
    def keeps(self) -> bool:
        """Whether deliveries are kept beside the store."""
        return not self.dry_run and not self.rebuilding

    @property
    def forgotten_scopes(self) -> tuple[Scope, ...]:
        """What was forgotten in one of these ways stays out."""
        return ("rows",) if self.rebuilding else ("rows", "texts")


@dataclass(frozen=True)
class Load:
    """One load.

    `staged` are the files of runs that are read and not written yet: they are kept when the run is written. `ids` are
    chunks whose names are no single words: where texts are left out, citations of these stay.
    """

    project: Project
    report: LoadReport
    keeping: Keeping
    before: StoreSnapshot
    inverted_spans: InvertedSpans
    options: LoadOptions = field(default_factory=LoadOptions)
    stop: Callable[[], bool] = lambda: False
    staged: dict[str, list[KeptFile]] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)

    def hash_as_taken(self, delivered: str) -> str:
        """What names these bytes, taken in as this load takes them in."""
        return textless_hash(delivered) if self.options.no_text else delivered

    def tell_all(self, remarks: Sequence[str]) -> None:
        """Say what changes nothing and should be known."""
        if self.project.notify is not None:
            for remark in remarks:
                self.project.notify(remark)

    def is_taken(
        self, delivered: str, stored: str | None, *, path: Path, beside: Collection[str] = ()
    ) -> bool:
        """Whether the store has these bytes already, the way this load would take them in, alone or beside others."""
        if path in self.options.read_again:
            return False
        taken = {self.hash_as_taken(delivered)}
        if not self.options.texts_again:
            taken.add(textless_hash(delivered))
        return not taken.isdisjoint([stored, *beside])


def _quarantine(
    load: Load,
    problems: Sequence[Problem],
    *,
    content: str | None = None,
    dataset: str | None = None,
    kept: Sequence[KeptFile] = (),
) -> None:
    """Put a rejected part, or what else is wrong with a bundle, on record, and keep what was staged of it."""
    if load.options.no_text:
        problems = [replace(problem, text="") for problem in problems]
    if problems and not load.options.dry_run:
        with load.project.write() as store:
            with transaction(store.con):
                load.keeping.begin_batch(store.con)
                _add_quarantine(store, problems, content_hash=content, dataset=dataset)
                load.keeping.place(store.con, kept)
            load.keeping.confirm()
    _report_problems(load, problems)


def _report_problems(load: Load, problems: Sequence[Problem]) -> None:
    """Count problems that are on record."""
    room = max(0, SHOWN_PROBLEMS - len(load.report.problems))
    load.report.problems.extend(problems[:room])
    load.report.quarantined += len(problems)


def _keep_original(
    load: Load, original: Original | None, folder: str, *, dataset: str, run_id: str | None = None
) -> list[KeptFile]:
    """Stage the original byte for byte, unless texts stay out or something of it was forgotten on purpose."""
    if original is None or not load.options.keeps or load.options.no_text:
        return []
    if any(load.before.forgotten.keeps_out(run, dataset) for run in original.runs):
        return []
    kept = []
    for name, path in original.files():
        own = f"{name}_" if name.endswith(UNFINISHED) else name
        file = KeptFile(ORIGINAL, f"{folder}/{ORIGINAL}/{own}", "", None, 0, dataset, run_id)
        kept.append(load.keeping.keep_named(path, file))
    return kept
