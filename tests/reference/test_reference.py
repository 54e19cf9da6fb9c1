"""The numbers the definitions themselves name, and small cases worked out by hand: spans, extraction, rounding."""

from __future__ import annotations

import math

import pytest

from .arithmetic import mean, percentile, rounded
from .extraction import (
    compare_fields,
    compute_metrics,
    confusion_counts,
    count_by_type,
    extraction_report,
    leaf_fields,
    same_value,
)
from .readings import CLOSED, resolve_readings
from .spans import (
    Span,
    calculate_overlap,
    characters,
    chunk_f1,
    chunk_precision,
    chunk_recall,
    merge_overlapping_spans,
    span_iou,
    span_precision,
    span_recall,
)

DEFAULT = resolve_readings(None)


def at(start: int, end: int, doc_id: str = "doc1") -> Span:
    return Span(doc_id, start, end)


@pytest.mark.parametrize(
    ("retrieved", "truth", "recall", "precision", "f1"),
    [
        (["a", "b"], ["a", "b"], 1.0, 1.0, 1.0),
        (["a"], ["a", "b"], 0.5, 1.0, 2 / 3),
        (["a", "b", "c", "d"], ["a"], 1.0, 0.25, 0.4),
        (["a", "b"], ["a", "c"], 0.5, 0.5, 0.5),
        (["a"], [], 1.0, 0.0, 0.0),
        ([], [], 1.0, 0.0, 0.0),
        ([], ["a"], 0.0, 0.0, 0.0),
        (["a", "a", "b"], ["a", "c", "c"], 0.5, 0.5, 0.5),
    ],
)
def test_chunk_metrics_are_set_arithmetic(
    retrieved: list[str], truth: list[str], recall: float, precision: float, f1: float
) -> None:
    assert chunk_recall(retrieved, truth) == recall
    assert chunk_precision(retrieved, truth) == precision
    assert chunk_f1(retrieved, truth) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("spans", "merged"),
    [
        ([at(0, 50), at(30, 80)], [at(0, 80)]),
        ([at(0, 50), at(50, 100)], [at(0, 100)]),
        ([at(0, 50, "doc2"), at(0, 50)], [at(0, 50), at(0, 50, "doc2")]),
        ([at(10, 20), at(0, 90), at(5, 6)], [at(0, 90)]),
        ([at(7, 7), at(0, 1), at(2, 3)], [at(0, 1), at(2, 3)]),
        ([], []),
    ],
)
def test_overlapping_and_touching_spans_of_one_document_merge(spans: list[Span], merged: list[Span]) -> None:
    assert merge_overlapping_spans(spans) == merged
    assert sum(span.end - span.start for span in merged) == len(characters(spans))


@pytest.mark.parametrize(
    ("retrieved", "truth", "recall", "precision", "iou"),
    [
        ([at(0, 100)], [at(0, 100)], 1.0, 1.0, 1.0),
        ([at(0, 50)], [at(0, 100)], 0.5, 1.0, 0.5),
        ([at(0, 100)], [at(0, 50)], 1.0, 0.5, 0.5),
        ([at(50, 150)], [at(0, 100)], 0.5, 0.5, 50 / 150),
        ([at(0, 50, "doc2")], [at(0, 50)], 0.0, 0.0, 0.0),
        ([], [], 1.0, 0.0, 1.0),
        ([at(3, 3)], [at(9, 9)], 1.0, 0.0, 1.0),
        ([at(0, 5)], [at(9, 9)], 1.0, 0.0, 0.0),
        ([], [at(0, 5)], 0.0, 0.0, 0.0),
        ([at(0, 10), at(5, 15), at(5, 10)], [at(0, 30)], 0.5, 1.0, 0.5),
    ],
)
def test_span_metrics_count_each_character_once(
    retrieved: list[Span], truth: list[Span], recall: float, precision: float, iou: float
) -> None:
    assert span_recall(retrieved, truth) == recall
    assert span_precision(retrieved, truth) == precision
    assert span_iou(retrieved, truth) == pytest.approx(iou)


def test_overlap_is_counted_within_a_document_only() -> None:
    assert calculate_overlap([at(0, 50), at(40, 60)], [at(45, 55)]) == 10
    assert calculate_overlap([at(0, 50)], [at(0, 50, "doc2")]) == 0


@pytest.mark.parametrize("span", [at(5, 4), at(-1, 4)])
def test_an_inverted_or_negative_span_is_refused_by_name_or_dropped_on_request(span: Span) -> None:
    with pytest.raises(ValueError, match="inverted or negative"):
        span_recall([span], [at(0, 4)])
    assert span_recall([span, at(0, 2)], [at(0, 4)], inverted="drop") == 0.5


def told(**counts: int) -> list[dict[str, str]]:
    return [{"error_type": error_type} for error_type, count in counts.items() for _ in range(count)]


def test_all_four_error_types_are_always_counted() -> None:
    assert count_by_type(told(omission=2)) == {
        "omission": 2,
        "hallucination": 0,
        "format_error": 0,
        "wrong_value": 0,
    }


def test_nine_wrong_values_of_ten_have_full_recall_by_the_code_and_a_tenth_by_the_table() -> None:
    metrics = compute_metrics(10, told(wrong_value=9))
    assert (metrics["true_positives"], metrics["false_positives"], metrics["false_negatives"]) == (1, 9, 0)
    assert (metrics["precision"], metrics["recall"], metrics["recall_strict"]) == (0.1, 1.0, 0.1)
    assert metrics["f1"] == pytest.approx(2 * 0.1 * 1.0 / 1.1)
    assert metrics["f1_strict"] == pytest.approx(0.1)
    assert compute_metrics(10, told(wrong_value=9), fn_policy="table")["recall"] == 0.1


def test_mixed_discrepancies_by_hand() -> None:
    discrepancies = told(omission=2, hallucination=1, format_error=1, wrong_value=1)
    assert confusion_counts(10, discrepancies) == (6, 3, 2)
    metrics = compute_metrics(10, discrepancies)
    assert metrics["precision"] == pytest.approx(6 / 9)
    assert metrics["recall"] == 6 / 8
    assert metrics["recall_strict"] == 6 / 10
    assert metrics["correct_fields"] == 6


@pytest.mark.parametrize(
    ("total", "discrepancies", "f1"), [(0, [], 0.0), (4, told(omission=4), 0.0), (4, [], 1.0)]
)
def test_no_output_and_no_fields_score_zero_and_perfection_one(
    total: int, discrepancies: list[dict[str, str]], f1: float
) -> None:
    metrics = compute_metrics(total, discrepancies)
    assert metrics["precision"] == metrics["recall"] == metrics["f1"] == f1


def test_impossible_discrepancies_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        confusion_counts(1, told(omission=2))
    with pytest.raises(ValueError, match="is not one of"):
        count_by_type([{"error_type": "typo"}])
    with pytest.raises(ValueError, match="more than one"):
        confusion_counts(2, [{"field": "a", "error_type": "omission"}] * 2)


def test_fields_are_dotted_leaves_and_null_or_empty_objects_are_absent() -> None:
    row = {"a": {"b": 1, "c": None, "d": {}}, "e": [], "f": "", "g": {"h": {"i": [1]}}}
    assert leaf_fields(row) == {"a.b": 1, "e": [], "f": "", "g.h.i": [1]}


def test_a_number_equals_its_float_but_never_a_boolean_or_a_text() -> None:
    assert same_value(1, 1.0)
    assert not same_value(True, 1)
    assert not same_value([True], [1])
    assert not same_value([1, 2], [2, 1])


def test_type_is_looked_at_before_value_and_one_field_has_one_discrepancy() -> None:
    truth = {"a": 1, "b": "x", "c": True, "d": [1], "e": 2, "f": {"g": 1}}
    extracted = {"a": 1.0, "b": "y", "c": 1, "d": [2], "h": 0, "f": 5}
    found = {entry["field"]: entry["error_type"] for entry in compare_fields(truth, extracted)}
    assert found == {
        "b": "wrong_value",
        "c": "format_error",
        "d": "wrong_value",
        "e": "omission",
        "f.g": "omission",
        "f": "hallucination",
        "h": "hallucination",
    }


def test_macro_f1_is_the_mean_of_the_f1s_and_micro_pools_the_counts() -> None:
    report = extraction_report(
        [
            {"case_id": "one", "total_gt_fields": 1, "discrepancies": []},
            {"case_id": "two", "total_gt_fields": 4, "discrepancies": told(omission=3, hallucination=1)},
            {"case_id": "lost", "error": "no model", "ground_truth": {"a": 1}},
        ]
    )
    # Case two: TP 1, FP 1, FN 3, so P 0.5, R 0.25, F1 1/3. Pooled: TP 2, FP 1, FN 3.
    assert report["macro"] == {"precision": 0.75, "recall": 0.625, "f1": 0.6667}
    assert report["micro"] == {"precision": 0.6667, "recall": 0.4, "f1": 0.5}
    assert (report["eval_count"], report["failed_cases"], report["target_met"]) == (2, ["lost"], False)


def test_no_cases_are_zeros_and_do_not_meet_the_target() -> None:
    report = extraction_report([])
    assert report["macro"] == report["micro_strict"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0}
    assert (report["eval_count"], report["target_met"]) == (0, False)


def test_the_target_is_held_against_the_unrounded_macro_f1() -> None:
    # 9,000 right, 2,001 left out: F1 = 18,000 / 20,001 = 0.899955.
    below = [{"case_id": "c", "total_gt_fields": 11_001, "discrepancies": told(omission=2001)}]
    report = extraction_report(below)
    assert report["macro"]["f1"] == 0.9
    assert report["target_met"] is False


def test_field_accuracy_counts_the_cases_whose_truth_has_the_field() -> None:
    report = extraction_report(
        [
            {"case_id": "a", "ground_truth": {"x": 1, "y": 1}, "extracted": {"x": 1, "z": 1}},
            {"case_id": "b", "ground_truth": {"x": 1}, "extracted": {"x": 2}},
        ]
    )
    assert report["fields"] == {
        "x": {"accuracy": 0.5, "n": 2},
        "y": {"accuracy": 0.0, "n": 1},
        "z": {"accuracy": None, "n": 0},
    }


def test_one_weak_field_shows_beside_a_strong_one() -> None:
    truth = {"bedrooms": 3, "window_count": 8}
    right_fields = [{"bedrooms": number > 0, "window_count": number >= 8} for number in range(20)]
    cases = [
        {
            "case_id": str(number),
            "ground_truth": truth,
            "extracted": {field: truth[field] if kept else 99 for field, kept in right.items()},
        }
        for number, right in enumerate(right_fields)
    ]
    fields = extraction_report(cases)["fields"]
    assert fields == {"bedrooms": {"accuracy": 0.95, "n": 20}, "window_count": {"accuracy": 0.6, "n": 20}}


def test_rounding_is_half_even_on_the_double_and_never_minus_zero() -> None:
    assert rounded(0.03125, DEFAULT) == 0.0312
    assert rounded(0.00625, DEFAULT) == 0.0063
    assert rounded(0.03125, resolve_readings({"rounding": "half_up"})) == 0.0313
    assert math.copysign(1, rounded(-0.00001, DEFAULT) or 0.0) == 1
    assert rounded(math.nan, DEFAULT) is None
    assert rounded(None, DEFAULT) is None


def test_percentiles_interpolate_or_take_the_nearest_rank() -> None:
    values = [40.0, 10.0, 30.0, 20.0]
    assert percentile(values, 0.5, DEFAULT) == 25.0
    assert percentile(values, 0.95, DEFAULT) == pytest.approx(38.5)
    nearest = resolve_readings({"percentile": "nearest"})
    assert [percentile(values, share, nearest) for share in (0.5, 0.95)] == [20.0, 40.0]
    assert percentile([], 0.5, DEFAULT) is None
    assert mean([]) is None


def test_an_unknown_reading_is_refused_and_every_other_reading_is_accepted() -> None:
    with pytest.raises(ValueError, match="unknown reading"):
        resolve_readings({"heading": "string"})
    with pytest.raises(ValueError, match="is not one of"):
        resolve_readings({"heading_prefix": "letters"})
    for name, values in CLOSED.items():
        assert [resolve_readings({name: value})[name] for value in values] == list(values)
