"""Bundles loaded into the store, and what that has put right in quarantine."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from eval_pipeline.bundle.files import stem_of
from eval_pipeline.bundle.layout import NO_RUN_FILE, Bundle, RunFolder, find_bundle
from eval_pipeline.config import load_config
from eval_pipeline.loading._archives import current_archive_hash
from eval_pipeline.loading._case_lists import current_list_hash, note_cases
from eval_pipeline.loading._left_out import leave_out_sources
from eval_pipeline.loading._sources import load_archive, load_case_list, load_golden_set
from eval_pipeline.loading._write_runs import known_parts
from eval_pipeline.loading.cases import FILE
from eval_pipeline.loading.context import Load, LoadOptions, LoadReport, _quarantine, _snapshot_of_store
from eval_pipeline.loading.deliveries import RejectedFile, _rejected_files, _resolve_files
from eval_pipeline.loading.lint import _note_disputed_labels, _note_stale_labels
from eval_pipeline.loading.runs import Progress, _load_runs
from eval_pipeline.loading.write_labels import _current_golden_hash
from eval_pipeline.records import CASES
from eval_pipeline.settings import check_places
from eval_pipeline.store.kept import Keeping
from eval_pipeline.store.open import Connection, transaction
from eval_pipeline.store.project import Project, at_one_time
from eval_pipeline.store.runs import attempts
from eval_pipeline.store.schema import assign_label_chunkers

ANY_PART = "run"


@dataclass(frozen=True)
class _Good:
    """What a load has delivered well, or found as it was: run folders, golden sets, archives, with their hashes."""

    runs: Mapping[str, Sequence[RunFolder]]
    parts: Mapping[str, Mapping[str, str]]
    golden_sets: Mapping[str, str | None]
    archives: Mapping[tuple[str | None, str], str | None]
    case_lists: Mapping[str, str | None]


def _finish_load(load: Load, bundles: Sequence[Bundle]) -> None:
    """Resolve what a good delivery has taken the place of; hold labels against archives where either is new."""
    with load.project.write() as store, transaction(store.con):
        assign_label_chunkers(store.con, load_config(load.project.settings.config).label_chunkers)
        load.report.warnings += _note_disputed_labels(store)
        # Also of what is there already: an earlier call may have been killed before it came to this.
        if any(one.golden_sets or one.archives for one in bundles):
            known = _note_stale_labels(store)
            touched = {
                *load.report.golden_sets,
                *(name.split("/")[0] for name in load.report.archives if "/" in name),
            }
            shared = any("/" not in name for name in load.report.archives)
            load.report.warnings += [one for one in known if shared or one.dataset in touched]
        written = set(load.report.runs)
        load.report.warnings += note_cases(store, run_ids=written, datasets=load.report.case_lists)
        found = attempts(store.con, written).values()
        load.report.waiting = [run.run_id for run in found if not run.has_golden_set]
        rejected = _rejected_files(store.con)
        if rejected:
            good = _good(store.con, load, bundles)
            _resolve_files(store, [one for one in rejected if _is_resolved(one, good)])


def _good(con: Connection, load: Load, bundles: Sequence[Bundle]) -> _Good:
    rejected = set(load.report.rejected)
    runs: dict[str, list[RunFolder]] = {}
    for folder in [] if load.report.stopped else _folders(bundles):
        if folder.path.name not in rejected:
            runs.setdefault(folder.path.name, []).append(folder)
    golden = {one.dataset for bundle in bundles for one in bundle.golden_sets if one.dataset not in rejected}
    archives = {
        (one.dataset, one.chunker_version)
        for bundle in bundles
        for one in bundle.archives
        if "/".join(name for name in (one.dataset, one.chunker_version) if name) not in rejected
    }
    cases = {
        one.dataset
        for bundle in bundles
        for one in bundle.case_lists
        if f"{one.dataset}/{FILE}" not in rejected
    }
    return _Good(
        runs,
        known_parts(con, list(runs)),
        {dataset: _current_golden_hash(con, dataset) for dataset in golden},
        {named: current_archive_hash(con, *named) for named in archives},
        {dataset: current_list_hash(con, dataset) for dataset in cases},
    )


def _folders(bundles: Sequence[Bundle]) -> Iterator[RunFolder]:
    for bundle in bundles:
        yield from bundle.runs


def _is_resolved(rejected: RejectedFile, good: _Good) -> bool:
    """Rows stay in quarantine as long as the bytes that they stood in are those of the store."""
    path = Path(rejected.path)
    stem = stem_of(path)
    if rejected.run_id is not None:
        folders = good.runs.get(rejected.run_id, ())
        if not folders or rejected.content_hash in good.parts.get(rejected.run_id, {}).values():
            return False
        return any(_delivers(folder, path, stem) for folder in folders) or not path.exists()
    if path.parent.name == "inventories":
        named = (rejected.dataset, stem)
        return good.archives.get(named, rejected.content_hash) != rejected.content_hash
    if stem == CASES:
        dataset = rejected.dataset or path.parent.name
        return good.case_lists.get(dataset, rejected.content_hash) not in (rejected.content_hash, None)
    dataset = rejected.dataset or (path.parent.name if stem == "queries" else path.name)
    return good.golden_sets.get(dataset, rejected.content_hash) != rejected.content_hash


def _delivers(folder: RunFolder, path: Path, stem: str) -> bool:
    """Whether the folder holds the part that was rejected; a folder that was taken has no fault of its own."""
    named = {*folder.parts.values(), *folder.called.values()}
    return path in named or stem in (*folder.parts, ANY_PART) or stem_of(path) == folder.path.name


def load_bundles(
    found: Sequence[Path | Bundle],
    project: Project,
    *,
    progress: Progress | None = None,
    options: LoadOptions | None = None,
    stop: Callable[[], bool] | None = None,
) -> LoadReport:
    """Load everything that these folders or bundles deliver; what cannot be taken is quarantined, the rest goes on.

    Between two runs `stop` is asked whether to end with what is written.
    """
    project = at_one_time(project)
    check_places(project.settings)
    bundles = [find_bundle(one) if isinstance(one, Path) else one for one in found]
    chosen = options or LoadOptions()
    if chosen.is_ordered:
        _place_runs(bundles, are_ordered=[isinstance(one, Bundle) for one in found])
    with _keeping(project, chosen) as keeping:
        before = _snapshot_of_store(project, bundles, keeping=keeping, options=chosen)
        inverted_spans = load_config(project.settings.config).inverted_spans
        load = Load(
            project,
            LoadReport(),
            keeping,
            before,
            inverted_spans,
            chosen,
            stop or (lambda: False),
        )
        for bundle in bundles:
            _quarantine(load, bundle.problems)
            load.tell_all([f"{folder}: {NO_RUN_FILE}" for folder in bundle.incomplete])
            leave_out_sources(load, bundle)
            for golden in bundle.golden_sets:
                load_golden_set(load, golden)
            for cases in bundle.case_lists:
                load_case_list(load, cases)
            for archive in bundle.archives:
                load_archive(load, archive)
        _load_runs(load, [run for bundle in bundles for run in bundle.runs], progress=progress)
        if not chosen.dry_run:
            _finish_load(load, bundles)
    return load.report


def _place_runs(bundles: Sequence[Bundle], *, are_ordered: Sequence[bool]) -> None:
    """Number the runs of one load: by their place in a file, and by argument if they are in a folder."""
    place = 0
    for bundle, is_ordered in zip(bundles, are_ordered, strict=True):
        bundle.runs = [
            replace(run, place=place + (number if is_ordered else 0))
            for number, run in enumerate(bundle.runs)
        ]
        place += max(1, len(bundle.runs))


@contextmanager
def _keeping(project: Project, options: LoadOptions) -> Iterator[Keeping]:
    """How the deliveries of this load are kept; what a dry run writes ends with it."""
    keeping = Keeping.of(project.settings.db, project.clock())
    if options.dry_run:
        with tempfile.TemporaryDirectory(prefix="eval-pipeline-") as scratch:
            yield replace(keeping, staged=Path(scratch), keeps=False)
        return
    keeping.keeps = options.keeps
    try:
        yield keeping
    finally:
        keeping.end()
