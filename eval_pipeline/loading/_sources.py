"""Golden sets, chunk archives and lists of cases loaded from their files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from eval_pipeline.bundle.extractions import read_case_list
from eval_pipeline.bundle.files import content_hash, stem_of
from eval_pipeline.bundle.golden import GoldenSet, read_golden_set
from eval_pipeline.bundle.layout import ArchiveFile, CaseListFile, GoldenFile
from eval_pipeline.bundle.lines import Line, problem_of
from eval_pipeline.bundle.near_misses import near_misses, refuse_results
from eval_pipeline.bundle.packed_lines import PACKED
from eval_pipeline.bundle.parts import read_archive
from eval_pipeline.bundle.problems import Problem
from eval_pipeline.bundle.texts import write_without_texts
from eval_pipeline.errors import InputRejected
from eval_pipeline.loading._archives import ArchiveDelivery, current_archive_hash, write_archive
from eval_pipeline.loading._case_lists import current_list_hash, write_case_list
from eval_pipeline.loading._left_out import was_forgotten_meanwhile
from eval_pipeline.loading.cases import FILE
from eval_pipeline.loading.context import Load, _keep_original, _quarantine, _report_problems
from eval_pipeline.loading.deliveries import Delivery, _add_quarantine, _take_off_record
from eval_pipeline.loading.lint import _note_golden_set, lint_rows
from eval_pipeline.loading.runs import _problem_of_rejection
from eval_pipeline.loading.write_labels import GoldenDelivery, _current_golden_hash, _write_golden_set
from eval_pipeline.records import CASES, ArchiveChunk, ExpectedCase, GoldenRow
from eval_pipeline.store.kept import KeptFile
from eval_pipeline.store.open import Connection, transaction
from eval_pipeline.store.project import Store
from eval_pipeline.words import count


def load_golden_set(load: Load, golden: GoldenFile) -> None:
    """Make this golden set the one that scores, unless it is already."""
    content = None
    try:
        delivered = content_hash(golden.path)
        if load.is_taken(delivered, load.before.golden_sets.get(golden.dataset), path=golden.path):
            load.report.unchanged += 1
            return
        content = load.hash_as_taken(delivered)
        load.tell_all(near_misses(golden.path, GoldenRow))
        if not load.options.rebuilding:
            refuse_results(golden.path)
        found, kept = _read_golden_set(load, golden, content)
        _refuse_loss(load, golden, found)
    except InputRejected as rejected:
        load.report.rejected.append(golden.dataset)
        problem = _problem_of_rejection(golden.called or golden.path, rejected)
        _quarantine(load, [problem], content=content, dataset=golden.dataset)
        return
    delivery = GoldenDelivery(
        dataset=golden.dataset,
        path=str(golden.called or golden.path),
        content_hash=content,
        n_bytes=golden.path.stat().st_size,
        rows=found.rows,
        n_quarantined=len(found.problems),
    )
    looked_at = found.rows if load.options.dry_run else []
    warnings = [replace(one, dataset=golden.dataset) for one in lint_rows(looked_at)]

    def write(store: Store) -> bool:
        stored = _current_golden_hash(store.con, golden.dataset)
        if _is_settled(load, store.con, golden.dataset, delivered, stored, golden.path):
            return False
        _write_golden_set(store, delivery)
        _take_off_record(store, content, dataset=golden.dataset)
        _add_quarantine(
            store,
            found.problems,
            content_hash=content,
            dataset=golden.dataset,
        )
        warnings.extend(_note_golden_set(store, golden.dataset, found.rows))
        return True

    if not load.options.dry_run:
        folder = f"datasets/{golden.dataset}"
        originals = _keep_original(load, golden.original, folder, dataset=golden.dataset)
        if not _write_source(load, [kept, *originals], write):
            return
        load.before.golden_sets[golden.dataset] = content
        load.before.queries[golden.dataset] = {row.query_id: row.has_labels for row in found.rows}
    load.report.golden_sets.append(golden.dataset)
    load.report.warnings += warnings
    _report_problems(load, found.problems)


def _is_settled(
    load: Load, con: Connection, dataset: str | None, delivered: str, stored: str | None, path: Path
) -> bool:
    """Asked inside the transaction: whether it was forgotten, or another process was first with the same bytes."""
    if was_forgotten_meanwhile(load, con, dataset):
        return True
    if load.is_taken(delivered, stored, path=path):
        load.report.unchanged += 1
        return True
    return False


def _write_source(load: Load, kept: Sequence[KeptFile], write: Callable[[Store], bool]) -> bool:
    """Write what is still new and keep its files; returns whether it was."""
    with load.project.write() as store:
        with transaction(store.con):
            load.keeping.begin_batch(store.con)
            is_written = write(store)
            if is_written and load.options.keeps:
                load.keeping.place(store.con, kept)
        load.keeping.confirm()
    for one in kept:
        load.keeping.discard(one.name)
    return is_written


def _read_golden_set(load: Load, golden: GoldenFile, content: str) -> tuple[GoldenSet, KeptFile]:
    """Its rows, and the staged file: as it came or without the questions."""
    kept = KeptFile(
        "golden_set", f"datasets/{golden.dataset}/{golden.path.name}", content, None, 0, golden.dataset
    )
    if load.options.no_text:
        read_golden_set(golden.path)
        kept = replace(kept, name=f"datasets/{golden.dataset}/queries{PACKED}")
        target = load.keeping.staged / kept.name
        problems = write_without_texts("golden_set", golden.path, target)
        found = GoldenSet(read_golden_set(target, inverted_spans=load.inverted_spans).rows, problems)
        return found, load.keeping.keep_staged(kept) if load.options.keeps else kept
    found = read_golden_set(golden.path, inverted_spans=load.inverted_spans)
    return found, load.keeping.keep(golden.path, kept) if load.options.keeps else kept


def _refuse_loss(load: Load, golden: GoldenFile, found: GoldenSet) -> None:
    """Raise InputRejected for a file that would remove more than a tenth of the queries in force or of their labels.

    A smaller loss is reported. A file that only looks like a golden set replaces none, whatever it contains.
    """
    options, known = load.options, load.before.queries.get(golden.dataset)
    if options.rebuilding or not known:
        return
    rows = {row.query_id: row.has_labels for row in found.rows}
    n_lost = len(known.keys() - rows.keys())
    labelled = [query_id for query_id in known if known[query_id]]
    n_unlabelled = sum(rows.get(query_id) is False for query_id in labelled)
    is_smaller = n_lost * 10 > len(known)
    has_fewer_labels = n_unlabelled * 10 > len(labelled)
    if found.rows and (
        options.replace_labels or (golden.is_declared and not is_smaller and not has_fewer_labels)
    ):
        if n_lost:
            load.tell_all([f"{golden.dataset}: {n_lost:,} of {len(known):,} queries in force are gone"])
        if n_unlabelled:
            load.tell_all(
                [
                    f"{golden.dataset}: {n_unlabelled:,} of {len(labelled):,} labelled queries have no labels now"
                ]
            )
        return
    bad_rows = f" ({count(len(found.problems), 'row')} cannot be read)" if found.problems else ""
    lost_queries = f"{n_lost:,} of the {len(known):,} queries in force"
    if has_fewer_labels and not is_smaller:
        lost_queries = f"the labels of {n_unlabelled:,} of the {len(labelled):,} labelled queries in force"
    reason = f"the golden set of {golden.dataset} would lose {lost_queries}{bad_rows}"
    if not golden.is_declared and not is_smaller and not has_fewer_labels:
        reason = (
            f"{golden.dataset} has a golden set already, and this file was not declared as one with --golden"
        )
    advice = (
        "add --replace-labels to replace it"
        if found.rows
        else f"`forget {golden.dataset}` removes a golden set"
    )
    if not options.replace_labels:
        runs = sum(dataset == golden.dataset for dataset in load.before.runs.datasets.values())
        path = golden.called or golden.path
        load.report.refused.append(f"{path}: {reason}. {count(runs, 'run')} would be scored again; {advice}.")
    raise InputRejected(f"{reason}; {advice}")


def load_archive(load: Load, archive: ArchiveFile) -> None:
    """Add this state of an archive, unless it is the newest already."""
    content = None
    name = (
        archive.chunker_version if archive.dataset is None else f"{archive.dataset}/{archive.chunker_version}"
    )
    try:
        delivered = content_hash(archive.path)
        known = load.before.archives.get((archive.dataset, archive.chunker_version))
        if load.is_taken(delivered, known, path=archive.path):
            load.report.unchanged += 1
            return
        content = load.hash_as_taken(delivered)
        lines, problems, kept = _read_archive(load, archive, content)
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

    def write(store: Store) -> bool:
        stored = current_archive_hash(store.con, archive.dataset, archive.chunker_version)
        if _is_settled(load, store.con, archive.dataset, delivered, stored, archive.path):
            return False
        write_archive(store, delivery)
        _take_off_record(store, content, dataset=archive.dataset)
        _add_quarantine(
            store,
            problems,
            content_hash=content,
            dataset=archive.dataset,
        )
        return True

    if not load.options.dry_run:
        if not _write_source(load, [kept], write):
            return
        load.before.archives[archive.dataset, archive.chunker_version] = content
    load.report.archives.append(name)
    _report_problems(load, problems)


def _read_archive(
    load: Load, archive: ArchiveFile, content: str
) -> tuple[Sequence[Line[ArchiveChunk]], list[Problem], KeptFile]:
    """Its chunks, and the staged file: as it came or without their texts."""
    folder = f"datasets/{archive.dataset}/inventories" if archive.dataset else "inventories"
    kept = KeptFile(
        "archive",
        f"{folder}/{archive.path.name}",
        content,
        None,
        0,
        archive.dataset,
        chunker_version=archive.chunker_version,
    )
    if load.options.no_text:
        kept = replace(kept, name=f"{folder}/{stem_of(archive.path)}{PACKED}")
        target = load.keeping.staged / kept.name
        problems = write_without_texts("archive", archive.path, target)
        lines = list(read_archive(target, inverted_spans=load.inverted_spans))
        return lines, problems, load.keeping.keep_staged(kept) if load.options.keeps else kept
    lines = list(read_archive(archive.path, inverted_spans=load.inverted_spans))
    problems = [problem_of(line, archive.path) for line in lines if line.record is None]
    return lines, problems, load.keeping.keep(archive.path, kept) if load.options.keeps else kept


def load_case_list(load: Load, file: CaseListFile) -> None:
    """Make this list the one that says which cases runs should hold, unless it is already."""
    content = None
    try:
        delivered = content_hash(file.path)
        if load.is_taken(delivered, load.before.case_lists.get(file.dataset), path=file.path):
            load.report.unchanged += 1
            return
        content = load.hash_as_taken(delivered)
        cases, kept = _read_case_list(load, file, content)
    except InputRejected as rejected:
        load.report.rejected.append(f"{file.dataset}/{FILE}")
        problem = _problem_of_rejection(file.path, rejected)
        _quarantine(load, [problem], content=content, dataset=file.dataset)
        return
    delivery = Delivery(
        part=CASES,
        path=str(file.path),
        content_hash=content,
        n_bytes=file.path.stat().st_size,
        n_rows=len(cases),
        n_quarantined=0,
        dataset_id=file.dataset,
    )

    def write(store: Store) -> bool:
        stored = current_list_hash(store.con, file.dataset)
        if _is_settled(load, store.con, file.dataset, delivered, stored, file.path):
            return False
        write_case_list(store, delivery, cases)
        _take_off_record(store, content, dataset=file.dataset)
        return True

    if not load.options.dry_run:
        if not _write_source(load, [kept], write):
            return
        load.before.case_lists[file.dataset] = content
    load.report.case_lists.append(file.dataset)


def _read_case_list(load: Load, file: CaseListFile, content: str) -> tuple[list[ExpectedCase], KeptFile]:
    """Its cases, and the staged file: as it came or by name alone."""
    cases = read_case_list(file.path)
    kept = KeptFile(CASES, f"datasets/{file.dataset}/{file.path.name}", content, None, 0, file.dataset)
    if load.options.no_text:
        kept = replace(kept, name=f"datasets/{file.dataset}/{CASES}{PACKED}")
        target = load.keeping.staged / kept.name
        write_without_texts(CASES, file.path, target)
        return read_case_list(target), load.keeping.keep_staged(kept) if load.options.keeps else kept
    return cases, load.keeping.keep(file.path, kept) if load.options.keeps else kept
