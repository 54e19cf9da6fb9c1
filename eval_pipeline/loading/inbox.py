"""What lies in the inbox and is not in the store yet, and loading it."""

# Looking is cheap: names, sizes and times. A file is read only when these leave open whether it is new.

from __future__ import annotations

import datetime as dt
import hashlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from eval_pipeline.bundle.files import SUFFIXES, content_hash, stem_of
from eval_pipeline.bundle.layout import NO_RUN_FILE, Bundle, case_files, find_bundle
from eval_pipeline.bundle.parts import name_fault, parse_time, read_run
from eval_pipeline.bundle.texts import textless_hash
from eval_pipeline.errors import InputRejected
from eval_pipeline.loading._archives import current_archive_hash
from eval_pipeline.loading._case_lists import current_list_hash
from eval_pipeline.loading.context import LoadOptions, LoadReport
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.loading.write_labels import _current_golden_hash
from eval_pipeline.records import CASES
from eval_pipeline.store.frozen import parts_without_texts
from eval_pipeline.store.open import Connection, first_value
from eval_pipeline.store.project import Project
from eval_pipeline.store.tombstones import Forgotten, find_forgotten

GOLDEN_SET, ARCHIVE = "golden_set", "archive"
BUNDLE_FOLDERS = ("datasets", "inventories", "runs")
GOLDEN_FILES = frozenset(("queries.yaml", "queries.yml", *("queries" + suffix for suffix in SUFFIXES)))


@dataclass(frozen=True)
class SourceFile:
    """A golden set, a list of cases or an archive (`part`); `folder` is what has to be loaded for it."""

    path: Path
    folder: Path
    dataset: str | None
    chunker_version: str | None = None
    part: str = GOLDEN_SET

    @property
    def is_misnamed(self) -> bool:
        """Whether its name cannot name anything: loading it puts it into quarantine."""
        names = (self.dataset, self.chunker_version)
        return any(name is not None and name_fault(name) for name in names)


@dataclass(frozen=True)
class Inbox:
    """A look at the inbox: complete run folders by name, golden sets and archives, and signatures of it all.

    `incomplete` are the folders of runs without a run.json.
    """

    runs: Mapping[str, Path] = field(default_factory=dict)
    run_signatures: Mapping[str, str] = field(default_factory=dict)
    sources: Sequence[SourceFile] = ()
    signature: str = ""
    incomplete: Sequence[Path] = ()

    @property
    def misnamed_runs(self) -> list[Path]:
        """Folders whose name no run can have: loading them puts them into quarantine."""
        return [folder for name, folder in self.runs.items() if name_fault(name)]


@dataclass(frozen=True)
class WaitingRun:
    """A run's folder that holds something the store has not taken in; `created_at` None means: not said."""

    run_id: str
    path: Path
    created_at: dt.datetime | None
    signature: str


@dataclass(frozen=True)
class WaitingSources:
    """Golden sets, lists of cases and archives that the store has not taken in, and the folders to load for them."""

    datasets: tuple[str, ...] = ()
    chunker_versions: tuple[str, ...] = ()
    folders: tuple[Path, ...] = ()
    signature: str = ""


def look_into(inbox: Path) -> Inbox:
    """One look: every run folder that is complete, every file of a source, and a signature of it all."""
    runs: dict[str, Path] = {}
    signatures: dict[str, str] = {}
    sources: list[SourceFile] = []
    incomplete: list[Path] = []
    for root in _bundle_roots(inbox):
        for folder in _folders(root / "runs"):
            stamps = _stamps(folder)
            if any(name == "run.json" for name, *_ in stamps):
                runs[folder.name] = folder
                signatures[folder.name] = digest([str(folder), *map(str, stamps)])
            else:
                incomplete.append(folder)
        sources += _sources_of(root)
    stamped = [f"{source.path} {_stamp(source.path.stat())}" for source in sources]
    signature = digest([*map(str, sorted(signatures.items())), *stamped])
    return Inbox(runs, signatures, sources, signature, incomplete)


def _bundle_roots(inbox: Path) -> list[Path]:
    """The inbox is a bundle itself, or holds bundles, or both."""
    return [folder for folder in (inbox, *_folders(inbox)) if is_bundle(folder)]


def is_bundle(folder: Path) -> bool:
    """Whether it holds what bundles hold."""
    return any((folder / name).is_dir() for name in BUNDLE_FOLDERS)


def _folders(parent: Path) -> Iterator[Path]:
    if parent.is_dir():
        with os.scandir(parent) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir() and entry.name[0] != ".")
        yield from (parent / name for name in names)


def _stamps(folder: Path) -> list[tuple[str, int, int, int]]:
    with os.scandir(folder) as entries:
        return sorted(
            (entry.name, *_stamp(entry.stat()))
            for entry in entries
            if entry.is_file() and entry.name[0] != "."
        )


def _stamp(found: os.stat_result) -> tuple[int, int, int]:
    return (found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _sources_of(root: Path) -> Iterator[SourceFile]:
    for folder in _folders(root / "datasets"):
        golden_sets = [name for name in _names(folder) if name in GOLDEN_FILES]
        for name in golden_sets:
            yield SourceFile(folder / name, folder, folder.name)
        lists = case_files(folder)
        for path in lists:
            yield SourceFile(path, folder, folder.name, part=CASES)
        # A folder without either is no bundle by itself: its archives come with the bundle around it.
        load = folder if golden_sets or lists else root
        for path in _archive_files(folder / "inventories"):
            yield SourceFile(path, load, folder.name, stem_of(path), ARCHIVE)
    for path in _archive_files(root / "inventories"):
        yield SourceFile(path, root, None, stem_of(path), ARCHIVE)


def _archive_files(folder: Path) -> list[Path]:
    return [folder / name for name in _names(folder) if name.endswith(SUFFIXES)] if folder.is_dir() else []


def _names(folder: Path) -> list[str]:
    return [name for name, *_ in _stamps(folder)]


def digest(texts: Sequence[str]) -> str:
    """A short text that stands for many."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class _Known:
    """A file as it was taken in."""

    content_hash: str
    n_bytes: int
    delivered_at: dt.datetime


def waiting_runs(con: Connection, inbox: Inbox, run_ids: Collection[str] | None = None) -> list[WaitingRun]:
    """The run folders with a new or changed part, by name."""
    known = _known_run_files(con)
    forgotten = find_forgotten(con)
    store_id = _store_id(con)
    found: list[WaitingRun] = []
    for run_id, folder in sorted(inbox.runs.items()):
        if (run_ids is not None and run_id not in run_ids) or name_fault(run_id):
            continue
        if _stays_out(forgotten, run_id, folder):
            continue
        if _is_waiting(folder, known.get(run_id, {})):
            signature = digest([inbox.run_signatures[run_id], store_id])
            found.append(WaitingRun(run_id, folder, _created_at(folder), signature))
    return found


def forgotten_in(con: Connection, inbox: Inbox) -> list[str]:
    """What lies in the inbox and stays there because it was forgotten on purpose: names of runs and datasets."""
    forgotten = find_forgotten(con)
    runs = [run_id for run_id, folder in inbox.runs.items() if _stays_out(forgotten, run_id, folder)]
    datasets = [source.dataset for source in inbox.sources if source.dataset in forgotten.datasets]
    return sorted({*runs, *(dataset for dataset in datasets if dataset)})


def _store_id(con: Connection) -> str:
    """A text that differs between stores, so that work done for one store is not taken as done for another."""
    return str(first_value(con, "select min(applied_at) from main.schema_migrations"))


def _stays_out(forgotten: Forgotten, run_id: str, folder: Path) -> bool:
    """The dataset stands in run.json, which is read only when a dataset was forgotten at all."""
    if run_id in forgotten.runs:
        return True
    if not forgotten.datasets:
        return False
    try:
        return read_run(folder / "run.json").dataset in forgotten.datasets
    except InputRejected:
        return False


def _known_run_files(con: Connection) -> dict[str, dict[str, _Known]]:
    found: dict[str, dict[str, _Known]] = {}
    emptied = set(parts_without_texts(con))
    for run_id, part, *known in con.execute(
        "select r.run_id, p.part, p.content_hash, d.n_bytes, d.delivered_at from raw.run_parts p "
        "join raw.runs r using (run_key) join ledger.deliveries d using (delivery_key)"
    ).fetchall():
        if (run_id, part) not in emptied:
            found.setdefault(run_id, {})[part] = _Known(*known)
    return found


def _is_waiting(folder: Path, known: Mapping[str, _Known]) -> bool:
    bundle = _bundle_of(folder)
    if bundle is None:
        return False
    if not bundle.runs:
        return True
    files = {"run": folder / "run.json", **bundle.runs[0].parts}
    return any(_is_new(path, known.get(part)) for part, path in files.items())


def _bundle_of(folder: Path) -> Bundle | None:
    """The folder's files, or None when it has gone in the meantime."""
    return find_bundle(folder) if (folder / "run.json").is_file() else None


def _is_new(path: Path, known: _Known | None) -> bool:
    if known is None:
        return True
    found = path.stat()
    touched = dt.datetime.fromtimestamp(max(found.st_mtime, found.st_ctime), dt.UTC).replace(tzinfo=None)
    if found.st_size == known.n_bytes and touched <= known.delivered_at:
        return False
    try:
        delivered = content_hash(path)
    except InputRejected:
        return True
    return known.content_hash not in (delivered, textless_hash(delivered))


def _created_at(folder: Path) -> dt.datetime | None:
    try:
        run = read_run(folder / "run.json")
    except InputRejected:
        return None
    return parse_time(run.created_at) if run.created_at else None


def waiting_sources(con: Connection, inbox: Inbox) -> WaitingSources:
    """Golden sets and archives that are new or changed."""
    known = _known_sources(con)
    forgotten = find_forgotten(con)
    waiting = [
        source
        for source in inbox.sources
        if source.dataset not in forgotten.datasets
        and _is_new(source.path, known.get((source.part, source.dataset, source.chunker_version)))
    ]
    named = [source for source in waiting if not source.is_misnamed]
    datasets = {source.dataset for source in named if source.dataset and source.chunker_version is None}
    versions = {source.chunker_version for source in named if source.chunker_version}
    folders = tuple(dict.fromkeys(source.folder for source in waiting))
    signature = digest(
        [_store_id(con), *(f"{source.path} {_stamp(source.path.stat())}" for source in waiting)]
    )
    return WaitingSources(tuple(sorted(datasets)), tuple(sorted(versions)), folders, signature)


def _known_sources(con: Connection) -> dict[tuple[str, str | None, str | None], _Known]:
    rows = con.execute(
        "select part, dataset_id, chunker_version, content_hash, n_bytes, delivered_at from ledger.deliveries "
        "where part in (select unnest(?)) and superseded_at is null",
        [[GOLDEN_SET, ARCHIVE, CASES]],
    ).fetchall()
    return {
        (part, dataset, version): _Known(*known)
        for part, dataset, version, *known in rows
        if not _is_emptied(con, part, dataset, version)
    }


def _is_emptied(con: Connection, part: str, dataset: str | None, version: str | None) -> bool:
    """Whether its texts were forgotten since: the same bytes would bring them back."""
    if dataset is None:
        return False
    if part == CASES:
        return current_list_hash(con, dataset) is None
    if version is None:
        return _current_golden_hash(con, dataset) is None
    return current_archive_hash(con, dataset, version) is None


def take_in_runs(project: Project, run_ids: Collection[str]) -> LoadReport:
    """Load the folders of these runs that hold something new, and the sources that wait beside them."""
    inbox = look_into(project.settings.inbox)
    with project.write() as store:
        runs = waiting_runs(store.con, inbox, run_ids)
        sources = waiting_sources(store.con, inbox) if runs else WaitingSources()
    misnamed = inbox.misnamed_runs if runs else []
    folders = dict.fromkeys([*sources.folders, *misnamed, *(run.path for run in runs)])
    return _load(list(folders), inbox, project)


def take_in_sources(project: Project) -> LoadReport:
    """Load the golden sets and archives that wait in the inbox."""
    inbox = look_into(project.settings.inbox)
    with project.write() as store:
        folders = waiting_sources(store.con, inbox).folders
    return _load(folders, inbox, project)


def _load(folders: Sequence[Path], inbox: Inbox, project: Project) -> LoadReport:
    """Load what waits; what was taken in without its texts stays without them, because nobody asked for them."""
    if project.notify:
        for folder in inbox.incomplete:
            project.notify(f"{folder}: {NO_RUN_FILE}")
    if not folders:
        return LoadReport()
    return load_bundles(folders, project, options=LoadOptions(texts_again=False, is_ordered=False))
