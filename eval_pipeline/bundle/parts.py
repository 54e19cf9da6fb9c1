"""The smaller parts of a bundle: run.json, archives, index reports, spot checks, judgements."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from eval_pipeline.bundle.files import HELD_BYTES, line_blocks, open_unpacked
from eval_pipeline.bundle.lines import BOM, BadRow, Line, _to_record, decode_object, read_lines
from eval_pipeline.bundle.problems import _first_text_fault, _id_fault, _refuse_too_many, shorten
from eval_pipeline.bundle.results import (
    DROP,
    ERROR,
    InvertedSpans,
    _span_fault,
    _straight,
    _with_joined_heading,
)
from eval_pipeline.bundle.scores import _full_scores
from eval_pipeline.errors import InputRejected
from eval_pipeline.records import ArchiveChunk, IndexReport, Judgement, JudgeRequest, Record, Run, SpotCheck

R = TypeVar("R", bound=Record)
T = TypeVar("T")
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:@+-]{0,126}[A-Za-z0-9])?\Z")
LARGEST_COUNT = 1_000_000_000
JSON_BYTES = 64 << 20


def name_fault(value: str) -> str | None:
    """Why `value` cannot name a run, dataset or chunker version, or None."""
    if NAME.match(value) and ".." not in value:
        return None
    return f"{value!r} cannot be a name: 1 to 128 of A-Z a-z 0-9 . _ : @ + -, first and last a letter or digit, no '..'"


def read_run(path: Path) -> Run:
    """run.json, checked; anything wrong with it rejects the run."""
    run = _read_json(path, lambda row: _to_record(_full_scores(row), Run))
    for field in ("run_id", "dataset", "replaces", "replicate_of"):
        value = getattr(run, field)
        fault = name_fault(value) if value is not None else None
        if fault:
            raise InputRejected(fault, field=field, text=str(value))
    if run.run_id != path.parent.name:
        raise InputRejected(
            f"run_id {run.run_id!r} is not the name of its folder {path.parent.name!r}",
            field="run_id",
            text=run.run_id,
        )
    chunker = run.config.chunker_version if run.config else None
    fault = name_fault(chunker) if chunker else None
    if fault:
        raise InputRejected(fault, field="config.chunker_version", text=chunker or "")
    for field, number in (
        ("attempt", run.attempt),
        ("config.top_k", run.config.top_k if run.config else None),
    ):
        if abs(number or 0) > LARGEST_COUNT:
            raise InputRejected(f"{number} is out of range", field=field)
    for field, parse in (("created_at", parse_time), ("night", parse_day)):
        value = getattr(run, field)
        if value is not None:
            try:
                parse(value)
            except ValueError as error:
                raise InputRejected(str(error), field=field, text=value) from error
    return run


def read_run_document(path: Path) -> str:
    """run.json as JSON on one line, with the keys that mean nothing to us."""
    with open_unpacked(path) as stream:
        return json.dumps(decode_object(stream.read().removeprefix(BOM)), ensure_ascii=False)


def parse_time(text: str) -> dt.datetime:
    """An ISO 8601 time as UTC without zone; without a zone it is UTC already."""
    try:
        time = dt.datetime.fromisoformat(text.strip())
        return time.astimezone(dt.UTC).replace(tzinfo=None) if time.tzinfo else time
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text!r} is no ISO 8601 time such as 2026-08-01T02:00:00Z") from error


def parse_day(text: str) -> dt.date:
    """A date, or the day of a time."""
    try:
        return dt.date.fromisoformat(text.strip())
    except ValueError:
        return parse_time(text).date()


def read_index_report(path: Path) -> IndexReport:
    """index_report.json, checked."""
    return _read_json(path, _index_report)


def _index_report(row: dict[str, Any]) -> IndexReport:
    report = _to_record(row, IndexReport)
    named = [(f"docs[{n}].doc_id", one.doc_id) for n, one in enumerate(report.docs or [])]
    for number, chunk in enumerate(report.chunks or []):
        named += [(f"chunks[{number}].doc_id", chunk.doc_id), (f"chunks[{number}].chunk_id", chunk.chunk_id)]
    for place, value in named:
        fault = _id_fault(value) if value is not None else None
        if fault:
            raise BadRow(place, fault)
    for number, document in enumerate(report.docs or []):
        if abs(document.n_chunks or 0) > LARGEST_COUNT:
            raise BadRow(f"docs[{number}].n_chunks", f"is {document.n_chunks}: no document has that many")
    return report


def _read_json(path: Path, read: Callable[[dict[str, Any]], R]) -> R:
    with open_unpacked(path) as stream:
        data = stream.read(JSON_BYTES + 1)
    if len(data) > JSON_BYTES:
        raise InputRejected(f"{path.name} is larger than {JSON_BYTES >> 20} MiB")
    try:
        return read(decode_object(data.removeprefix(BOM)))
    except BadRow as bad:
        raise InputRejected(
            bad.reason, field=bad.field, text=shorten(data.decode("utf-8", "replace"))
        ) from bad


def read_archive(path: Path, *, inverted_spans: InvertedSpans = ERROR) -> Iterator[Line[ArchiveChunk]]:
    """The chunks of one chunker version."""
    return each_line(path, partial(_read_archive_chunk, inverted_spans=inverted_spans))


def _read_archive_chunk(row: dict[str, Any], *, inverted_spans: InvertedSpans) -> ArchiveChunk:
    chunk = _to_record(_with_joined_heading(row), ArchiveChunk)
    if inverted_spans == DROP:
        chunk.source_spans = _straight(chunk.source_spans)
    for field, value in (("chunk_id", chunk.chunk_id), ("doc_id", chunk.doc_id)):
        fault = _id_fault(value)
        if fault:
            raise BadRow(field, fault)
    for number, span in enumerate(chunk.source_spans or []):
        fault = _span_fault(span.start, span.end) or (
            _id_fault(span.doc_id) if span.doc_id is not None else None
        )
        if fault:
            raise BadRow(f"source_spans[{number}]", fault)
    return chunk


def read_spot_checks(path: Path) -> Iterator[Line[SpotCheck]]:
    """The answers of a run that were judged twice."""
    return each_line(path, _read_spot_check)


def _read_spot_check(row: dict[str, Any]) -> SpotCheck:
    """Scores are taken whatever they are; the rest is checked."""
    verdicts = {side: row[side] for side in ("first", "second") if isinstance(row.get(side), dict)}
    without_scores = {
        side: {name: value for name, value in verdict.items() if name != "score"}
        for side, verdict in verdicts.items()
    }
    check = _to_record({**row, **without_scores}, SpotCheck)
    fault = _id_fault(check.query_id) if check.query_id is not None else None
    if fault:
        raise BadRow("query_id", fault)
    for side, verdict in verdicts.items():
        text_fault = _first_text_fault(verdict.get("score"))
        if text_fault:
            raise BadRow(f"{side}.score", text_fault[1])
        getattr(check, side).score = verdict.get("score")
    return check


def read_judgements(path: Path) -> Iterator[Line[Judgement]]:
    """What judges said of the answers of a run."""
    return each_line(path, _read_judgement)


def _read_judgement(row: dict[str, Any]) -> Judgement:
    """What the judge answered is taken whatever it is; what names the judgement is checked."""
    judgement = _to_record({name: value for name, value in row.items() if value is not None}, Judgement)
    named = {name: getattr(judgement, name) for name in ("query_id", "ask", "judge", "request")}
    for name, value in named.items():
        fault = _id_fault(value) if value is not None else None
        if fault:
            raise BadRow(name, fault)
    for name in ("repeat", "attempts"):
        number = getattr(judgement, name)
        if number is not None and not 0 <= number <= LARGEST_COUNT:
            raise BadRow(name, f"is {number}: it counts from 0")
    return judgement


def read_judge_requests(path: Path) -> Iterator[Line[JudgeRequest]]:
    """What judges were sent."""
    return each_line(path, _read_judge_request)


def _read_judge_request(row: dict[str, Any]) -> JudgeRequest:
    sent = _to_record(row, JudgeRequest)
    fault = _id_fault(sent.request)
    if fault:
        raise BadRow("request", fault)
    return sent


def each_line(path: Path, read: Callable[[dict[str, Any]], T]) -> Iterator[Line[T]]:
    """Every line of a JSON Lines file, read by `read`."""
    blocks = line_blocks(path, most_bytes=HELD_BYTES)
    block = next(blocks, None)
    bad_rows = 0
    while block is not None:
        following = next(blocks, None)
        for line in read_lines(block, read, last_block=following is None):
            bad_rows += line.record is None
            _refuse_too_many(bad_rows)
            yield line
        block = following
