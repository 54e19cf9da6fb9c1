"""After a load: what it has put right in quarantine, and which labels its archives know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eval_pipeline.ingest.bundle import Bundle, RunFolder
from eval_pipeline.ingest.files import stem_of
from eval_pipeline.pipeline.lint import note_stale_labels
from eval_pipeline.pipeline.loading import Load
from eval_pipeline.store.archives import current_archive_hash
from eval_pipeline.store.connect import Connection, open_writer, transaction
from eval_pipeline.store.deliveries import RejectedFile, rejected_files, resolve_files
from eval_pipeline.store.labels import current_golden_hash
from eval_pipeline.store.read import waiting_runs
from eval_pipeline.store.runs import known_parts

ANY_PART = "run"


@dataclass(frozen=True)
class _Good:
    """What a load has delivered well, or found as it was: run folders, golden sets, archives, with their hashes."""

    runs: Mapping[str, Sequence[RunFolder]]
    parts: Mapping[str, Mapping[str, str]]
    golden_sets: Mapping[str, str | None]
    archives: Mapping[tuple[str | None, str], str | None]


def settle(load: Load, bundles: Sequence[Bundle]) -> None:
    """Resolve what a good delivery has taken the place of; hold labels against archives where either is new."""
    with open_writer(load.settings.db, tell=load.tell) as con, transaction(con):
        if load.report.golden_sets or load.report.archives:
            known = note_stale_labels(con, now=load.now)
            touched = {
                *load.report.golden_sets,
                *(name.split("/")[0] for name in load.report.archives if "/" in name),
            }
            shared = any("/" not in name for name in load.report.archives)
            load.report.warnings += [one for one in known if shared or one.dataset in touched]
        written = set(load.report.runs)
        load.report.waiting = [run_id for run_id in waiting_runs(con) if run_id in written]
        rejected = rejected_files(con)
        if rejected:
            good = _good(con, load, bundles)
            resolve_files(con, [one for one in rejected if _is_resolved(one, good)], now=load.now)


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
    return _Good(
        runs,
        known_parts(con, list(runs)),
        {dataset: current_golden_hash(con, dataset) for dataset in golden},
        {named: current_archive_hash(con, *named) for named in archives},
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
    dataset = rejected.dataset or (path.parent.name if stem == "queries" else path.name)
    return good.golden_sets.get(dataset, rejected.content_hash) != rejected.content_hash


def _delivers(folder: RunFolder, path: Path, stem: str) -> bool:
    """Whether the folder holds the part that was rejected; a folder that was taken has no fault of its own."""
    named = {*folder.parts.values(), *folder.called.values()}
    return path in named or stem in (*folder.parts, ANY_PART) or stem_of(path) == folder.path.name
