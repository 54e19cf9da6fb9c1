"""extractions.jsonl and cases.jsonl: one case a line, checked so that its counts can be trusted."""

# Discrepancies that a producer gives are taken, and must fit what else the case says: which fields are there follows
# from the documents, whether a value is right may be the producer's own judgement.

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from eval_pipeline.bundle.lines import BadRow, Line, _to_record
from eval_pipeline.bundle.parts import each_line
from eval_pipeline.bundle.problems import _id_fault
from eval_pipeline.errors import InputRejected
from eval_pipeline.metrics import ERROR_TYPES, MetricInputError, compute_confusion_counts, flatten_fields
from eval_pipeline.records import Discrepancy, ExpectedCase, ExtractionCase

LARGEST_TOTAL = 1_000_000_000
DEEPEST = 200


def read_extractions(path: Path) -> Iterator[Line[ExtractionCase]]:
    """The extraction cases of a run."""
    return each_line(path, _read_case)


def _read_case(row: dict[str, Any]) -> ExtractionCase:
    """One case; whatever contradicts itself raises BadRow."""
    case = _to_record(row, ExtractionCase)
    fault = _id_fault(case.case_id)
    if fault:
        raise BadRow("case_id", fault)
    total = case.total_gt_fields
    if total is not None and not 0 <= total <= LARGEST_TOTAL:
        raise BadRow(
            "total_gt_fields",
            "cannot be negative" if total < 0 else f"is {total}, at most {LARGEST_TOTAL} can be",
        )
    _check_discrepancies(case.discrepancies or [])
    expected = _fields_of(case.ground_truth, "ground_truth")
    actual = _fields_of(case.extracted, "extracted")
    if not has_failed(case):
        _check_total(case, expected)
        _check_against_documents(case, expected, actual)
    return case


def _read_expected_case(row: dict[str, Any]) -> ExpectedCase:
    """One case of cases.jsonl."""
    case = _to_record(row, ExpectedCase)
    fault = _id_fault(case.case_id)
    if fault:
        raise BadRow("case_id", fault)
    _fields_of(case.ground_truth, "ground_truth")
    return case


def read_case_list(path: Path) -> list[ExpectedCase]:
    """The cases that every run should hold; a list that cannot be read in full would expect too few."""
    found: dict[str, ExpectedCase] = {}
    for line in each_line(path, _read_expected_case):
        if line.record is None:
            raise InputRejected(line.reason or "", line=line.number, field=line.field, text=line.text)
        case_id = line.record.case_id
        if case_id in found:
            raise InputRejected(
                f"case_id {case_id!r} stands there twice: every case once",
                line=line.number,
                field="case_id",
                text=line.text,
            )
        found[case_id] = line.record
    if not found:
        raise InputRejected("the file names no case; without any expected case leave it out")
    return list(found.values())


def truth_hash(ground_truth: dict[str, Any] | None) -> str | None:
    """The same for documents with the same fields and values, 1 and 1.0 alike; None where there is none."""
    if ground_truth is None:
        return None
    fields = {name: _plain(value) for name, value in flatten_fields(ground_truth).items()}
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value


def has_failed(case: ExtractionCase) -> bool:
    """Whether the case failed to run, so that there is nothing to score."""
    return bool(case.error and case.error.strip())


def _check_discrepancies(discrepancies: list[Discrepancy]) -> None:
    seen: set[str] = set()
    for number, found in enumerate(discrepancies):
        if found.error_type not in ERROR_TYPES:
            raise BadRow(
                f"discrepancies[{number}].error_type",
                f"{found.error_type!r} is none of {', '.join(ERROR_TYPES)}",
            )
        if found.field in seen:
            raise BadRow(f"discrepancies[{number}].field", f"{found.field!r} has a discrepancy already")
        seen.add(found.field)


def _fields_of(document: dict[str, Any] | None, name: str) -> set[str] | None:
    if document is None:
        return None
    if _is_deeper_than(document, DEEPEST):
        raise BadRow(name, f"is nested more than {DEEPEST} levels deep")
    try:
        return set(flatten_fields(document, document_name=name))
    except MetricInputError as error:
        raise BadRow(name, str(error)) from error


def _is_deeper_than(document: Any, levels: int) -> bool:
    layer = [document]
    for _ in range(levels + 1):
        layer = [
            item
            for value in layer
            if isinstance(value, dict | list)
            for item in (value.values() if isinstance(value, dict) else value)
        ]
        if not layer:
            return False
    return True


def _check_total(case: ExtractionCase, expected: set[str] | None) -> None:
    total = case.total_gt_fields
    if expected is None and case.discrepancies is None:
        raise BadRow(
            "ground_truth",
            "a case has a ground_truth, or total_gt_fields with discrepancies ([] when all is right), or an error",
        )
    if expected is None and total is None:
        raise BadRow("total_gt_fields", "is required where there is no ground_truth")
    if expected is not None and total is not None and total != len(expected):
        raise BadRow("total_gt_fields", f"is {total}, and the ground_truth has {len(expected)} fields")
    known = total if total is not None else len(expected or ())
    try:
        compute_confusion_counts(
            known, [{"field": one.field, "error_type": one.error_type} for one in case.discrepancies or []]
        )
    except MetricInputError as error:
        raise BadRow("discrepancies", str(error)) from error


def _check_against_documents(
    case: ExtractionCase, expected: Collection[str] | None, actual: Collection[str] | None
) -> None:
    if case.discrepancies is None:
        return
    if expected is not None:
        for number, one in enumerate(case.discrepancies):
            if (one.error_type == "hallucination") == (one.field in expected):
                raise BadRow(
                    f"discrepancies[{number}]",
                    f"{one.error_type} of {one.field!r}, which the ground_truth "
                    f"{'has' if one.field in expected else 'does not have'}",
                )
    if actual is not None:
        for number, one in enumerate(case.discrepancies):
            if (one.error_type == "omission") == (one.field in actual):
                raise BadRow(
                    f"discrepancies[{number}]",
                    f"{one.error_type} of {one.field!r}, which was "
                    f"{'extracted' if one.field in actual else 'not extracted'}",
                )
    if expected is not None and actual is not None:
        _check_nothing_is_passed_over(case.discrepancies, expected, actual)


def _check_nothing_is_passed_over(
    discrepancies: list[Discrepancy], expected: Collection[str], actual: Collection[str]
) -> None:
    named = {one.field for one in discrepancies}
    for field in sorted(set(expected) ^ set(actual)):
        if field not in named:
            kind, where = (
                ("omission", "ground_truth") if field in expected else ("hallucination", "extracted")
            )
            raise BadRow("discrepancies", f"{field!r} stands only in {where}, and no discrepancy says {kind}")
