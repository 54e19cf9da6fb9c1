"""What is in quarantine, and reading the files behind it again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from eval_pipeline.bundle.files import content_hash, stem_of
from eval_pipeline.bundle.golden import read_golden_set
from eval_pipeline.bundle.layout import ArchiveFile, Bundle, GoldenFile, find_bundle
from eval_pipeline.bundle.lines import problem_of
from eval_pipeline.bundle.parts import read_archive
from eval_pipeline.bundle.problems import Problem
from eval_pipeline.bundle.results import InvertedSpans, read_results
from eval_pipeline.bundle.texts import textless_hash
from eval_pipeline.config import load_config
from eval_pipeline.errors import InputRejected, UnknownName
from eval_pipeline.loading._archives import current_archive_hash
from eval_pipeline.loading._write_runs import known_parts
from eval_pipeline.loading.context import LoadOptions, LoadReport
from eval_pipeline.loading.deliveries import OpenProblem, _find_problems, _names_delivered, count_problems
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.loading.runs import read_part
from eval_pipeline.loading.write_labels import _current_golden_hash
from eval_pipeline.records import CASES
from eval_pipeline.settings import check_places
from eval_pipeline.store.kept import KeptDelivery
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Project

GOLDEN_STEM = "queries"
INVENTORIES = "inventories"
SMALL = 1 << 20
GONE = "is not there (as seen from this folder), and nothing of it was kept: deliver it again"
NO_BUNDLE = "is no part of a bundle: load it again the way it was loaded"
Place = tuple[str | None, Path]
TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass
class RetryPlan:
    """What to load: as it comes, or without texts where the store has it without; and what cannot be read.

    The files of `read_again` have the bytes that the store has, and would give other rows than they did.
    """

    bundles: list[Bundle] = field(default_factory=list)
    textless_bundles: list[Bundle] = field(default_factory=list)
    read_again: set[Path] = field(default_factory=set)
    unread: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Known:
    """What the store and the kept deliveries have."""

    db: Path
    parts: Mapping[str, Mapping[str, str]]
    delivered_at: Mapping[str, Sequence[dt.datetime]]
    golden: Callable[[str], str | None]
    archive: Callable[[str | None, str], str | None]
    inverted_spans: InvertedSpans

    def kept(self, problems: Iterable[OpenProblem], inside: str) -> Path | None:
        """The newest kept folder of this name from which one of these problems came."""
        hashes = {one.content_hash for one in problems if one.content_hash}
        times = sorted({time for one in hashes for time in self.delivered_at.get(one, ())}, reverse=True)
        places = (one.path / inside for time in times for one in KeptDelivery.at(self.db, time))
        return next((place for place in places if place.is_dir()), None)


def _plan_retry(
    con: Connection, db: Path, problems: Sequence[OpenProblem], *, inverted_spans: InvertedSpans
) -> RetryPlan:
    """Where to read what is in quarantine: the original paths, else the deliveries that were kept."""
    known = _Known(
        db,
        known_parts(con, sorted({one.run_id for one in problems if one.run_id})),
        _delivery_times(con, {one.content_hash for one in problems if one.content_hash}),
        lambda dataset: _current_golden_hash(con, dataset),
        lambda dataset, version: current_archive_hash(con, dataset, version),
        inverted_spans,
    )
    plan = RetryPlan()
    for (run_id, folder), group in _grouped(problems, _run_place):
        _plan_run(plan, known, str(run_id), folder, group)
    for (dataset, folder), group in _grouped(problems, _golden_place):
        _plan_golden_set(plan, known, dataset, folder, group)
    for (dataset, path), group in _grouped(problems, _archive_place):
        _plan_archive(plan, known, dataset, path, group)
    for (_, path), group in _grouped(problems, _case_list_place):
        _plan_case_list(plan, path, group)
    return plan


def _delivery_times(con: Connection, hashes: Collection[str]) -> dict[str, list[dt.datetime]]:
    found: dict[str, list[dt.datetime]] = {}
    for content, time in con.execute(
        "select content_hash, delivered_at from ledger.deliveries where content_hash in (select unnest(?))",
        [sorted(hashes)],
    ).fetchall():
        found.setdefault(content, []).append(time)
    return found


def _grouped(
    problems: Sequence[OpenProblem], place_of: Callable[[OpenProblem], Place | None]
) -> Iterator[tuple[Place, list[OpenProblem]]]:
    groups: dict[Place, list[OpenProblem]] = {}
    for one in problems:
        place = place_of(one)
        if place is not None:
            groups.setdefault(place, []).append(one)
    yield from groups.items()


def _run_place(problem: OpenProblem) -> Place | None:
    """The run's folder: the path itself where the folder was the problem."""
    if problem.run_id is None:
        return None
    path = Path(problem.path)
    return problem.run_id, path if path.name == problem.run_id else path.parent


def _archive_place(problem: OpenProblem) -> Place | None:
    path = Path(problem.path)
    if problem.run_id is not None or path.parent.name != INVENTORIES:
        return None
    return problem.dataset, path


def _golden_place(problem: OpenProblem) -> Place | None:
    path = Path(problem.path)
    if problem.run_id is not None or path.parent.name == INVENTORIES or stem_of(path) == CASES:
        return None
    folder = path.parent if stem_of(path) == GOLDEN_STEM else path
    return problem.dataset or folder.name, folder


def _case_list_place(problem: OpenProblem) -> Place | None:
    path = Path(problem.path)
    if problem.run_id is not None or path.parent.name == INVENTORIES or stem_of(path) != CASES:
        return None
    return problem.dataset or path.parent.name, path


def _plan_run(plan: RetryPlan, known: _Known, run_id: str, folder: Path, group: list[OpenProblem]) -> None:
    if not (folder / "run.json").is_file():
        kept = known.kept(group, f"runs/{run_id}")
        if kept is None:
            is_there = any(Path(one.path).is_file() for one in group)
            plan.unread |= {one.path: NO_BUNDLE if is_there else GONE for one in group}
            return
        folder = kept
    bundle = find_bundle(folder)
    is_textless = False
    for run in bundle.runs:
        for part, path in run.parts.items():
            stored = known.parts.get(run_id, {}).get(part)
            rows = [one for one in group if one.content_hash == stored and stored is not None]
            if rows:
                textless = _same_bytes(path, stored)
                read = partial(_part_problems, part, path, run_id, known.inverted_spans)
                if textless is not None and _would_differ(read, rows):
                    plan.read_again.add(path)
                    is_textless = is_textless or textless
    (plan.textless_bundles if is_textless else plan.bundles).append(bundle)


def _same_bytes(path: Path, stored: str | None) -> bool | None:
    """None where the file is another one than the store has; else whether the store has it without its texts."""
    try:
        delivered = content_hash(path)
    except InputRejected:
        return None
    return {delivered: False, textless_hash(delivered): True}.get(stored or "")


def _would_differ(read: Callable[[], Iterable[Problem]], rows: Sequence[OpenProblem]) -> bool:
    """Whether reading the same bytes now rejects other rows than it did."""
    try:
        now = {(one.line, one.field, one.reason) for one in read()}
    except InputRejected:
        return False
    return now != {(one.line, one.field, one.reason) for one in rows}


def _part_problems(part: str, path: Path, run_id: str, inverted_spans: InvertedSpans) -> list[Problem]:
    if part == "results":
        blocks = read_results(path, run_id=run_id, inverted_spans=inverted_spans)
        return [problem for block in blocks for problem in block.problems]
    return read_part(part, path, "", run_id=run_id, in_memory=SMALL).problems


def _plan_golden_set(
    plan: RetryPlan, known: _Known, dataset: str | None, folder: Path, group: list[OpenProblem]
) -> None:
    name = dataset or folder.name
    files = _golden_files(folder)
    if not files:
        kept = known.kept(group, f"datasets/{name}")
        files = _golden_files(kept) if kept else []
    if not files:
        plan.unread |= {one.path: NO_BUNDLE if folder.is_dir() else GONE for one in group}
        return
    bundle = find_bundle(files[0].parent)
    bundle.archives.clear()
    bundle.case_lists.clear()
    bundle.golden_sets = [GoldenFile(name, one.path) for one in bundle.golden_sets]
    _add_source(
        plan,
        bundle,
        files[0],
        known.golden(name),
        group,
        lambda path: read_golden_set(path, inverted_spans=known.inverted_spans).problems,
    )


def _golden_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob(f"{GOLDEN_STEM}.*") if path.is_file())


def _plan_archive(
    plan: RetryPlan, known: _Known, dataset: str | None, path: Path, group: list[OpenProblem]
) -> None:
    version = stem_of(path)
    if not path.is_file():
        kept = known.kept(group, f"datasets/{dataset}/{INVENTORIES}" if dataset else INVENTORIES)
        files = [one for one in kept.iterdir() if stem_of(one) == version] if kept else []
        if not files:
            plan.unread |= {one.path: GONE for one in group}
            return
        path = files[0]
    bundle = Bundle(path.parent.resolve(), archives=[ArchiveFile(dataset, version, path)])
    read = partial(_archive_problems, inverted_spans=known.inverted_spans)
    _add_source(plan, bundle, path, known.archive(dataset, version), group, read)


def _plan_case_list(plan: RetryPlan, path: Path, group: Sequence[OpenProblem]) -> None:
    """A list is taken as a whole or not at all: what was rejected is nowhere but in its place."""
    if not path.is_file():
        plan.unread |= {one.path: GONE for one in group}
        return
    bundle = find_bundle(path.parent)
    bundle.golden_sets.clear()
    bundle.archives.clear()
    plan.bundles.append(bundle)


def _archive_problems(path: Path, *, inverted_spans: InvertedSpans) -> list[Problem]:
    lines = read_archive(path, inverted_spans=inverted_spans)
    return [problem_of(line, path) for line in lines if line.record is None]


def _add_source(
    plan: RetryPlan,
    bundle: Bundle,
    path: Path,
    stored: str | None,
    group: Sequence[OpenProblem],
    read: Callable[[Path], Iterable[Problem]],
) -> None:
    textless = None
    rows = [one for one in group if one.content_hash == stored and stored is not None]
    if rows:
        textless = _same_bytes(path, stored)
        if textless is not None and _would_differ(partial(read, path), rows):
            plan.read_again.add(path)
    (plan.textless_bundles if textless else plan.bundles).append(bundle)


def find_quarantine(
    project: Project,
    *,
    run_ids: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    resolved: bool = False,
) -> list[dict[str, Any]]:
    """Every piece of input that is in quarantine now, or that was and is resolved, oldest first."""
    with project.read() as store:
        _require_known(store.con, run_ids, datasets)
        found = _find_problems(store.con, run_ids=run_ids, datasets=datasets, resolved=resolved)
    return [_entry(one) for one in found]


def _require_known(con: Connection, run_ids: Sequence[str] | None, datasets: Sequence[str] | None) -> None:
    """A name that was misspelt must not read as if all were well; what was only ever rejected has a name, too."""
    known_runs, known_datasets = _names_delivered(con)
    for kind, asked, known in (("run", run_ids, known_runs), ("dataset", datasets, known_datasets)):
        for name in asked or ():
            if name not in known:
                raise UnknownName(kind, name, known)


def _entry(problem: OpenProblem) -> dict[str, Any]:
    """A row of the document."""
    names = ("path", "line", "run_id", "query_id", "field", "reason", "text")
    entry: dict[str, Any] = {name: getattr(problem, name) for name in names}
    entry |= {"at": problem.rejected_at.strftime(TIME), "dataset": problem.dataset}
    if problem.resolved_at:
        entry["resolved_at"] = problem.resolved_at.strftime(TIME)
    return entry


def count_resolved(
    project: Project, *, run_ids: Sequence[str] | None = None, datasets: Sequence[str] | None = None
) -> int:
    """How much was in quarantine and is resolved."""
    with project.read() as store:
        return count_problems(store.con, run_ids=run_ids, datasets=datasets, resolved=True)


def retry_quarantine(
    project: Project,
    *,
    run_ids: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    no_text: bool = False,
) -> dict[str, Any]:
    """Read the files behind quarantine again, take in what is good now, and say what is mended and what is not."""
    settings = project.settings
    check_places(settings)
    inverted_spans = load_config(settings.config).inverted_spans
    with project.read() as store:
        _require_known(store.con, run_ids, datasets)
        before = _find_problems(store.con, run_ids=run_ids, datasets=datasets)
        plan = _plan_retry(store.con, settings.db, before, inverted_spans=inverted_spans)
    reports: list[LoadReport] = []
    for is_textless, bundles in ((False, plan.bundles), (True, plan.textless_bundles)):
        if bundles:
            options = LoadOptions(
                no_text=no_text or is_textless, texts_again=False, read_again=frozenset(plan.read_again)
            )
            reports.append(load_bundles(bundles, project, options=options))
    with project.read() as store:
        after = _find_problems(store.con, run_ids=run_ids, datasets=datasets)
    still = {one.place for one in after}
    return {
        "format": 1,
        "mended": [_entry(one) for one in before if one.place not in still],
        "rows": [_entry(one) for one in after],
        "unread": [{"path": path, "why": why} for path, why in sorted(plan.unread.items())],
        "taken_in": sorted(
            {name for report in reports for name in (*report.golden_sets, *report.archives, *report.runs)}
        ),
    }
