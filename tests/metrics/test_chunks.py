from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eval_pipeline.metrics as metrics
from eval_pipeline.metrics import (
    ChunkLevelMetric,
    InvalidChunkIds,
    MetricInputError,
    chunk_f1,
    chunk_precision,
    chunk_recall,
)

ALL_METRICS = [chunk_recall, chunk_precision, chunk_f1]
ids = st.lists(st.sampled_from("abcdefgh"), max_size=12)
untimed = settings(deadline=None)


def distinct(values: list[str]) -> list[str]:
    """The first of each value, found without sets."""
    return [value for position, value in enumerate(values) if value not in values[:position]]


def shared_count(retrieved: list[str], ground_truth: list[str]) -> int:
    return sum(1 for value in distinct(retrieved) if value in ground_truth)


@pytest.mark.parametrize(
    ("retrieved", "ground_truth", "expected"),
    [
        (["a", "b"], ["a", "b"], 1.0),
        (["a"], ["a", "b"], 0.5),
        (["x"], ["a", "b"], 0.0),
        ([], ["a"], 0.0),
        (["a"], [], 1.0),
        ([], [], 1.0),
    ],
)
def test_chunk_recall_is_the_share_of_expected_chunks_found_and_one_when_none_is_expected(
    retrieved: list[str], ground_truth: list[str], expected: float
) -> None:
    assert chunk_recall.calculate(retrieved, ground_truth) == expected


@pytest.mark.parametrize(
    ("retrieved", "ground_truth", "expected"),
    [
        (["a", "b"], ["a", "b"], 1.0),
        (["a", "b", "c", "d"], ["a"], 0.25),
        (["x"], ["a"], 0.0),
        (["a"], [], 0.0),
        ([], ["a"], 0.0),
        ([], [], 0.0),
    ],
)
def test_chunk_precision_is_the_share_of_retrieved_chunks_expected_and_zero_when_none_is_retrieved(
    retrieved: list[str], ground_truth: list[str], expected: float
) -> None:
    assert chunk_precision.calculate(retrieved, ground_truth) == expected


def test_chunk_f1_balances_precision_and_recall() -> None:
    assert chunk_f1.calculate(["a", "b"], ["a", "c"]) == 0.5


def test_chunk_f1_is_zero_when_precision_and_recall_both_are() -> None:
    assert chunk_f1.calculate(["a"], ["b"]) == 0.0


def test_two_empty_lists_have_recall_one_precision_zero_and_f1_zero() -> None:
    assert [metric.calculate([], []) for metric in ALL_METRICS] == [1.0, 0.0, 0.0]


def test_chunk_metrics_carry_the_exact_names() -> None:
    assert [metric.name for metric in ALL_METRICS] == ["chunkRecall", "chunkPrecision", "chunkF1"]


@pytest.mark.parametrize("metric", ALL_METRICS, ids=lambda metric: metric.name)
def test_a_chunk_metric_satisfies_the_protocol_and_cannot_be_changed(metric: ChunkLevelMetric) -> None:
    assert isinstance(metric, ChunkLevelMetric)
    with pytest.raises(FrozenInstanceError):
        metric.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize("metric", ALL_METRICS, ids=lambda metric: metric.name)
def test_a_chunk_metric_leaves_its_inputs_alone(metric: ChunkLevelMetric) -> None:
    retrieved, ground_truth = ["b", "a", "b"], ["c", "a", "c"]
    metric.calculate(retrieved, ground_truth)
    assert (retrieved, ground_truth) == (["b", "a", "b"], ["c", "a", "c"])


@pytest.mark.parametrize("metric", ALL_METRICS, ids=lambda metric: metric.name)
def test_a_text_in_place_of_a_list_is_refused_instead_of_read_letter_by_letter(
    metric: ChunkLevelMetric,
) -> None:
    with pytest.raises(InvalidChunkIds, match=r"ground_truth is the text 'chunk-1'.*\['chunk-1'\]"):
        metric.calculate(["chunk-1"], "chunk-1")
    with pytest.raises(MetricInputError, match="retrieved is the text 'chunk-1'"):
        metric.calculate("chunk-1", ["chunk-1"])


@untimed
@given(ids, ids)
def test_chunk_metrics_agree_with_counting_by_hand(retrieved: list[str], ground_truth: list[str]) -> None:
    shared = shared_count(retrieved, ground_truth)
    n_retrieved, n_expected = len(distinct(retrieved)), len(distinct(ground_truth))
    recall = Fraction(shared, n_expected) if n_expected else Fraction(1)
    precision = Fraction(shared, n_retrieved) if n_retrieved else Fraction(0)
    # F1 written as twice the shared over the sum of both sizes, another form of the same number.
    f1 = Fraction(2 * shared, n_retrieved + n_expected) if shared else Fraction(0)
    computed = [metric.calculate(retrieved, ground_truth) for metric in ALL_METRICS]
    assert computed == pytest.approx([float(recall), float(precision), float(f1)], abs=1e-12)


@untimed
@given(ids, ids, st.randoms(use_true_random=False))
def test_neither_order_nor_duplicates_change_a_chunk_metric(
    retrieved: list[str], ground_truth: list[str], random: Any
) -> None:
    shuffled_retrieved, shuffled_truth = retrieved * 2, ground_truth * 3
    random.shuffle(shuffled_retrieved)
    random.shuffle(shuffled_truth)
    for metric in ALL_METRICS:
        assert metric.calculate(shuffled_retrieved, shuffled_truth) == metric.calculate(
            retrieved, ground_truth
        )


@untimed
@given(ids, ids)
def test_chunk_f1_does_not_care_which_side_is_which(retrieved: list[str], ground_truth: list[str]) -> None:
    assert chunk_f1.calculate(retrieved, ground_truth) == chunk_f1.calculate(ground_truth, retrieved)


@untimed
@given(ids, ids)
def test_precision_is_recall_with_the_sides_swapped_when_something_was_retrieved(
    retrieved: list[str], ground_truth: list[str]
) -> None:
    precision = chunk_precision.calculate([*retrieved, "a"], ground_truth)
    assert precision == chunk_recall.calculate(ground_truth, [*retrieved, "a"])


@untimed
@given(ids, ids)
def test_every_chunk_metric_stays_between_zero_and_one(retrieved: list[str], ground_truth: list[str]) -> None:
    values = [metric.calculate(retrieved, ground_truth) for metric in ALL_METRICS]
    assert all(0.0 <= value <= 1.0 for value in values)


@untimed
@given(ids, ids, st.sampled_from("abcdefgh"))
def test_retrieving_one_more_chunk_never_lowers_recall(
    retrieved: list[str], ground_truth: list[str], extra: str
) -> None:
    before = chunk_recall.calculate(retrieved, ground_truth)
    assert chunk_recall.calculate([*retrieved, extra], ground_truth) >= before


@pytest.mark.parametrize(
    "name",
    [
        "chunk_recall",
        "chunk_precision",
        "chunk_f1",
        "merge_overlapping_spans",
        "span_recall",
        "span_precision",
        "span_iou",
        "calculate_overlap",
    ],
)
def test_the_chunk_and_span_functions_are_public(name: str) -> None:
    assert name in metrics.__all__
    assert hasattr(metrics, name)


@pytest.mark.parametrize(
    "metric",
    [
        metrics.chunk_recall,
        metrics.chunk_precision,
        metrics.chunk_f1,
        metrics.span_recall,
        metrics.span_precision,
        metrics.span_iou,
    ],
)
def test_a_metric_is_also_there_by_the_name_that_it_carries(metric: Any) -> None:
    assert getattr(metrics, metric.name) is metric


def test_the_functions_of_spans_are_also_there_in_camel_case_and_a_misspelt_name_is_not() -> None:
    assert metrics.mergeOverlappingSpans is metrics.merge_overlapping_spans
    assert metrics.calculateOverlap is metrics.calculate_overlap
    with pytest.raises(AttributeError, match="chunkrecall"):
        getattr(metrics, "chunkrecall")  # noqa: B009


@pytest.mark.needs_process
def test_importing_the_metrics_loads_nothing_but_the_standard_library() -> None:
    program = (
        "import sys, eval_pipeline; before = set(sys.modules); import eval_pipeline.metrics\n"
        "added = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(added - set(sys.stdlib_module_names)))"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "['eval_pipeline']"
