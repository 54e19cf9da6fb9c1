from __future__ import annotations

import enum
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_pipeline.metrics import (
    ERROR_TYPES,
    FieldDiscrepancy,
    ImpossibleCounts,
    UnknownErrorType,
    UnknownReading,
    compute_confusion_counts,
    compute_metrics,
    count_by_type,
    find_discrepancies,
    is_data_error,
)

untimed = settings(deadline=None)
error_counts = st.fixed_dictionaries({error_type: st.integers(0, 6) for error_type in ERROR_TYPES})


def discrepancies_of(**counts: int) -> list[dict[str, str]]:
    """So many discrepancies of each type, every one on a field of its own."""
    return [
        {"field": f"{error_type}_{number}", "error_type": error_type}
        for error_type, count in counts.items()
        for number in range(count)
    ]


def harmonic(precision: Fraction, recall: Fraction) -> Fraction:
    return 2 / (1 / precision + 1 / recall) if precision and recall else Fraction(0)


def test_all_four_error_types_are_counted_even_when_nothing_is_wrong() -> None:
    nothing = {"omission": 0, "hallucination": 0, "format_error": 0, "wrong_value": 0}
    assert count_by_type([]) == nothing
    assert list(count_by_type([])) == list(nothing)


def test_discrepancies_may_be_mappings_or_dataclasses() -> None:
    mixed: list[Any] = [
        FieldDiscrepancy("a", "omission"),
        {"error_type": "omission"},
        {"error_type": "wrong_value"},
    ]
    assert count_by_type(mixed) == {"omission": 2, "hallucination": 0, "format_error": 0, "wrong_value": 1}


def test_an_error_type_may_come_from_a_text_enum() -> None:
    class Mistake(enum.StrEnum):
        MISSED = "omission"

    assert count_by_type([{"error_type": Mistake.MISSED}])["omission"] == 1


@pytest.mark.parametrize("unknown", [{"field": "price", "error_type": "typo"}, {"field": "price"}])
def test_an_unknown_or_missing_error_type_is_refused_with_field_and_allowed_types(
    unknown: dict[str, str],
) -> None:
    with pytest.raises(UnknownErrorType) as refused:
        count_by_type([{"error_type": "omission"}, unknown])
    message = str(refused.value)
    assert "discrepancies[1]" in message
    assert "'price'" in message
    assert "omission, hallucination, format_error, wrong_value" in message


def test_an_omission_lowers_recall_and_leaves_precision() -> None:
    metrics = compute_metrics(10, discrepancies_of(omission=2))
    assert (metrics["precision"], metrics["recall"]) == (1.0, 0.8)


def test_a_hallucination_lowers_precision_and_leaves_recall() -> None:
    metrics = compute_metrics(8, discrepancies_of(hallucination=2))
    assert (metrics["precision"], metrics["recall"], metrics["recall_strict"]) == (0.8, 1.0, 1.0)


@pytest.mark.parametrize("error_type", ["format_error", "wrong_value"])
def test_a_misread_field_lowers_precision_and_only_the_strict_recall(error_type: str) -> None:
    metrics = compute_metrics(10, discrepancies_of(**{error_type: 2}))
    assert (metrics["precision"], metrics["recall"], metrics["recall_strict"]) == (0.8, 1.0, 0.8)


@pytest.mark.parametrize("error_type", ["format_error", "wrong_value"])
def test_a_misread_field_is_also_a_false_negative_under_the_table_policy(error_type: str) -> None:
    found = discrepancies_of(**{error_type: 2}, omission=1)
    assert compute_confusion_counts(10, found) == (7, 2, 1)
    assert compute_confusion_counts(10, found, fn_policy="table") == (7, 2, 3)


def test_one_right_and_nine_wrong_values_have_recall_one_and_strict_recall_a_tenth() -> None:
    metrics = compute_metrics(10, discrepancies_of(wrong_value=9))
    assert (metrics["precision"], metrics["recall"], metrics["recall_strict"]) == (0.1, 1.0, 0.1)
    assert metrics["f1"] == pytest.approx(2 / 11)
    assert metrics["f1_strict"] == pytest.approx(0.1)


def test_confusion_counts_of_a_mixed_eval() -> None:
    found = discrepancies_of(omission=1, hallucination=2, format_error=3, wrong_value=4)
    assert compute_confusion_counts(20, found) == (20 - 1 - 3 - 4, 2 + 3 + 4, 1)


def test_metrics_have_the_documented_keys_in_order() -> None:
    assert list(compute_metrics(1, [])) == [
        "precision",
        "recall",
        "f1",
        "recall_strict",
        "f1_strict",
        "true_positives",
        "false_positives",
        "false_negatives",
        "total_gt_fields",
        "correct_fields",
    ]


def test_a_perfect_extraction_scores_one_everywhere() -> None:
    metrics = compute_metrics(7, [])
    assert [metrics[key] for key in ("precision", "recall", "f1", "recall_strict", "f1_strict")] == [1.0] * 5
    assert (metrics["true_positives"], metrics["false_positives"], metrics["false_negatives"]) == (7, 0, 0)
    assert metrics["correct_fields"] == metrics["total_gt_fields"] == 7


def test_no_output_at_all_misses_every_field_and_scores_zero() -> None:
    ground_truth = {"a": 1, "b": {"c": "x"}, "d": [1, 2]}
    nothing: Any
    for nothing in ({}, None):
        metrics = compute_metrics(3, find_discrepancies(ground_truth, nothing))
        assert (metrics["true_positives"], metrics["false_positives"], metrics["false_negatives"]) == (
            0,
            0,
            3,
        )
        assert (metrics["precision"], metrics["recall"], metrics["f1"]) == (0.0, 0.0, 0.0)


def test_only_hallucinations_divide_nothing_by_zero() -> None:
    metrics = compute_metrics(0, discrepancies_of(hallucination=3))
    assert (metrics["precision"], metrics["recall"], metrics["f1"], metrics["recall_strict"]) == (
        0.0,
        0.0,
        0.0,
        0.0,
    )
    assert metrics["false_positives"] == 3


def test_an_eval_without_expected_fields_is_a_data_error_and_one_with_only_wrong_values_is_not() -> None:
    assert is_data_error(compute_metrics(0, []))
    all_wrong = compute_metrics(3, discrepancies_of(wrong_value=3))
    assert all_wrong["true_positives"] + all_wrong["false_negatives"] == 0
    assert all_wrong["recall"] == 0.0
    assert not is_data_error(all_wrong)


def test_more_errors_than_fields_are_refused() -> None:
    with pytest.raises(
        ImpossibleCounts, match=r"2 omissions, 1 format errors and 1 wrong values.*total_gt_fields=3"
    ):
        compute_metrics(3, discrepancies_of(omission=2, format_error=1, wrong_value=1))


@pytest.mark.parametrize("total", [-1, 2.0, True, None, "3"])
def test_a_total_that_counts_nothing_is_refused(total: Any) -> None:
    with pytest.raises(ImpossibleCounts, match="total_gt_fields is"):
        compute_confusion_counts(total, [])


def test_an_unknown_false_negative_policy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownReading, match='"code" and "table"'):
        compute_metrics(1, [], fn_policy="strict")  # type: ignore[arg-type]


@untimed
@given(error_counts, st.integers(0, 20))
def test_the_counts_add_up(counts: dict[str, int], correct: int) -> None:
    misread = counts["format_error"] + counts["wrong_value"]
    total = correct + counts["omission"] + misread
    found = discrepancies_of(**counts)
    code = compute_confusion_counts(total, found)
    table = compute_confusion_counts(total, found, fn_policy="table")
    assert code.true_positives == table.true_positives == correct
    assert code.true_positives + code.false_negatives + misread == total
    assert table.true_positives + table.false_negatives == total
    assert code.false_positives == table.false_positives
    # Every discrepancy is a false positive or a false negative; the table counts misread fields as both.
    assert code.false_positives + code.false_negatives == len(found)
    assert table.false_positives + table.false_negatives == len(found) + misread


@untimed
@given(error_counts, st.integers(0, 20))
def test_rates_follow_from_the_shares_of_correct_fields(counts: dict[str, int], correct: int) -> None:
    misread = counts["format_error"] + counts["wrong_value"]
    extracted, total = correct + misread + counts["hallucination"], correct + misread + counts["omission"]
    answered = correct + counts["omission"]
    precision = Fraction(correct, extracted) if extracted else Fraction(0)
    recall = Fraction(correct, answered) if answered else Fraction(0)
    recall_strict = Fraction(correct, total) if total else Fraction(0)
    metrics = compute_metrics(total, discrepancies_of(**counts))
    assert metrics["precision"] == float(precision)
    assert metrics["recall"] == float(recall)
    assert metrics["recall_strict"] == float(recall_strict)
    assert metrics["f1"] == pytest.approx(float(harmonic(precision, recall)), abs=1e-12)
    assert metrics["f1_strict"] == pytest.approx(float(harmonic(precision, recall_strict)), abs=1e-12)
    assert metrics["recall_strict"] <= metrics["recall"]


@untimed
@given(error_counts, st.integers(0, 20))
def test_the_strict_numbers_are_the_headline_numbers_of_the_table_policy(
    counts: dict[str, int], correct: int
) -> None:
    total = correct + counts["omission"] + counts["format_error"] + counts["wrong_value"]
    code = compute_metrics(total, discrepancies_of(**counts))
    table = compute_metrics(total, discrepancies_of(**counts), fn_policy="table")
    assert (code["precision"], code["recall_strict"], code["f1_strict"]) == (
        table["precision"],
        table["recall"],
        table["f1"],
    )
