"""Take bundles in: golden sets and archives first, then runs in batches of about a second."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from eval_pipeline.errors import InputRejected
from eval_pipeline.ingest.ahead import read_ahead
from eval_pipeline.ingest.bundle import ArchiveFile, GoldenFile, RunFolder, find_bundle
from eval_pipeline.ingest.files import content_hash
from eval_pipeline.ingest.golden import read_golden_set
from eval_pipeline.ingest.lines import Line
from eval_pipeline.ingest.parts import (
    parse_time,
    problem_of,
    read_archive,
    read_run,
    read_run_document,
)
from eval_pipeline.ingest.problems import Problem, printable
from eval_pipeline.pipeline.delivered_parts import problem_of_rejection, read_part, weight_of
from eval_pipeline.records import ArchiveChunk, Run
from eval_pipeline.settings import Settings
from eval_pipeline.store.archives import ArchiveDelivery, current_archive_hash, write_archive
from eval_pipeline.store.connect import open_writer, transaction
from eval_pipeline.store.deliveries import add_quarantine
from eval_pipeline.store.kept import keep, kept_folder
from eval_pipeline.store.labels import GoldenDelivery, current_golden_hash, write_golden_set
from eval_pipeline.store.lock import Tell, let_others_in
from eval_pipeline.store.parts import PartDelivery
from eval_pipeline.store.runs import RunDelivery, RunRejected, known_parts, write_runs

BATCH_BYTES = 48 << 20
BATCH_RUNS = 200
IN_MEMORY_BYTES = 48 << 20
AHEAD_BYTES = 32 << 20


@dataclass
class LoadReport:
    """What a load did, in the order it happened."""

    golden_sets: list[str] = field(default_factory=list)
    archives: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    unchanged: int = 0
    rejected: list[str] = field(default_factory=list)
    results: int = 0
    quarantined: int = 0
    problems: list[Problem] = field(default_factory=list)


Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class _Load:
    """What every step of one load needs."""

    settings: Settings
    report: LoadReport
    now: dt.datetime
    kept: Path
    tell: Tell | None


def load_bundles(
    paths: Sequence[Path],
    settings: Settings,
    *,
    now: dt.datetime,
    tell: Tell | None = None,
    progress: Progress | None = None,
) -> LoadReport:
    """Take in everything the folders deliver; what cannot be taken is quarantined, the rest goes on."""
    bundles = [find_bundle(path) for path in paths]
    stamp = now.strftime("%Y%m%dT%H%M%S.%f")
    load = _Load(settings, LoadReport(), now, kept_folder(settings.db) / stamp, tell)
    known = _stored_parts(load)
    for bundle in bundles:
        _quarantine(load, bundle.problems, content=None)
        for golden in bundle.golden_sets:
            _load_golden_set(load, golden)
        for archive in bundle.archives:
            _load_archive(load, archive)
    _load_runs(load, [run for bundle in bundles for run in bundle.runs], known, progress=progress)
    return load.report


def _quarantine(load: _Load, problems: Sequence[Problem], *, content: str | None) -> None:
    if not problems:
        return
    with open_writer(load.settings.db, tell=load.tell) as con, transaction(con):
        add_quarantine(con, problems, content_hash=content, now=load.now)
    _report_problems(load, problems)


def _report_problems(load: _Load, problems: Sequence[Problem]) -> None:
    load.report.problems.extend(problems)
    load.report.quarantined += len(problems)


def _load_golden_set(load: _Load, golden: GoldenFile) -> None:
    content = None
    try:
        content = content_hash(golden.path)
        with open_writer(load.settings.db, tell=load.tell) as con:
            if current_golden_hash(con, golden.dataset) == content:
                load.report.unchanged += 1
                return
        found = read_golden_set(golden.path)
    except InputRejected as rejected:
        load.report.rejected.append(golden.dataset)
        _quarantine(load, [problem_of_rejection(golden.path, rejected)], content=content)
        return
    keep(golden.path, load.kept / "datasets" / golden.dataset / golden.path.name)
    delivery = GoldenDelivery(
        dataset=golden.dataset,
        path=str(golden.path),
        content_hash=content,
        n_bytes=golden.path.stat().st_size,
        rows=found.rows,
        n_quarantined=len(found.problems),
    )
    with open_writer(load.settings.db, tell=load.tell) as con, transaction(con):
        write_golden_set(con, delivery, now=load.now)
        add_quarantine(con, found.problems, content_hash=content, now=load.now)
    load.report.golden_sets.append(golden.dataset)
    _report_problems(load, found.problems)


def _load_archive(load: _Load, archive: ArchiveFile) -> None:
    content = None
    name = (
        archive.chunker_version if archive.dataset is None else f"{archive.dataset}/{archive.chunker_version}"
    )
    try:
        content = content_hash(archive.path)
        with open_writer(load.settings.db, tell=load.tell) as con:
            if current_archive_hash(con, archive.dataset, archive.chunker_version) == content:
                load.report.unchanged += 1
                return
        lines = list(read_archive(archive.path))
    except InputRejected as rejected:
        load.report.rejected.append(name)
        _quarantine(load, [problem_of_rejection(archive.path, rejected)], content=content)
        return
    folder = load.kept / "datasets" / archive.dataset if archive.dataset else load.kept
    keep(archive.path, folder / "inventories" / archive.path.name)
    problems = [problem_of(line, archive.path) for line in lines if line.record is None]
    delivery = ArchiveDelivery(
        dataset=archive.dataset,
        chunker_version=archive.chunker_version,
        path=str(archive.path),
        content_hash=content,
        n_bytes=archive.path.stat().st_size,
        chunks=_records(lines),
        n_quarantined=len(problems),
    )
    with open_writer(load.settings.db, tell=load.tell) as con, transaction(con):
        write_archive(con, delivery, now=load.now)
        add_quarantine(con, problems, content_hash=content, now=load.now)
    load.report.archives.append(name)
    _report_problems(load, problems)


def _records(lines: Sequence[Line[ArchiveChunk]]) -> list[ArchiveChunk]:
    return [line.record for line in lines if line.record is not None]


def _load_runs(
    load: _Load,
    folders: Sequence[RunFolder],
    known: dict[str, dict[str, str]],
    *,
    progress: Progress | None,
) -> None:
    number = 0
    for part, runs in enumerate(_without_repeats(_in_order(load, folders))):
        if part:
            # Delivered twice by one load: the second is measured against what the first has left.
            known = _stored_parts(load)
        batch: list[RunDelivery] = []
        size = 0
        read = partial(_changed_parts, load, known)
        for (_, run), found in zip(
            runs, read_ahead(runs, read, weigh=_size_on_disk, budget=AHEAD_BYTES), strict=True
        ):
            if isinstance(found, Problem):
                load.report.rejected.append(run.run_id)
                _quarantine(load, [found], content=None)
            elif found is None:
                load.report.unchanged += 1
            else:
                batch.append(found)
                size += sum(weight_of(part) for part in found.parts)
            if size >= BATCH_BYTES or len(batch) >= BATCH_RUNS:
                _write_batch(load, batch)
                batch, size = [], 0
            number += 1
            if progress:
                progress(number, len(folders))
        _write_batch(load, batch)


def _without_repeats(runs: Sequence[tuple[RunFolder, Run]]) -> Iterator[list[tuple[RunFolder, Run]]]:
    """Stretches of runs, in order, in which no run stands twice."""
    stretch: dict[str, tuple[RunFolder, Run]] = {}
    for entry in runs:
        if entry[1].run_id in stretch:
            yield list(stretch.values())
            stretch = {}
        stretch[entry[1].run_id] = entry
    yield list(stretch.values())


def _size_on_disk(entry: tuple[RunFolder, Run]) -> int:
    """Bytes of a run's files; what is packed is taken for ten times as much."""
    return sum(
        path.stat().st_size * (1 if path.suffix in (".jsonl", ".json") else 10)
        for path in entry[0].parts.values()
        if path.is_file()
    )


def _stored_parts(load: _Load) -> dict[str, dict[str, str]]:
    with open_writer(load.settings.db, tell=load.tell) as con:
        return known_parts(con)


def _in_order(load: _Load, folders: Sequence[RunFolder]) -> list[tuple[RunFolder, Run]]:
    """Runs by their time, so that keys and partitions follow it; those without a time come last."""
    readable: list[tuple[RunFolder, Run]] = []
    for folder in folders:
        try:
            readable.append((folder, read_run(folder.run_file)))
        except InputRejected as rejected:
            load.report.rejected.append(printable(folder.path.name))
            _quarantine(
                load, [problem_of_rejection(folder.run_file, rejected, run_id=folder.path.name)], content=None
            )
    # A run delivered twice has one place, so that its deliveries stay in the order of the paths.
    times = {
        run.run_id: parse_time(run.created_at) if run.created_at else dt.datetime.max for _, run in readable
    }
    return sorted(readable, key=lambda entry: (times[entry[1].run_id], entry[1].run_id))


def _changed_parts(
    load: _Load, known: dict[str, dict[str, str]], entry: tuple[RunFolder, Run]
) -> RunDelivery | Problem | None:
    """What of a run is new or changed, read and kept; or why it cannot be taken. Other threads call this."""
    folder, run = entry
    stored = known.get(run.run_id, {})
    parts: list[PartDelivery] = []
    try:
        for part, path in {"run": folder.run_file, **folder.parts}.items():
            content = content_hash(path)
            if stored.get(part) != content:
                parts.append(read_part(part, path, content, run_id=run.run_id, in_memory=IN_MEMORY_BYTES))
    except InputRejected as rejected:
        return problem_of_rejection(path, rejected, run_id=run.run_id)
    if not parts:
        return None
    _keep_run(load, folder, run, parts)
    return RunDelivery(run, read_run_document(folder.run_file), parts)


def _keep_run(load: _Load, folder: RunFolder, run: Run, parts: Sequence[PartDelivery]) -> None:
    target = load.kept / "runs" / run.run_id
    for part in parts:
        if part.part != "run":
            keep(Path(part.path), target / Path(part.path).name)
    keep(folder.run_file, target / "run.json")


def _still_new(
    load: _Load, batch: Sequence[RunDelivery], known: dict[str, dict[str, str]]
) -> list[RunDelivery]:
    """Without what another process has written since the batch was read."""
    changed: list[RunDelivery] = []
    for delivery in batch:
        stored = known.get(delivery.run.run_id, {})
        parts = [part for part in delivery.parts if stored.get(part.part) != part.content_hash]
        if parts:
            changed.append(replace(delivery, parts=parts))
        else:
            load.report.unchanged += 1
    return changed


def _write_batch(load: _Load, batch: Sequence[RunDelivery]) -> None:
    """Write a batch; a run that turns out to be unusable is left out and the others are written."""
    remaining = list(batch)
    while remaining:
        try:
            with open_writer(load.settings.db, tell=load.tell) as con, transaction(con):
                remaining = _still_new(load, remaining, known_parts(con))
                if remaining:
                    write_runs(con, remaining, now=load.now)
            break
        except RunRejected as found:
            load.report.rejected.append(found.run_id)
            path = Path(found.part.path)
            _quarantine(
                load,
                [problem_of_rejection(path, found.rejected, run_id=found.run_id)],
                content=found.part.content_hash,
            )
            remaining = [delivery for delivery in remaining if delivery.run.run_id != found.run_id]
    for delivery in remaining:
        load.report.runs.append(delivery.run.run_id)
        for part in delivery.parts:
            load.report.problems.extend(part.problems)
            load.report.quarantined += len(part.problems)
            if part.part == "results":
                load.report.results += part.n_rows
    let_others_in()
