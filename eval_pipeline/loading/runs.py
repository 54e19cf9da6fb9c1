"""Runs loaded in batches of about a second: read on other threads, written together."""

from __future__ import annotations

import datetime as dt
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from eval_pipeline.bundle.columns import ResultsBlock
from eval_pipeline.bundle.extractions import read_extractions
from eval_pipeline.bundle.files import content_hash, hold, read_ahead, stem_of
from eval_pipeline.bundle.layout import ADDED_PARTS, ORIGINAL, ROW_PARTS, RunFolder
from eval_pipeline.bundle.lines import problem_of
from eval_pipeline.bundle.near_misses import near_misses
from eval_pipeline.bundle.packed_lines import PACKED
from eval_pipeline.bundle.parts import (
    parse_time,
    read_index_report,
    read_run,
    read_run_document,
    read_spot_checks,
)
from eval_pipeline.bundle.problems import Problem, printable
from eval_pipeline.bundle.results import ERROR, InvertedSpans, read_results
from eval_pipeline.bundle.texts import run_on_load, write_without_texts
from eval_pipeline.errors import InputRejected
from eval_pipeline.formulas.polars.facts.judgements import without_words
from eval_pipeline.loading._dry_run import StoredRuns, check_runs, stored_runs
from eval_pipeline.loading._left_out import leave_out_runs, leave_out_written
from eval_pipeline.loading._write_parts import PartDelivery, read_added
from eval_pipeline.loading._write_runs import (
    RunDelivery,
    RunRejected,
    beside,
    compare_result_counts,
    known_parts,
    result_counts,
    write_runs,
)
from eval_pipeline.loading.context import Load, _keep_original, _quarantine, _report_problems
from eval_pipeline.loading.lint import _note_results
from eval_pipeline.records import Judgement, Record, Result, Run
from eval_pipeline.store.kept import KeptFile
from eval_pipeline.store.lock import yield_lock
from eval_pipeline.store.open import transaction

BATCH_BYTES = 48 << 20
BATCH_RUNS = 200
IN_MEMORY_BYTES = 48 << 20
AHEAD_BYTES = 64 << 20
# Parts in which a field that is written almost like one is told of.
_NEAR_MISSES: Mapping[str, type[Record]] = {"results": Result, "judgements": Judgement}
Entry = tuple[RunFolder, Run]
Progress = Callable[[int, int], None]


def read_part(
    part: str,
    path: Path,
    content: str,
    *,
    run_id: str,
    in_memory: int,
    called: Path | None = None,
    inverted_spans: InvertedSpans = ERROR,
    held: bytes | None = None,
) -> PartDelivery:
    """One part; results whose rows hold more than `in_memory` bytes are read while they are written.

    `called` is the file that was delivered, where it is another than the one to be read; `held` are the bytes to be
    read, where results were small enough to be held.
    """
    named = called or path
    delivery = PartDelivery(part=part, path=str(named), content_hash=content, n_bytes=named.stat().st_size)
    if part == "results":
        delivery.blocks = _blocks_of(_ResultsFile(path, run_id, named, inverted_spans), in_memory, held)
        if isinstance(delivery.blocks, list):
            delivery.problems = [problem for block in delivery.blocks for problem in block.problems]
    elif part == "extractions":
        delivery.cases = list(read_extractions(path))
        _reject_duplicate_cases(delivery)
        delivery.problems = [
            problem_of(line, named, run_id=run_id) for line in delivery.cases if line.record is None
        ]
    elif part == "judge_spot_check":
        delivery.checks = list(read_spot_checks(path))
        delivery.problems = [
            problem_of(line, named, run_id=run_id) for line in delivery.checks if line.record is None
        ]
    elif part in ADDED_PARTS:
        delivery.added = read_added(part, path)
        delivery.problems = [
            problem_of(line, named, run_id=run_id) for line in delivery.added if line.record is None
        ]
    elif part == "index_report":
        try:
            delivery.report = read_index_report(path)
        except InputRejected as rejected:
            if rejected.field is None:
                raise
            delivery.problems = [_problem_of_rejection(named, rejected, run_id=run_id)]
    return delivery


@dataclass
class _ResultsFile:
    """The blocks of a file too large for memory; it can be read again when its batch has to be written again.

    The first time goes on where reading had `begun` when it proved too large, `held_bytes` of blocks later.
    """

    path: Path
    run_id: str
    called: Path
    inverted_spans: InvertedSpans
    begun: Iterator[ResultsBlock] | None = None
    held_bytes: int = 0

    def __iter__(self) -> Iterator[ResultsBlock]:
        begun, self.begun = self.begun, None
        return self.blocks(None) if begun is None else begun

    def blocks(self, held: bytes | None) -> Iterator[ResultsBlock]:
        """The same from bytes that are in memory."""
        return read_results(
            self.path, held, run_id=self.run_id, called=self.called, inverted_spans=self.inverted_spans
        )


def _blocks_of(file: _ResultsFile, in_memory: int, held: bytes | None) -> list[ResultsBlock] | _ResultsFile:
    """The blocks themselves while they are few; what a packed file holds shows only when it is read."""
    if file.path.stat().st_size > in_memory:
        return file
    blocks: deque[ResultsBlock] = deque()
    size = 0
    rest = file.blocks(held)
    for block in rest:
        blocks.append(block)
        size += block.nbytes
        if size > in_memory:
            return replace(file, begun=_each_once(blocks, rest), held_bytes=size)
    return list(blocks)


def _each_once(blocks: deque[ResultsBlock], rest: Iterator[ResultsBlock]) -> Iterator[ResultsBlock]:
    """These blocks, none of them held any longer than it is needed, and the rest."""
    while blocks:
        yield blocks.popleft()
    yield from rest


def _reject_duplicate_cases(delivery: PartDelivery) -> None:
    first: dict[str, int] = {}
    for line in delivery.cases:
        if line.record is None:
            continue
        case_id = line.record.case_id
        if case_id in first:
            raise InputRejected(
                f"case_id {case_id!r} stands on lines {first[case_id]} and {line.number}: every case once",
                line=line.number,
                field="case_id",
                text=line.text,
            )
        first[case_id] = line.number


def _weight_of(part: PartDelivery) -> int:
    """Bytes that the part holds in memory; a packed file's own size says little."""
    if isinstance(part.blocks, _ResultsFile):
        return max(part.n_bytes, part.blocks.held_bytes)
    return max(part.n_bytes, sum(int(block.nbytes) for block in part.blocks))


def _problem_of_rejection(path: Path, rejected: InputRejected, *, run_id: str | None = None) -> Problem:
    return Problem(
        path=str(path),
        reason=rejected.reason,
        line=rejected.line,
        run_id=run_id,
        field=rejected.field,
        text=rejected.text,
    )


def _load_runs(load: Load, folders: Sequence[RunFolder], *, progress: Progress | None) -> None:
    """Take in what of these runs is new or changed; on request, stop with what was read written."""
    number = 0
    stored = load.before.runs
    if load.options.no_text and not load.options.dry_run:
        load.ids.update(_ids_of_words(load))
    for part, stretch in enumerate(_without_repeats(_in_order(load, folders))):
        if part and not load.options.dry_run:
            # Delivered twice by one load: the second is measured against what the first has left.
            stored = _look(load)
        for _ in _take_in(load, stretch, stored):
            number += 1
            if progress:
                progress(number, len(folders))
        if load.report.stopped:
            break
    if load.report.stopped:
        load.report.runs_left = len(folders) - number


def _ids_of_words(load: Load) -> list[str]:
    """The chunks of archives and labels whose ids look like words."""
    with load.project.read() as store:
        rows = store.con.execute(
            "select chunk_id from raw.chunk_ids where regexp_matches(chunk_id, '\\s') and chunk_key in ("
            "select chunk_key from raw.archive_chunks union all select chunk_key from labels.expected_chunks)"
        ).fetchall()
    return [chunk_id for (chunk_id,) in rows]


def _take_in(load: Load, stretch: Sequence[Entry], stored: StoredRuns) -> Iterator[None]:
    """Goes on after every run."""
    batch: list[RunDelivery] = []
    size = 0
    read = partial(_changed_parts, load, stored)
    with closing(read_ahead(stretch, read, weigh=_size_on_disk, budget=AHEAD_BYTES)) as ahead:
        for (_, run), found in zip(stretch, ahead, strict=True):
            if isinstance(found, Problem):
                load.report.rejected.append(run.run_id)
                _quarantine(load, [found], dataset=run.dataset)
            elif found is None:
                load.report.unchanged += 1
            else:
                batch.append(found)
                size += sum(_weight_of(part) for part in found.parts)
            if size >= BATCH_BYTES or len(batch) >= BATCH_RUNS:
                _write_batch(load, batch, stored)
                batch, size = [], 0
            yield
            if load.stop():
                load.report.stopped = True
                break
    _write_batch(load, batch, stored)


def _without_repeats(runs: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Stretches of runs, in order, in which no run stands twice."""
    stretch: dict[str, Entry] = {}
    for entry in runs:
        if entry[1].run_id in stretch:
            yield list(stretch.values())
            stretch = {}
        stretch[entry[1].run_id] = entry
    yield list(stretch.values())


def _size_on_disk(entry: Entry) -> int:
    """Bytes of a run's files; what is packed is taken for ten times as much."""
    return sum(
        path.stat().st_size * (1 if path.suffix in (".jsonl", ".json") else 10)
        for path in entry[0].parts.values()
        if path.is_file()
    )


def _look(load: Load) -> StoredRuns:
    with load.project.read() as store:
        return stored_runs(store.con)


def _in_order(load: Load, folders: Sequence[RunFolder]) -> list[Entry]:
    """Runs by time, place and name, so that keys and partitions follow it; those without a time come last."""
    readable: list[Entry] = []
    for folder in folders:
        try:
            readable.append((folder, read_run(folder.run_file)))
        except InputRejected as rejected:
            load.report.rejected.append(printable(folder.path.name))
            path = folder.called.get("run", folder.run_file)
            _quarantine(load, [_problem_of_rejection(path, rejected, run_id=folder.path.name)])
    # A run delivered twice has one place, so that its deliveries stay in the order of the paths.
    times = {
        run.run_id: parse_time(run.created_at) if run.created_at else dt.datetime.max for _, run in readable
    }
    ordered = sorted(readable, key=lambda entry: (times[entry[1].run_id], entry[0].place, entry[1].run_id))
    return leave_out_runs(load, ordered)


def _changed_parts(load: Load, stored: StoredRuns, entry: Entry) -> RunDelivery | Problem | None:
    """What of a run is new or changed, read and kept; or why it cannot be taken. Other threads call this."""
    folder, run = entry
    if load.options.no_text and run.scores:
        folder = _without_words_of_scores(load, folder, run)
        run = read_run(folder.run_file)
    known = stored.parts.get(run.run_id, {})
    parts: list[PartDelivery] = []
    path = folder.run_file
    held = {path: hold(path) for part, path in folder.parts.items() if part == "results"}
    try:
        for part, path in {"run": folder.run_file, **folder.parts}.items():
            delivered = content_hash(path, held.get(path))
            if part in ROW_PARTS:
                if not load.is_taken(delivered, known.get(part), path=path, beside=beside(known, part)):
                    parts.append(_read_part(load, folder, run, part, delivered, held.get(path)))
            elif delivered != known.get(part) or path in load.options.read_again:
                found = read_part(part, path, delivered, run_id=run.run_id, in_memory=IN_MEMORY_BYTES)
                parts.append(replace(found, path=str(folder.called.get(part, path))))
    except InputRejected as rejected:
        load.keeping.discard(f"runs/{run.run_id}")
        return _problem_of_rejection(folder.called.get(part, path), rejected, run_id=run.run_id)
    if not parts:
        return None
    if load.options.keeps:
        load.staged[run.run_id] = _keep_run(load, folder, run, parts, held)
    return RunDelivery(run, read_run_document(folder.run_file), parts, folder.place)


def _without_words_of_scores(load: Load, folder: RunFolder, run: Run) -> RunFolder:
    """The run with a document in which its scores are numbers and labels; it is written to where it is staged."""
    place = load.keeping.staged / "said" / run.run_id
    place.mkdir(parents=True, exist_ok=True)
    (place / folder.run_file.name).write_text(run_on_load(read_run_document(folder.run_file)), "utf-8")
    called = {"run": folder.called.get("run", folder.run_file), **folder.called}
    return replace(folder, path=place, called=called)


def _read_part(
    load: Load, folder: RunFolder, run: Run, part: str, delivered: str, held: bytes | None
) -> PartDelivery:
    """A part as it came; or written without its texts first, to where it is staged, and read from there."""
    path = folder.parts[part]
    called = folder.called.get(part, path)
    content = load.hash_as_taken(delivered)
    problems = list(folder.problems.get(part, []))
    if part in _NEAR_MISSES and part not in folder.called:
        load.tell_all(near_misses(path, _NEAR_MISSES[part], held))
    if load.options.no_text:
        target = load.keeping.staged / f"runs/{run.run_id}/{part}{PACKED}"
        problems += write_without_texts(
            part, path, target, ids=load.ids, run_id=run.run_id, called=called, read=without_words
        )
        problems = [replace(problem, text="") for problem in problems]
        path, held = target, None
    found = read_part(
        part,
        path,
        content,
        run_id=run.run_id,
        in_memory=IN_MEMORY_BYTES,
        called=called,
        inverted_spans=load.inverted_spans,
        held=held,
    )
    found.beforehand = problems
    found.problems = [*problems, *found.problems]
    return found


def _keep_run(
    load: Load,
    folder: RunFolder,
    run: Run,
    parts: Sequence[PartDelivery],
    held: Mapping[Path, bytes | None],
) -> list[KeptFile]:
    """Stage the parts that are new, and the document of the run, without which they are no delivery."""

    def named(part: str, ending: str, content: str) -> KeptFile:
        name = f"runs/{run.run_id}/{part}{ending}"
        return KeptFile(part, name, content, None, 0, run.dataset, run.run_id, place=folder.place or None)

    kept: list[KeptFile] = []
    for part in parts:
        if part.part == "run":
            continue
        if load.options.no_text and part.part in ROW_PARTS:
            kept.append(load.keeping.keep_staged(named(part.part, PACKED, part.content_hash)))
            continue
        path = folder.parts[part.part]
        ending = path.name.removeprefix(stem_of(path))
        kept.append(load.keeping.keep(path, named(part.part, ending, part.content_hash), held.get(path)))
    document = named("run", ".json", content_hash(folder.run_file))
    kept += _keep_original(
        load, folder.original, f"runs/{run.run_id}", dataset=run.dataset, run_id=run.run_id
    )
    return [*kept, load.keeping.keep(folder.run_file, document)]


def _still_new(load: Load, batch: Sequence[RunDelivery], stored: StoredRuns) -> list[RunDelivery]:
    """Without what another process has written since the batch was read."""
    changed: list[RunDelivery] = []
    for delivery in batch:
        known = stored.parts.get(delivery.run.run_id, {})
        parts = [
            part
            for part in delivery.parts
            if part.content_hash not in (known.get(part.part), *beside(known, part.part))
            or Path(part.path) in load.options.read_again
        ]
        if parts:
            changed.append(replace(delivery, parts=parts))
        else:
            load.report.unchanged += 1
    return changed


def _write_batch(load: Load, batch: Sequence[RunDelivery], stored: StoredRuns) -> None:
    """Write a batch; a run that turns out to be unusable is left out and the others are written."""
    remaining = list(batch)
    replaced: set[str] = set()
    while remaining:
        try:
            if load.options.dry_run:
                replaced, remarks = check_runs(remaining, stored)
                load.tell_all(remarks)
            else:
                remaining, replaced = _write(load, remaining)
            break
        except RunRejected as found:
            load.report.rejected.append(found.run_id)
            path = Path(found.part.path)
            _quarantine(
                load,
                [_problem_of_rejection(path, found.rejected, run_id=found.run_id)],
                content=found.part.content_hash,
                kept=load.staged.pop(found.run_id, ()) if found.may_be_kept else (),
            )
            remaining = [delivery for delivery in remaining if delivery.run.run_id != found.run_id]
    for delivery in batch:
        if load.staged.pop(delivery.run.run_id, None):
            load.keeping.discard(f"runs/{delivery.run.run_id}")
    _report_batch(load, remaining, replaced)
    if batch and not load.options.dry_run:
        yield_lock()


def _write(load: Load, batch: Sequence[RunDelivery]) -> tuple[list[RunDelivery], set[str]]:
    """What was new and is written, and the runs among it that were there before."""
    run_ids = [delivery.run.run_id for delivery in batch]
    remarks: list[str] = []
    with load.project.write() as store:
        with transaction(store.con):
            load.keeping.begin_batch(store.con)
            stored = StoredRuns(known_parts(store.con, run_ids), n_results=result_counts(store.con))
            new = _still_new(load, leave_out_written(load, store.con, batch), stored)
            if new:
                write_runs(store, new)
                if not load.options.rebuilding:
                    remarks = compare_result_counts(new, stored.n_results)
                run_ids = [delivery.run.run_id for delivery in new]
                load.report.warnings += _note_results(store, run_ids)
                load.keeping.place(store.con, _to_keep(load, new))
        load.keeping.confirm()
    load.tell_all(remarks)
    return new, {delivery.run.run_id for delivery in new} & stored.parts.keys()


def _to_keep(load: Load, deliveries: Sequence[RunDelivery]) -> list[KeptFile]:
    """The staged files of what is written; a part that another process has written since is kept by that one."""
    files: list[KeptFile] = []
    for delivery in deliveries:
        written = {"run", ORIGINAL, *(part.part for part in delivery.parts)}
        for one in load.staged.get(delivery.run.run_id, ()):
            if one.part in written:
                files.append(one)
            else:
                load.keeping.discard(one.name)
    return files


def _report_batch(load: Load, written: Sequence[RunDelivery], replaced: set[str]) -> None:
    for delivery in written:
        load.report.runs.append(delivery.run.run_id)
        if delivery.run.run_id in replaced:
            load.report.replaced.append(delivery.run.run_id)
        for part in delivery.parts:
            _report_problems(load, part.problems)
            if part.part == "results":
                load.report.results += part.n_rows
