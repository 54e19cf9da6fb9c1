"""Golden sets, chunk archives and lists of cases loaded from their files."""

from __future__ import annotations

from collections.abc import Sequence

from eval_pipeline.bundle.extractions import read_case_list
from eval_pipeline.bundle.files import content_hash, stem_of
from eval_pipeline.bundle.golden import GoldenSet, read_golden_set
from eval_pipeline.bundle.layout import ArchiveFile, CaseListFile, GoldenFile
from eval_pipeline.bundle.lines import Line, problem_of
from eval_pipeline.bundle.packed_lines import PACKED
from eval_pipeline.bundle.parts import read_archive
from eval_pipeline.bundle.problems import Problem
from eval_pipeline.bundle.texts import write_without_texts
from eval_pipeline.errors import InputRejected
from eval_pipeline.loading._archives import ArchiveDelivery, write_archive
from eval_pipeline.loading._case_lists import write_case_list
from eval_pipeline.loading._left_out import was_forgotten_meanwhile
from eval_pipeline.loading.cases import FILE
from eval_pipeline.loading.context import Load, _free_place, _quarantine, _report_problems
from eval_pipeline.loading.deliveries import Delivery, _add_quarantine, _take_off_record
from eval_pipeline.loading.lint import _note_golden_set, lint_rows
from eval_pipeline.loading.runs import _problem_of_rejection
from eval_pipeline.loading.write_labels import GoldenDelivery, _write_golden_set
from eval_pipeline.records import CASES, ArchiveChunk, ExpectedCase
from eval_pipeline.store.kept import keep
from eval_pipeline.store.open import open_writer, transaction


def load_golden_set(load: Load, golden: GoldenFile) -> None:
    """Make this golden set the one that scores, unless it is already."""
    content = None
    try:
        content = content_hash(golden.path)
        if load.is_taken(content, load.before.golden_sets.get(golden.dataset), path=golden.path):
            load.report.unchanged += 1
            return
        content = load.hash_as_taken(content)
        found = _read_golden_set(load, golden)
    except InputRejected as rejected:
        load.report.rejected.append(golden.dataset)
        problem = _problem_of_rejection(golden.path, rejected)
        _quarantine(load, [problem], content=content, dataset=golden.dataset)
        return
    delivery = GoldenDelivery(
        dataset=golden.dataset,
        path=str(golden.path),
        content_hash=content,
        n_bytes=golden.path.stat().st_size,
        rows=found.rows,
        n_quarantined=len(found.problems),
    )
    if load.options.dry_run:
        warnings = lint_rows(found.rows)
    else:
        with open_writer(load.settings.db, notify=load.notify) as con, transaction(con):
            if was_forgotten_meanwhile(load, con, golden.dataset):
                return
            _write_golden_set(con, delivery, now=load.now)
            _take_off_record(con, content, dataset=golden.dataset, now=load.now)
            _add_quarantine(con, found.problems, content_hash=content, dataset=golden.dataset, now=load.now)
            warnings = _note_golden_set(con, golden.dataset, found.rows, now=load.now)
        load.before.golden_sets[golden.dataset] = content
    load.report.golden_sets.append(golden.dataset)
    load.report.warnings += warnings
    _report_problems(load, found.problems)


def _read_golden_set(load: Load, golden: GoldenFile) -> GoldenSet:
    """Its rows, kept as they came or without the questions."""
    if load.options.no_text:
        read_golden_set(golden.path)
        target = _free_place(load, f"datasets/{golden.dataset}", taken=("queries.*",)) / f"queries{PACKED}"
        problems = write_without_texts("golden_set", golden.path, target)
        found = GoldenSet(read_golden_set(target, inverted_spans=load.inverted_spans).rows, problems)
        _refuse_emptied(load, golden, found)
        return found
    found = read_golden_set(golden.path, inverted_spans=load.inverted_spans)
    _refuse_emptied(load, golden, found)
    if load.options.keeps:
        folder = _free_place(load, f"datasets/{golden.dataset}", taken=("queries.*",))
        keep(golden.path, folder / golden.path.name)
    return found


def _refuse_emptied(load: Load, golden: GoldenFile, found: GoldenSet) -> None:
    """An export that was cut off before its first row would take every label away."""
    if not found.rows and not found.problems and load.before.golden_sets.get(golden.dataset):
        raise InputRejected(
            "the file holds no query, and would take the place of a golden set that holds some; `eval-pipeline forget "
            "DATASET` drops one on purpose"
        )


def load_archive(load: Load, archive: ArchiveFile) -> None:
    """Add this state of an archive, unless it is the newest already."""
    content = None
    name = (
        archive.chunker_version if archive.dataset is None else f"{archive.dataset}/{archive.chunker_version}"
    )
    try:
        content = content_hash(archive.path)
        known = load.before.archives.get((archive.dataset, archive.chunker_version))
        if load.is_taken(content, known, path=archive.path):
            load.report.unchanged += 1
            return
        content = load.hash_as_taken(content)
        lines, problems = _read_archive(load, archive)
    except InputRejected as rejected:
        load.report.rejected.append(name)
        problem = _problem_of_rejection(archive.path, rejected)
        _quarantine(load, [problem], content=content, dataset=archive.dataset)
        return
    delivery = ArchiveDelivery(
        dataset=archive.dataset,
        chunker_version=archive.chunker_version,
        path=str(archive.path),
        content_hash=content,
        n_bytes=archive.path.stat().st_size,
        chunks=[line.record for line in lines if line.record is not None],
        n_quarantined=len(problems),
    )
    if not load.options.dry_run:
        with open_writer(load.settings.db, notify=load.notify) as con, transaction(con):
            if was_forgotten_meanwhile(load, con, archive.dataset):
                return
            write_archive(con, delivery, now=load.now)
            _take_off_record(con, content, dataset=archive.dataset, now=load.now)
            _add_quarantine(con, problems, content_hash=content, dataset=archive.dataset, now=load.now)
        load.before.archives[archive.dataset, archive.chunker_version] = content
    load.report.archives.append(name)
    _report_problems(load, problems)


def _read_archive(load: Load, archive: ArchiveFile) -> tuple[Sequence[Line[ArchiveChunk]], list[Problem]]:
    """Its chunks, kept as they came or without their texts."""
    folder = f"datasets/{archive.dataset}/inventories" if archive.dataset else "inventories"
    stem = stem_of(archive.path)
    place = _free_place(load, folder, taken=(f"{stem}.jsonl", f"{stem}.jsonl.*", f"{stem}.parquet"))
    if load.options.no_text:
        target = place / f"{stem}{PACKED}"
        problems = write_without_texts("archive", archive.path, target)
        return list(read_archive(target, inverted_spans=load.inverted_spans)), problems
    lines = list(read_archive(archive.path, inverted_spans=load.inverted_spans))
    if load.options.keeps:
        keep(archive.path, place / archive.path.name)
    return lines, [problem_of(line, archive.path) for line in lines if line.record is None]


def load_case_list(load: Load, file: CaseListFile) -> None:
    """Make this list the one that says which cases runs should hold, unless it is already."""
    content = None
    try:
        content = content_hash(file.path)
        if load.is_taken(content, load.before.case_lists.get(file.dataset), path=file.path):
            load.report.unchanged += 1
            return
        content = load.hash_as_taken(content)
        cases = _read_case_list(load, file)
    except InputRejected as rejected:
        load.report.rejected.append(f"{file.dataset}/{FILE}")
        problem = _problem_of_rejection(file.path, rejected)
        _quarantine(load, [problem], content=content, dataset=file.dataset)
        return
    if not load.options.dry_run:
        delivery = Delivery(
            part=CASES,
            path=str(file.path),
            content_hash=content,
            n_bytes=file.path.stat().st_size,
            n_rows=len(cases),
            n_quarantined=0,
            dataset_id=file.dataset,
        )
        with open_writer(load.settings.db, notify=load.notify) as con, transaction(con):
            if was_forgotten_meanwhile(load, con, file.dataset):
                return
            write_case_list(con, delivery, cases, now=load.now)
            _take_off_record(con, content, dataset=file.dataset, now=load.now)
        load.before.case_lists[file.dataset] = content
    load.report.case_lists.append(file.dataset)


def _read_case_list(load: Load, file: CaseListFile) -> list[ExpectedCase]:
    """Its cases, kept as they came or by name alone."""
    cases = read_case_list(file.path)
    place = _free_place(load, f"datasets/{file.dataset}", taken=(f"{CASES}.*",))
    if load.options.no_text:
        target = place / f"{CASES}{PACKED}"
        write_without_texts(CASES, file.path, target)
        return read_case_list(target)
    if load.options.keeps:
        keep(file.path, place / file.path.name)
    return cases
