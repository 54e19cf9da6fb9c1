"""Inspect logs: .eval archives, whose members are packed with zstd, and the same as one JSON document."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import zstandard

from eval_pipeline.adapters._answers import answer_in, labels_in, question_in, retrieved_in
from eval_pipeline.adapters._head import Head, look_at
from eval_pipeline.adapters._json_items import Skeleton
from eval_pipeline.adapters._lines import document_items
from eval_pipeline.adapters._values import as_id, as_number, as_text, score_in_words, score_of, utc_text
from eval_pipeline.adapters.tool import (
    CERTAIN,
    LabelRow,
    Named,
    Page,
    Piece,
    ReadOptions,
    Remark,
    ResultRow,
    Row,
    RunSaid,
    Seen,
    Tool,
)
from eval_pipeline.bundle.files import LINE_BYTES
from eval_pipeline.bundle.lines import BadRow, decode
from eval_pipeline.errors import InputRejected
from eval_pipeline.words import count

HEADER, START = "header.json", "_journal/start.json"
SAMPLE = re.compile(r"samples/.+\.json\Z")
ZSTD = 93
_LOCAL = struct.Struct("<4s5H3I2H")
# What Inspect counts its letters as: correct, partial, incorrect, no answer.
LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}


def recognise(head: Head) -> Seen | None:
    """An archive with a header and samples; a document that says what was evaluated, how, and its samples."""
    if head.kind == "zip":
        with _archive(head.path) as archive:
            names = set(archive.namelist())
            return Seen(CERTAIN, _words(_header(archive))) if names & {HEADER, START} else None
    document = head.document
    if isinstance(document, dict) and isinstance(document.get("eval"), dict) and "status" in document:
        return Seen(CERTAIN, _words(document)) if "task" in document["eval"] else None
    return None


def _words(header: Row) -> str:
    spec = header.get("eval") or {}
    model = f", model {spec['model']}" if as_text(spec.get("model")) else ""
    return f"an Inspect log of task {spec.get('task')}{model}"


def read(path: Path, _options: ReadOptions) -> Iterator[Piece]:
    """A result per sample; epochs are runs of their own."""
    done: set[str] = set()
    if look_at(path).kind == "zip":
        with _archive(path) as archive:
            header = _header(archive)
            yield Named(dataset=_dataset(header))
            yield from _results(_members(archive), done)
    else:
        kept = Skeleton()
        yield from _results(_samples(path, kept), done)
        header = kept.document if isinstance(kept.document, dict) else {}
        yield Named(dataset=_dataset(header))
    yield RunSaid(_run(header))
    yield from _left(header, done)


def _results(samples: Iterator[Row | ResultRow], done: set[str]) -> Iterator[Piece]:
    for number, sample in enumerate(samples, start=1):
        if isinstance(sample, ResultRow):
            yield sample
            continue
        done.add(str(sample.get("id")))
        yield from _sample(sample, number)


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Opened once for all its members: opening reads the list of them."""
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise InputRejected(f"{path.name} cannot be read as an archive: {error}") from error
    with archive:
        yield archive


def _dataset(header: Row) -> str | None:
    found = (header.get("eval") or {}).get("dataset")
    return as_text(found.get("name")) if isinstance(found, dict) else None


def _header(archive: zipfile.ZipFile) -> Row:
    """The log without its samples; of a log that was not finished what was written when it began."""
    name = HEADER if HEADER in archive.namelist() else START
    try:
        found = decode(_unpacked(archive, name))
    except BadRow as bad:
        raise InputRejected(f"the log cannot be read: {name} in it is {bad.reason}") from bad
    return found if isinstance(found, dict) else {}


def _members(archive: zipfile.ZipFile) -> Iterator[Row | ResultRow]:
    for number, name in enumerate(filter(SAMPLE.match, archive.namelist()), start=1):
        try:
            found = decode(_unpacked(archive, name))
        except (BadRow, InputRejected) as bad:
            yield ResultRow({}, number, reason=f"{name}: {bad}")
            continue
        yield found if isinstance(found, dict) else ResultRow({}, number, reason=f"{name} is no object")


def _unpacked(archive: zipfile.ZipFile, name: str) -> bytes:
    """A member's bytes; Python's own module reads no zstd before 3.14."""
    try:
        info = archive.getinfo(name)
        if info.file_size > LINE_BYTES:
            raise InputRejected(f"{name} is larger than {LINE_BYTES >> 20} MiB")
        if info.compress_type != ZSTD:
            return archive.read(info)
        file = cast(BinaryIO, archive.fp)
        file.seek(info.header_offset)
        fields = _LOCAL.unpack(file.read(_LOCAL.size))
        file.seek(fields[-2] + fields[-1], 1)
        packed = file.read(info.compress_size)
        unpacked = zstandard.ZstdDecompressor().stream_reader(packed).read(LINE_BYTES + 1)
    except (zipfile.BadZipFile, zstandard.ZstdError, OSError, KeyError, struct.error, RuntimeError) as error:
        raise InputRejected(f"{name} cannot be unpacked: {error}") from error
    if len(unpacked) > LINE_BYTES:
        raise InputRejected(f"{name} unpacks to more than {LINE_BYTES >> 20} MiB")
    return unpacked


def _samples(path: Path, kept: Skeleton) -> Iterator[Row | ResultRow]:
    for place, number, sample in document_items(path, ("samples",), ("reductions",), skeleton=kept):
        if place == ("samples",):
            yield (
                sample
                if isinstance(sample, dict)
                else ResultRow({}, number + 1, reason="a sample is an object")
            )


def _sample(sample: Row, number: int) -> Iterator[Piece]:
    query_id, question = as_id(sample.get("id")), question_in(sample.get("input"))
    result: Row = {"query_id": query_id, **_result(sample)}
    labels = labels_in(sample.get("metadata"))
    target = sample.get("target")
    reference = as_text(target) or next((one for one in target if as_text(one)), None) if target else None
    if reference:
        labels["reference"] = reference
    yield LabelRow({"query_id": query_id, "query": question, **labels}, number)
    epoch = sample.get("epoch") if isinstance(sample.get("epoch"), int) else 1
    yield ResultRow(result, number, epoch=max(1, epoch or 1), question=question)


def _result(sample: Row) -> Row:
    error = sample.get("error")
    found: Row = {}
    if error:
        text = error.get("message") if isinstance(error, Mapping) else error
        found["error"] = as_text(text) or "error"
    else:
        completion = (sample.get("output") or {}).get("completion")
        found |= answer_in(completion) or (
            {"answer": {"text": completion}} if isinstance(completion, str) else {}
        )
        for place in ("metadata", "store"):
            about = sample.get(place)
            if "hits_top_k" not in found:
                found |= retrieved_in(about)
            cited = answer_in({"citations": about.get("citations")}) if isinstance(about, Mapping) else {}
            found["answer"] = {**cited.get("answer", {}), **found.get("answer", {})}
    seconds = as_number(sample.get("total_time"))
    if seconds is not None:
        found["latency_ms"] = {"total": seconds * 1000}
    scores = dict(_scores(sample.get("scores") or {}))
    return found | ({"scores": scores} if scores else {})


def _scores(scores: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """A score under its scorer's name; of several values those behind a dot."""
    for scorer, score in scores.items():
        if not isinstance(score, Mapping):
            continue
        value, reason = score.get("value"), score.get("explanation")
        if isinstance(value, Mapping):
            for name, one in value.items():
                yield f"{scorer}.{name}", score_in_words(one, LETTERS)
        elif isinstance(value, list):
            for place, one in enumerate(value):
                yield f"{scorer}.{place}", score_in_words(one, LETTERS)
        else:
            yield scorer, score_in_words(value, LETTERS, reason=as_text(reason))


def _run(header: Row) -> Row:
    spec = header.get("eval") or {}
    revision = spec.get("revision")
    scores: Row = {}
    for one in (header.get("results") or {}).get("scores") or []:
        for metric, value in (one.get("metrics") or {}).items():
            name = _score_name(one, metric)
            # A log with several reducers of its epochs says each metric once for each.
            name = f"{name}/{one.get('reducer')}" if name in scores else name
            scores[name] = score_of(value.get("value") if isinstance(value, Mapping) else value)
    found: Row = {
        "created_at": utc_text(spec.get("created")),
        "commit_hash": as_text(revision.get("commit")) if isinstance(revision, dict) else None,
        "config": {"llm_model": spec["model"]} if as_text(spec.get("model")) else None,
        "scores": scores or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _score_name(one: Mapping[str, Any], metric: str) -> str:
    name, scorer = one.get("name"), one.get("scorer")
    return f"{scorer if name == scorer or name is None else f'{scorer}.{name}'}/{metric}"


def _left(header: Row, done: set[str]) -> Iterator[Piece]:
    """Samples that the log promises and does not hold."""
    dataset = (header.get("eval") or {}).get("dataset")
    promised = [str(one) for one in dataset.get("sample_ids") or []] if isinstance(dataset, dict) else []
    left = [one for one in promised if one not in done]
    for query_id in left:
        yield LabelRow({"query_id": query_id})
    status = header.get("status", "started")
    if status != "success" or left:
        yield Remark(
            f"the log's status is {status!r}, and {count(len(left), 'sample')} of {len(promised):,} "
            f"are not in it: "
            "the run is incomplete"
        )


PAGE = Page(
    title="an Inspect log",
    file="A log in `logs/`, `.eval` or `.json`. The package need not be installed.",
    gives=(
        "answers (`output.completion`), errors, total times",
        (
            "hits where the solver wrote them into `metadata` or `store` under a usual name "
            "(`retrieved`, `retrieved_ids`, `hits`, `documents`)"
        ),
        (
            "every score: `<scorer>`, of several values `<scorer>.<name>`; letters (C, P, I, N) count "
            "1, 0.5, 0, 0, unless `[scores.<scorer>] labels` says otherwise; NaN is unscored"
        ),
        "`target` as the model answer; labels from `metadata.expected_chunk_ids` and `expected_doc_ids`",
        "epochs as runs `x`, `x.e2`, …, each a replicate of the first",
        (
            "model, time and commit of the run; the metrics of the log as its scores, those of a second "
            "reducer of epochs as `<scorer>/<metric>/<reducer>`"
        ),
    ),
    cannot=("conversations as such: the last message of the user is the question", "transcripts of events"),
    ids="the sample's `id`",
    notes=(
        "A sample that failed is an error, and has no scores.",
        (
            "A log that was cancelled or failed loads as an incomplete run: the samples that it lacks "
            "are missing queries."
        ),
        "The dataset is the log's own, unless `--dataset` says otherwise.",
    ),
    example="2026-11-19_rag.eval",
)
TOOL = Tool("inspect", PAGE, recognise, read)
