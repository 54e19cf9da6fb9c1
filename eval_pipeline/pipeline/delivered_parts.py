"""The parts of a run's folder, read: rows, problems, and how much memory they hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from eval_pipeline.errors import InputRejected
from eval_pipeline.ingest.extractions import read_extractions
from eval_pipeline.ingest.inverted_spans import ERROR, InvertedSpans
from eval_pipeline.ingest.parts import problem_of, read_index_report, read_spot_checks
from eval_pipeline.ingest.problems import Problem
from eval_pipeline.ingest.result_tables import ResultsBlock
from eval_pipeline.ingest.results import read_results
from eval_pipeline.store.parts import PartDelivery


def read_part(
    part: str,
    path: Path,
    content: str,
    *,
    run_id: str,
    in_memory: int,
    called: Path | None = None,
    inverted_spans: InvertedSpans = ERROR,
) -> PartDelivery:
    """One part; results whose rows hold more than `in_memory` bytes are read while they are written.

    `called` is the file that was delivered, where it is another than the one to be read.
    """
    named = called or path
    delivery = PartDelivery(part=part, path=str(named), content_hash=content, n_bytes=named.stat().st_size)
    if part == "results":
        delivery.blocks = _blocks_of(_ResultsFile(path, run_id, named, inverted_spans), in_memory)
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
    elif part == "index_report":
        try:
            delivery.report = read_index_report(path)
        except InputRejected as rejected:
            if rejected.field is None:
                raise
            delivery.problems = [problem_of_rejection(named, rejected, run_id=run_id)]
    return delivery


@dataclass(frozen=True)
class _ResultsFile:
    """The blocks of a file too large for memory; it can be read again when its batch has to be written again."""

    path: Path
    run_id: str
    called: Path
    inverted_spans: InvertedSpans

    def __iter__(self) -> Iterator[ResultsBlock]:
        return read_results(
            self.path, run_id=self.run_id, called=self.called, inverted_spans=self.inverted_spans
        )


def _blocks_of(file: _ResultsFile, in_memory: int) -> list[ResultsBlock] | _ResultsFile:
    """The blocks themselves while they are few; what a packed file holds shows only when it is read."""
    if file.path.stat().st_size > in_memory:
        return file
    blocks: list[ResultsBlock] = []
    size = 0
    for block in file:
        blocks.append(block)
        size += block.nbytes
        if size > in_memory:
            return file
    return blocks


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


def weight_of(part: PartDelivery) -> int:
    """Bytes that the part holds in memory; a packed file's own size says little."""
    if not isinstance(part.blocks, list):
        return part.n_bytes
    return max(part.n_bytes, sum(int(block.nbytes) for block in part.blocks))


def problem_of_rejection(path: Path, rejected: InputRejected, *, run_id: str | None = None) -> Problem:
    return Problem(
        path=str(path),
        reason=rejected.reason,
        line=rejected.line,
        run_id=run_id,
        field=rejected.field,
        text=rejected.text,
    )
