"""Rows without their texts, by what their fields are declared to hold: for one load, or for good."""

# `load --no-text` leaves out LEFT_OUT, `forget --text` takes every kind. What stays in the place of a text gives the
# numbers that the text gave, as far as they do not depend on its words.

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from eval_pipeline.bundle.extractions import _read_case, _read_expected_case, has_failed
from eval_pipeline.bundle.golden import _golden_lines
from eval_pipeline.bundle.lines import Line, problem_of
from eval_pipeline.bundle.packed_lines import write_numbered
from eval_pipeline.bundle.parts import (
    each_line,
    read_archive,
    read_judge_requests,
    read_judgements,
    read_spot_checks,
)
from eval_pipeline.bundle.problems import Problem
from eval_pipeline.bundle.results import read_result
from eval_pipeline.bundle.scores import _full_scores
from eval_pipeline.metrics import find_discrepancies, flatten_fields
from eval_pipeline.records import (
    FORGOTTEN,
    KINDS,
    Answer,
    Discrepancy,
    Evaluation,
    ExtractionCase,
    JudgeConfig,
    Judgement,
    JudgementStatus,
    Kind,
    Record,
    Result,
    Run,
    RunConfig,
    RunScore,
    Text,
    Tokens,
    texts_of,
)

# Labels are needed to score runs that have their texts, and nobody outside the project has said them.
LEFT_OUT: Final[tuple[Kind, ...]] = ("passage", "words")
PASSAGES: Final[tuple[Kind, ...]] = ("passage",)
Document = dict[str, Any]


# What a judge's answer comes to without its words: (ask, status, answer, mark) → status, and an answer that holds no
# more than its verdict.
ReadJudgement = Callable[[str, str, str | None, str], tuple[str, str | None]]


@dataclass(frozen=True)
class Removal:
    """The kinds of texts that go, which citations are ids and stay, and who reads what a judge answered."""

    kinds: Collection[Kind]
    is_id: Callable[[str], bool]
    read: ReadJudgement | None = None


def _removal_on_load(ids: Collection[str], read: ReadJudgement | None) -> Removal:
    """A citation of one word is an id, and so is one among these, or among the chunks of its own row."""
    return Removal(LEFT_OUT, lambda text: text in ids or len(text.split()) < 2, read)


def removal_for_good(ids: Collection[str], read: ReadJudgement | None = None) -> Removal:
    """Every text; of citations nothing stays but what is known as an id elsewhere."""
    return Removal(KINDS, lambda text: text in ids, read)


def _without_texts(record: Record, removal: Removal) -> None:
    if isinstance(record, ExtractionCase):
        _compare_documents(record)
    if isinstance(record, Judgement) and removal.read:
        status, record.raw = removal.read(record.ask, record.status, record.raw, FORGOTTEN)
        record.status = cast(JudgementStatus, status)
    texts = texts_of(type(record))
    for name in record.__struct_fields__:
        value, text = getattr(record, name), texts.get(name)
        if text is None:
            for one in _inside(value):
                if isinstance(one, Record):
                    _without_texts(one, removal)
        elif value is not None and text.kind in removal.kinds:
            if isinstance(record, Answer) and value.strip():
                record.text_withheld = True
            setattr(record, name, _left_of(value, text, removal))


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else [value]


def _left_of(value: Any, text: Text, removal: Removal) -> Any:
    """What stays where the text was. Blank stays blank, because being blank means something."""
    match text.stays:
        case "mark" if isinstance(value, list):
            return [_mark(one) for one in value]
        case "mark":
            return _mark(value)
        case "fields":
            return dict.fromkeys(flatten_fields(value), FORGOTTEN)
        case "number":
            # A score in words may be any text; false counts as no score all the same.
            return value if isinstance(value, int | float) else False
        case "word":
            # A label such as C is what a score is; what says more than one word may say anything.
            return value if isinstance(value, int | float) or removal.is_id(value) else FORGOTTEN
        case "id":
            return value if not value or removal.is_id(value) else None
        case "verdict":
            return value if removal.read else None
        case "nothing":
            return value if isinstance(value, str) and not value.strip() else None


def _mark(text: str) -> str:
    return FORGOTTEN if text.strip() else text


def _compare_documents(case: ExtractionCase) -> None:
    """Say which fields came out wrong, while that can be seen."""
    if case.discrepancies is None and not has_failed(case):
        differences = find_discrepancies(case.ground_truth, case.extracted)
        case.discrepancies = [Discrepancy(field=one.field, error_type=one.error_type) for one in differences]


_RUN_PARTS: Mapping[str, type[Record]] = {
    "": Run,
    "config": RunConfig,
    "config.judge": JudgeConfig,
    "config.judge_price_per_1k": Tokens,
    "evaluation": Evaluation,
}


def run_without_texts(document: Mapping[str, Any], run_id: str, *, place: str = "") -> dict[str, Any]:
    """A run.json that keeps what it is known by; under keys of its own only numbers, true and false.

    What else stands there becomes a mark of this run, so that two configurations do not look alike that were not.
    """
    known = {one.name for one in msgspec.structs.fields(_RUN_PARTS[place])}
    found: dict[str, Any] = {}
    for key, value in document.items():
        inner = f"{place}.{key}".lstrip(".")
        if isinstance(value, Mapping) and inner in _RUN_PARTS:
            found[key] = run_without_texts(value, run_id, place=inner)
        elif inner == "scores" and isinstance(value, Mapping):
            found[key] = _scores_without_texts(value, removal_for_good(()))
        elif key in known or value is None or isinstance(value, bool | int | float):
            found[key] = value
        else:
            found[key] = f"{FORGOTTEN} {run_id}"
    return found


def _scores_without_texts(scores: Mapping[str, Any], removal: Removal) -> dict[str, Any]:
    """What is said of a run as a whole: names, numbers, and of texts what is one word unless all of them go."""
    found = {}
    for name, score in _full_scores({"scores": dict(scores)})["scores"].items():
        record = msgspec.convert(score, RunScore)
        _without_texts(record, removal)
        found[name] = msgspec.to_builtins(record)
    return found


def run_on_load(document: str) -> str:
    """The document of a run as `load --no-text` takes it: what it says of itself but for the words of its scores."""
    said = json.loads(document)
    if not isinstance(said.get("scores"), dict):
        return document
    said["scores"] = _scores_without_texts(said["scores"], _removal_on_load((), None))
    return json.dumps(said, ensure_ascii=False)


def textless_hash(content_hash: str) -> str:
    """Names the same bytes taken in without their texts: another delivery than with them."""
    return hashlib.sha256(f"without texts: {content_hash}".encode()).hexdigest()


def rows_without_texts(part: str, source: Path, removal: Removal) -> Iterator[Line[Document]]:
    """The rows of a part as documents, on the lines that they came from."""
    for line in _ROWS[part](source, removal):
        if not isinstance(line.record, Record):
            yield line
            continue
        _without_texts(line.record, removal)
        yield replace(line, record=msgspec.to_builtins(line.record))


def write_without_texts(
    part: str,
    source: Path,
    target: Path,
    *,
    ids: Collection[str] = (),
    run_id: str | None = None,
    called: Path | None = None,
    read: ReadJudgement | None = None,
) -> list[Problem]:
    """Write a part to `target`; returns what of it could not be taken, without the text it had."""
    named = called or source

    def refused(line: Line[Any]) -> Problem:
        return replace(problem_of(line, named, run_id=run_id), text="")

    removal = _removal_on_load(ids, read)
    return write_numbered(target, rows_without_texts(part, source, removal), dict, refused)


def write_without_passages(part: str, source: Path, target: Path) -> None:
    """Write a part to `target` without what every version left out: what it reads like where that was done already."""
    removal = Removal(PASSAGES, lambda _: True)
    write_numbered(
        target, rows_without_texts(part, source, removal), dict, lambda line: problem_of(line, source)
    )


def _results(path: Path, removal: Removal) -> Iterator[Line[Any]]:
    """Results as documents: a judge's score that is no number is none in the record, and must stay one here."""
    return each_line(path, partial(_result_without_texts, removal))


def _result_without_texts(removal: Removal, row: Document) -> Document:
    record, _ = read_result(row)
    own = _chunks_of(record)
    _without_texts(record, replace(removal, is_id=lambda text: text in own or removal.is_id(text)))
    document: Document = msgspec.to_builtins(record)
    judge = row.get("judge")
    for name in ("groundedness", "correctness"):
        verdict = judge.get(name) if isinstance(judge, dict) else None
        if isinstance(verdict, dict) and verdict.get("score") is not None:
            score = verdict["score"]
            document["judge"][name]["score"] = score if isinstance(score, int | float) else False
    return document


def _chunks_of(result: Result) -> set[str]:
    cited = [one.chunk_id for one in (result.answer.references if result.answer else None) or []]
    return {*(hit.chunk_id for hit in result.hits_top_k or []), *(one for one in cited if one)}


_ROWS: Mapping[str, Callable[[Path, Removal], Iterable[Line[Any]]]] = {
    "golden_set": lambda path, _: _golden_lines(path),
    "cases": lambda path, _: each_line(path, _read_expected_case),
    "archive": lambda path, _: read_archive(path),
    "results": _results,
    "extractions": lambda path, _: each_line(path, _read_case),
    "judge_spot_check": lambda path, _: read_spot_checks(path),
    "judgements": lambda path, _: read_judgements(path),
    "requests": lambda path, _: read_judge_requests(path),
}
