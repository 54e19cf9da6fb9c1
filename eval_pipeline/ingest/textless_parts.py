"""A part of a bundle written anew without its long texts: what is loaded, and kept, when texts must not be.

Only fields of the contract are written, so that no text hides under a key of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from eval_pipeline.ingest.extractions import read_extractions
from eval_pipeline.ingest.golden import golden_lines
from eval_pipeline.ingest.lines import Line
from eval_pipeline.ingest.packed_lines import write_numbered
from eval_pipeline.ingest.parts import each_line, problem_of, read_archive, read_spot_checks
from eval_pipeline.ingest.problems import Problem
from eval_pipeline.ingest.results import read_result
from eval_pipeline.records import Judge, Record, Result


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


def _remove_texts(result: Result) -> None:
    if result.answer is not None:
        if result.answer.text is not None and result.answer.text.strip():
            result.answer.text, result.answer.text_withheld = None, True
        for reference in result.answer.references or []:
            reference.text = None
    for hit in result.hits_top_k or []:
        hit.text = None
    if result.judge is not None:
        _remove_words(result.judge)


def _remove_words(judge: Judge) -> None:
    """How many claims there are decides whether a judgement contradicts itself; what they say does not."""
    judge.input = None
    if judge.correctness is not None:
        judge.correctness.reasoning = None
    if judge.groundedness is not None:
        for name in ("supported_claims", "unsupported_claims"):
            claims = getattr(judge.groundedness, name)
            setattr(judge.groundedness, name, None if claims is None else [""] * len(claims))


_ROWS: dict[str, Callable[[Path], Iterable[Line[Any]]]] = {
    "golden_set": golden_lines,
    "archive": read_archive,
    "results": _results,
    "extractions": read_extractions,
    "judge_spot_check": read_spot_checks,
}
