"""Delivered rows without their texts: left out by one load, or forgotten for good."""

# `forget` takes more away than `--no-text`: labels' texts, errors, documents, citations that are no ids.

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from eval_pipeline.bundle.extractions import has_failed, read_expected_case, read_extractions
from eval_pipeline.bundle.golden import golden_lines
from eval_pipeline.bundle.lines import Line, problem_of
from eval_pipeline.bundle.packed_lines import write_numbered
from eval_pipeline.bundle.parts import each_line, read_archive, read_spot_checks
from eval_pipeline.bundle.problems import Problem
from eval_pipeline.bundle.results import read_result
from eval_pipeline.metrics import find_discrepancies, flatten_fields
from eval_pipeline.records import (
    FORGOTTEN,
    ArchiveChunk,
    Citation,
    Discrepancy,
    ExpectedCase,
    ExtractionCase,
    GoldenRow,
    Judge,
    JudgeConfig,
    Record,
    Result,
    Run,
    RunConfig,
    SpotCheck,
    Tokens,
)


def result_without_texts(result: Result, citations: Collection[str]) -> Result:
    """A result whose citations are kept only where they are among these ids: a citation may be any text."""
    _remove_texts(result, claim=FORGOTTEN)
    for one in (result.answer.citations if result.answer else None) or []:
        one.citation = _known(one, citations)
    result.error = _mark(result.error)
    return result


def _mark(text: str | None) -> str | None:
    """Empty stays empty, because being empty means something."""
    return FORGOTTEN if text and text.strip() else text


def _known(one: Citation, citations: Collection[str]) -> str | None:
    return one.citation if not one.citation or one.citation in citations else None


def _marks(texts: list[str] | None, mark: str = FORGOTTEN) -> list[str] | None:
    return None if texts is None else [mark] * len(texts)


def case_without_texts(case: ExtractionCase) -> ExtractionCase:
    """A case whose documents became counts: how many fields there should be, and which of them came out wrong."""
    if has_failed(case):
        return ExtractionCase(
            case_id=case.case_id, total_gt_fields=case.total_gt_fields, error=_mark(case.error)
        )
    found = case.discrepancies
    if found is None:
        differences = find_discrepancies(case.ground_truth, case.extracted)
        found = [Discrepancy(field=one.field, error_type=one.error_type) for one in differences]
    total = case.total_gt_fields
    return ExtractionCase(
        case_id=case.case_id,
        total_gt_fields=total if total is not None else len(flatten_fields(case.ground_truth)),
        discrepancies=[Discrepancy(field=one.field, error_type=one.error_type) for one in found],
    )


def expected_case_without_texts(case: ExpectedCase) -> ExpectedCase:
    """An expected case keeps its name."""
    return ExpectedCase(case_id=case.case_id)


def check_without_texts(check: SpotCheck) -> SpotCheck:
    """A spot check keeps the scores that are numbers."""
    for verdict in (check.first, check.second):
        if verdict is not None and not isinstance(verdict.score, int | float):
            verdict.score = None
    return check


def golden_without_texts(row: GoldenRow) -> GoldenRow:
    """A golden row keeps its labels, and how many texts an answer must and must not contain."""
    row.query = None
    row.must_contain = _marks(row.must_contain)
    row.forbidden = _marks(row.forbidden)
    for support in row.gold_supports or []:
        support.snippets = _marks(support.snippets)
    return row


def chunk_without_text(chunk: ArchiveChunk) -> ArchiveChunk:
    """An archived chunk keeps its place."""
    chunk.text = None
    return chunk


_RUN_PARTS: Mapping[str, type[Record]] = {
    "": Run,
    "config": RunConfig,
    "config.judge": JudgeConfig,
    "config.judge_price_per_1k": Tokens,
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
        elif key in known or value is None or isinstance(value, bool | int | float):
            found[key] = value
        else:
            found[key] = f"{FORGOTTEN} {run_id}"
    return found


def textless_hash(content_hash: str) -> str:
    """Names the same bytes taken in without their texts: another delivery than with them."""
    return hashlib.sha256(f"without texts: {content_hash}".encode()).hexdigest()


def write_without_texts(
    part: str, source: Path, target: Path, *, run_id: str | None = None, called: Path | None = None
) -> list[Problem]:
    """Write a part to `target`; returns what of it could not be taken, without the text it had."""
    named = called or source

    def refused(line: Line[Any]) -> Problem:
        return replace(problem_of(line, named, run_id=run_id), text="")

    return write_numbered(target, _ROWS[part](source), _as_document, refused)


def _as_document(row: Record | dict[str, Any]) -> dict[str, Any]:
    if isinstance(row, dict):
        return row
    for name in ("query", "text"):
        if hasattr(row, name):
            setattr(row, name, None)
    document: dict[str, Any] = msgspec.to_builtins(row)
    return document


def _results(path: Path) -> Iterator[Line[Any]]:
    """Results as documents: a judge's score that is no number is none in the record, and must stay one here."""
    return each_line(path, _result_without_texts)


def _result_without_texts(row: dict[str, Any]) -> Any:
    record, _ = read_result(row)
    _remove_texts(record)
    document: dict[str, Any] = msgspec.to_builtins(record)
    judge = row.get("judge")
    for name in ("groundedness", "correctness"):
        verdict = judge.get(name) if isinstance(judge, dict) else None
        if isinstance(verdict, dict) and verdict.get("score") is not None:
            score = verdict["score"]
            # A score in words may be a text of any length; false counts as no score all the same.
            document["judge"][name]["score"] = score if isinstance(score, int | float) else False
    return document


def _remove_texts(result: Result, *, claim: str = "") -> None:
    if result.answer is not None:
        if result.answer.text is not None and result.answer.text.strip():
            result.answer.text, result.answer.text_withheld = None, True
        for reference in result.answer.references or []:
            reference.text = None
    for hit in result.hits_top_k or []:
        hit.text = None
    if result.judge is not None:
        _remove_words(result.judge, claim)


def _remove_words(judge: Judge, claim: str) -> None:
    """How many claims there are decides whether a judgement contradicts itself; what they say does not."""
    judge.input = None
    if judge.correctness is not None:
        judge.correctness.reasoning = None
    if judge.groundedness is not None:
        verdict = judge.groundedness
        verdict.supported_claims = _marks(verdict.supported_claims, claim)
        verdict.unsupported_claims = _marks(verdict.unsupported_claims, claim)


def _expected_cases(path: Path) -> Iterator[Line[Any]]:
    return each_line(path, lambda row: expected_case_without_texts(read_expected_case(row)))


_ROWS: dict[str, Callable[[Path], Iterable[Line[Any]]]] = {
    "golden_set": golden_lines,
    "cases": _expected_cases,
    "archive": read_archive,
    "results": _results,
    "extractions": read_extractions,
    "judge_spot_check": read_spot_checks,
}
