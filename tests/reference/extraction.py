"""S1: field extraction, per case, per field, macro and micro."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .arithmetic import rounded
from .readings import Readings, resolve_readings
from .rows import Row, is_blank
from .spans import harmonic_mean

ERROR_TYPES = ("omission", "hallucination", "format_error", "wrong_value")
TARGET = 0.9
MEASURES = ("precision", "recall", "f1")


def leaf_fields(value: Row | None, prefix: str = "") -> Row:
    """A1.5: dotted leaf paths; a list is one leaf; null and empty objects are absent."""
    leaves: Row = {}
    for name, item in (value or {}).items():
        if item is None:
            continue
        if isinstance(item, dict):
            leaves.update(leaf_fields(item, f"{prefix}{name}."))
        else:
            leaves[f"{prefix}{name}"] = item
    return leaves


def json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return type(value).__name__


def same_value(left: Any, right: Any) -> bool:
    """Exact (A1.8): 1 equals 1.0, true does not equal 1, lists keep their order."""
    if json_type(left) != json_type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same_value, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same_value(left[key], right[key]) for key in left)
    return bool(left == right)


def compare_fields(ground_truth: Row | None, extracted: Row | None) -> list[Row]:
    """One discrepancy at most per field path; the type is looked at before the value (A1.6)."""
    expected, actual = leaf_fields(ground_truth), leaf_fields(extracted)
    discrepancies = []
    for field in [*expected, *(name for name in actual if name not in expected)]:
        if field not in actual:
            error_type = "omission"
        elif field not in expected:
            error_type = "hallucination"
        elif json_type(expected[field]) != json_type(actual[field]):
            error_type = "format_error"
        elif not same_value(expected[field], actual[field]):
            error_type = "wrong_value"
        else:
            continue
        discrepancies.append({"field": field, "error_type": error_type})
    return discrepancies


def count_by_type(discrepancies: Sequence[Row]) -> dict[str, int]:
    counts = dict.fromkeys(ERROR_TYPES, 0)
    for discrepancy in discrepancies:
        if discrepancy["error_type"] not in counts:
            raise ValueError(f"error_type {discrepancy['error_type']!r} is not one of {ERROR_TYPES}")
        counts[discrepancy["error_type"]] += 1
    return counts


def confusion_counts(
    total_gt_fields: int, discrepancies: Sequence[Row], *, fn_policy: str = "code"
) -> tuple[int, int, int]:
    """S1.6; under the table's policy a present but wrong field is also a miss (A1.1)."""
    fields = [discrepancy["field"] for discrepancy in discrepancies if "field" in discrepancy]
    if len(set(fields)) < len(fields):
        raise ValueError(f"more than one discrepancy for one field in {fields}")
    counts = count_by_type(discrepancies)
    wrong = counts["format_error"] + counts["wrong_value"]
    true_positives = total_gt_fields - counts["omission"] - wrong
    if true_positives < 0:
        raise ValueError(f"{counts} discrepancies do not fit into {total_gt_fields} ground truth fields")
    missed = counts["omission"] + (wrong if fn_policy == "table" else 0)
    return true_positives, counts["hallucination"] + wrong, missed


def precision_recall_f1(true_positives: int, false_positives: int, false_negatives: int) -> dict[str, float]:
    """S1.2 to S1.4 with S1.14: every division by zero gives 0.0."""
    found, wanted = true_positives + false_positives, true_positives + false_negatives
    precision = true_positives / found if found else 0.0
    recall = true_positives / wanted if wanted else 0.0
    return {"precision": precision, "recall": recall, "f1": harmonic_mean(precision, recall)}


def compute_metrics(total_gt_fields: int, discrepancies: Sequence[Row], *, fn_policy: str = "code") -> Row:
    positives, false_positives, missed = confusion_counts(total_gt_fields, discrepancies, fn_policy=fn_policy)
    _, _, missed_strictly = confusion_counts(total_gt_fields, discrepancies, fn_policy="table")
    strict = precision_recall_f1(positives, false_positives, missed_strictly)
    return {
        **precision_recall_f1(positives, false_positives, missed),
        "recall_strict": strict["recall"],
        "f1_strict": strict["f1"],
        "true_positives": positives,
        "false_positives": false_positives,
        "false_negatives": missed,
        "false_negatives_strict": missed_strictly,
        "total_gt_fields": total_gt_fields,
        "correct_fields": positives,
    }


def discrepancies_of(case: Row) -> list[Row]:
    """Given discrepancies are taken; otherwise both sides are compared, nothing extracted being {} (S1.15)."""
    given = case.get("discrepancies")
    if given is not None:
        return list(given)
    if case.get("ground_truth") is None:
        raise ValueError(f"case {case['case_id']!r} has neither discrepancies nor a ground truth to compare")
    return compare_fields(case["ground_truth"], case.get("extracted"))


def score_case(case: Row, readings: Readings) -> Row:
    total = case.get("total_gt_fields")
    if total is None:
        total = len(leaf_fields(case["ground_truth"]))
    return compute_metrics(total, discrepancies_of(case), fn_policy=readings["fn_policy"])


def macro(cases: Sequence[Row], keys: Sequence[str]) -> dict[str, float]:
    """S1.8: means over the cases; the F1 is the mean of the F1s. No case: zeros (A1.4)."""
    count = len(cases)
    return {
        measure: math.fsum(case[key] for case in cases) / count if count else 0.0
        for measure, key in zip(MEASURES, keys, strict=True)
    }


def total_of(cases: Sequence[Row], key: str) -> int:
    return sum(case[key] for case in cases)


def micro(cases: Sequence[Row], missed_key: str) -> dict[str, float]:
    pooled = [total_of(cases, key) for key in ("true_positives", "false_positives", missed_key)]
    return precision_recall_f1(*pooled)


def field_accuracy(cases: Sequence[Row], readings: Readings) -> dict[str, Row]:
    """S1.13: of the cases whose ground truth has the field, the share without a discrepancy on it."""
    outcomes: dict[str, list[float]] = {}
    for case in cases:
        wrong = {found["field"] for found in discrepancies_of(case) if "field" in found}
        for field in leaf_fields(case.get("ground_truth")):
            outcomes.setdefault(field, []).append(float(field not in wrong))
        for field in wrong:
            outcomes.setdefault(field, [])
    return {
        field: {
            "accuracy": rounded(math.fsum(values) / len(values), readings) if values else None,
            "n": len(values),
        }
        for field, values in sorted(outcomes.items())
    }


def rounded_values(values: Row, readings: Readings) -> Row:
    return {key: rounded(value, readings) for key, value in values.items()}


def extraction_report(extractions: Sequence[Row], *, readings: Readings | None = None) -> Row:
    """The `extraction` part of a run; a case that failed to run is listed and not counted (A1.10)."""
    chosen = resolve_readings(readings)
    failed = [case["case_id"] for case in extractions if not is_blank(case.get("error"))]
    done = [case for case in extractions if case["case_id"] not in failed]
    scored = {case["case_id"]: score_case(case, chosen) for case in done}
    cases = list(scored.values())
    headline = macro(cases, MEASURES)
    return {
        "macro": rounded_values(headline, chosen),
        "micro": rounded_values(micro(cases, "false_negatives"), chosen),
        "macro_strict": rounded_values(macro(cases, ("precision", "recall_strict", "f1_strict")), chosen),
        "micro_strict": rounded_values(micro(cases, "false_negatives_strict"), chosen),
        "total_true_positives": total_of(cases, "true_positives"),
        "total_false_positives": total_of(cases, "false_positives"),
        "total_false_negatives": total_of(cases, "false_negatives"),
        "eval_count": len(cases),
        "target": TARGET,
        "target_met": headline["f1"] >= TARGET,
        "cases": {case_id: case_document(metrics, chosen) for case_id, metrics in scored.items()},
        "fields": field_accuracy(done, chosen),
        "failed_cases": sorted(failed),
    }


def case_document(metrics: Row, readings: Readings) -> Row:
    shown = {key: value for key, value in metrics.items() if key != "false_negatives_strict"}
    return {
        key: rounded(value, readings) if isinstance(value, float) else value for key, value in shown.items()
    }
