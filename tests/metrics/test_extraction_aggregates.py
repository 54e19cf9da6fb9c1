from __future__ import annotations

import math
import warnings
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_pipeline.metrics import (
    ERROR_TYPES,
    EXTRACTION_FORMULA_VERSION,
    MACRO_F1_TARGET,
    ImpossibleCounts,
    UnexpectedEvalCount,
    UnusableMetrics,
    compute_aggregate_metrics,
    compute_metrics,
    is_target_met,
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


def eval_of(total: int, **counts: int) -> dict[str, Any]:
    return {"metrics": compute_metrics(total, discrepancies_of(**counts))}


def test_macro_f1_is_the_mean_of_the_f1s_and_not_the_f1_of_the_means() -> None:
    # Precision 1 and recall 1/2 in one eval, precision 1/2 and recall 1 in the other: both F1 are 2/3.
    aggregate = compute_aggregate_metrics([eval_of(2, omission=1), eval_of(1, hallucination=1)])
    assert aggregate["macro"]["precision"] == aggregate["macro"]["recall"] == 0.75
    assert aggregate["macro"]["f1"] == pytest.approx(2 / 3)


def test_micro_pools_the_counts_so_that_a_large_document_weighs_more() -> None:
    aggregate = compute_aggregate_metrics([eval_of(98, hallucination=0), eval_of(2, omission=2)])
    assert aggregate["micro"] == {"precision": 1.0, "recall": 0.98, "f1": pytest.approx(2 * 0.98 / 1.98)}
    assert aggregate["macro"] == {"precision": 0.5, "recall": 0.5, "f1": 0.5}
    totals = ("total_true_positives", "total_false_positives", "total_false_negatives", "eval_count")
    assert [aggregate[key] for key in totals] == [98, 0, 2, 2]  # type: ignore[literal-required]


def test_the_strict_aggregates_also_miss_what_was_misread() -> None:
    aggregate = compute_aggregate_metrics([eval_of(10, wrong_value=9), eval_of(10)])
    assert aggregate["macro"]["recall"] == aggregate["micro"]["recall"] == 1.0
    assert aggregate["macro_strict"]["precision"] == aggregate["macro"]["precision"]
    assert aggregate["macro_strict"]["recall"] == pytest.approx((0.1 + 1.0) / 2)
    assert aggregate["macro_strict"]["f1"] == pytest.approx((0.1 + 1.0) / 2)
    assert aggregate["micro_strict"]["precision"] == aggregate["micro"]["precision"]
    assert aggregate["micro_strict"]["recall"] == 11 / 20
    assert aggregate["micro_strict"]["f1"] == pytest.approx(11 / 20)


def test_aggregates_have_the_documented_keys_in_order() -> None:
    assert list(compute_aggregate_metrics([])) == [
        "macro",
        "micro",
        "macro_strict",
        "micro_strict",
        "total_true_positives",
        "total_false_positives",
        "total_false_negatives",
        "eval_count",
    ]


def test_no_evals_give_zeros_and_not_a_division_by_zero() -> None:
    aggregate = compute_aggregate_metrics([])
    zeros = {"precision": 0.0, "recall": 0.0, "f1": 0.0}
    assert aggregate["macro"] == aggregate["micro"] == zeros
    assert aggregate["macro_strict"] == aggregate["micro_strict"] == zeros
    assert aggregate["eval_count"] == aggregate["total_true_positives"] == 0


def test_evals_in_which_all_is_zero_stay_zero_in_both_averages() -> None:
    aggregate = compute_aggregate_metrics([eval_of(0), eval_of(0)])
    assert aggregate["macro"] == aggregate["micro"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0}
    assert aggregate["eval_count"] == 2


def test_the_mean_divides_by_the_evals_that_are_there_whatever_was_expected() -> None:
    three = [eval_of(2), eval_of(2), eval_of(2, omission=2)]
    with pytest.warns(UnexpectedEvalCount, match="5 evals were expected, 3 are averaged"):
        aggregate = compute_aggregate_metrics(three, expected_eval_count=5)
    assert aggregate["macro"]["recall"] == pytest.approx(2 / 3)
    assert aggregate["eval_count"] == 3


@pytest.mark.parametrize("expected", [None, 2])
def test_nothing_is_warned_about_when_all_expected_evals_are_there(expected: int | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (
            compute_aggregate_metrics([eval_of(2), eval_of(2)], expected_eval_count=expected)["eval_count"]
            == 2
        )


def test_metrics_stored_before_the_strict_numbers_existed_still_give_them() -> None:
    strict = ("recall_strict", "f1_strict")
    new = [eval_of(10, wrong_value=9), eval_of(4, omission=1)]
    old = [{"metrics": {k: v for k, v in one["metrics"].items() if k not in strict}} for one in new]
    assert compute_aggregate_metrics(old) == compute_aggregate_metrics(new)


def test_without_the_number_of_fields_the_strict_recall_is_undefined_and_the_rest_is_not() -> None:
    known, unknown = eval_of(4, omission=1), eval_of(4, wrong_value=1)
    del unknown["metrics"]["total_gt_fields"]
    aggregate = compute_aggregate_metrics([known, unknown])
    for strict, plain in (("macro_strict", "macro"), ("micro_strict", "micro")):
        precision = aggregate[plain]["precision"]  # type: ignore[literal-required]
        assert aggregate[strict] == {"precision": precision, "recall": None, "f1": None}  # type: ignore[literal-required]
    assert aggregate["macro"]["recall"] == 0.875


@pytest.mark.parametrize(
    "broken", [{}, {"metrics": None}, {"error": "timeout"}, {"metrics": {"precision": 1.0}}, "no mapping"]
)
def test_an_eval_result_without_metrics_is_refused_with_its_place(broken: Any) -> None:
    with pytest.raises(UnusableMetrics, match=r"eval_results\[1\]"):
        compute_aggregate_metrics([eval_of(1), broken])


@pytest.mark.parametrize("value", [math.nan, math.inf, -0.1, 1.5, True, "1", None])
def test_a_rate_that_is_no_number_from_zero_to_one_never_enters_a_mean(value: Any) -> None:
    broken = eval_of(1)
    broken["metrics"]["recall"] = value
    with pytest.raises(UnusableMetrics, match=r"eval_results\[0\] has recall="):
        compute_aggregate_metrics([broken])


@pytest.mark.parametrize("key", ["true_positives", "false_positives", "false_negatives", "total_gt_fields"])
def test_a_negative_count_never_enters_a_sum(key: str) -> None:
    broken = eval_of(1)
    broken["metrics"][key] = -1
    with pytest.raises(ImpossibleCounts, match=rf"eval_results\[0\] {key} is -1"):
        compute_aggregate_metrics([broken])


def test_metrics_with_a_missing_count_are_refused() -> None:
    broken = eval_of(1)
    del broken["metrics"]["false_negatives"]
    with pytest.raises(UnusableMetrics, match="no false_negatives"):
        compute_aggregate_metrics([broken])


def test_more_correct_and_missed_fields_than_there_are_is_refused() -> None:
    broken = eval_of(3, omission=1)
    broken["metrics"]["total_gt_fields"] = 2
    with pytest.raises(
        ImpossibleCounts, match="2 true positives and 1 false negatives, but total_gt_fields=2"
    ):
        compute_aggregate_metrics([broken])


eval_lists = st.lists(
    st.tuples(error_counts, st.integers(0, 20)).map(
        lambda drawn: eval_of(
            drawn[1] + drawn[0]["omission"] + drawn[0]["format_error"] + drawn[0]["wrong_value"], **drawn[0]
        )
    ),
    max_size=8,
)


@untimed
@given(eval_lists, st.randoms(use_true_random=False))
def test_aggregates_do_not_depend_on_the_order_of_the_evals(evals: list[dict[str, Any]], random: Any) -> None:
    shuffled = list(evals)
    random.shuffle(shuffled)
    assert compute_aggregate_metrics(shuffled) == compute_aggregate_metrics(evals)


@untimed
@given(eval_lists)
def test_macro_is_the_exact_mean_of_the_evals(evals: list[dict[str, Any]]) -> None:
    aggregate = compute_aggregate_metrics(evals)
    for part, keys in (
        ("macro", ("precision", "recall", "f1")),
        ("macro_strict", ("precision", "recall_strict", "f1_strict")),
    ):
        for rate, key in zip(("precision", "recall", "f1"), keys, strict=True):
            exact = sum((Fraction(one["metrics"][key]) for one in evals), Fraction(0)) / max(len(evals), 1)
            assert aggregate[part][rate] == pytest.approx(float(exact), abs=1e-12)  # type: ignore[literal-required]


@untimed
@given(eval_lists)
def test_micro_is_the_score_of_all_documents_as_one(evals: list[dict[str, Any]]) -> None:
    aggregate = compute_aggregate_metrics(evals)
    pooled = {
        key: sum(one["metrics"][key] for one in evals)
        for key in ("true_positives", "false_positives", "false_negatives", "total_gt_fields")
    }
    misread = pooled["total_gt_fields"] - pooled["true_positives"] - pooled["false_negatives"]
    as_one = compute_metrics(
        pooled["total_gt_fields"],
        discrepancies_of(
            omission=pooled["false_negatives"],
            wrong_value=misread,
            hallucination=pooled["false_positives"] - misread,
        ),
    )
    assert aggregate["micro"] == {key: as_one[key] for key in ("precision", "recall", "f1")}
    assert aggregate["micro_strict"] == {
        "precision": as_one["precision"],
        "recall": as_one["recall_strict"],
        "f1": as_one["f1_strict"],
    }


def test_the_target_is_met_at_the_unrounded_ninety_per_cent() -> None:
    exactly = compute_aggregate_metrics([eval_of(10, omission=1, hallucination=1)] * 5)
    assert exactly["macro"]["f1"] == MACRO_F1_TARGET == 0.9
    assert is_target_met(exactly)
    just_below = {**exactly, "macro": {**exactly["macro"], "f1": 0.89996}}
    assert round(0.89996, 4) == MACRO_F1_TARGET
    assert not is_target_met(just_below)  # type: ignore[arg-type]


def test_another_target_may_be_set_and_no_evals_meet_none() -> None:
    half = compute_aggregate_metrics([eval_of(1), eval_of(1, omission=1)])
    assert is_target_met(half, target=0.5)
    assert not is_target_met(half)
    assert not is_target_met(compute_aggregate_metrics([]), target=0.0)


def test_the_formula_version_is_there_to_be_stored_with_the_metrics() -> None:
    assert EXTRACTION_FORMULA_VERSION == "1.0.0"
