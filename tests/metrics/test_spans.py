from __future__ import annotations

import itertools
import math
from dataclasses import FrozenInstanceError
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_pipeline.metrics import (
    CharacterSpan,
    InvalidSpan,
    MetricInputError,
    SpanRange,
    TokenLevelMetric,
    UnknownReading,
    calculate_overlap,
    merge_overlapping_spans,
    read_spans,
    span_iou,
    span_precision,
    span_recall,
)

ALL_METRICS = [span_recall, span_precision, span_iou]
untimed = settings(deadline=None)


def make_span(bounds: tuple[str, int, int]) -> CharacterSpan:
    doc_id, start, length = bounds
    return CharacterSpan(doc_id, start, start + length)


# A narrow range and few documents, so that touching, nested and equal spans are common; length 0 included.
span_lists = st.lists(
    st.tuples(st.sampled_from(["doc1", "doc2", "doc3"]), st.integers(0, 25), st.integers(0, 10)).map(
        make_span
    ),
    max_size=8,
)


def positions(spans: list[CharacterSpan]) -> set[tuple[str, int]]:
    """Every covered character by itself: slow, and too simple to be wrong."""
    return {(span.doc_id, character) for span in spans for character in range(span.start, span.end)}


def spans_of(*bounds: tuple[int, int], doc_id: str = "doc1") -> list[CharacterSpan]:
    return [CharacterSpan(doc_id, start, end) for start, end in bounds]


@pytest.mark.parametrize(
    ("given_spans", "merged"),
    [
        (spans_of((0, 50), (30, 80)), spans_of((0, 80))),
        (spans_of((0, 50), (50, 100)), spans_of((0, 100))),
        (spans_of((0, 50), (51, 100)), spans_of((0, 50), (51, 100))),
        (spans_of((0, 100), (20, 30)), spans_of((0, 100))),
        (spans_of((0, 10), (0, 10)), spans_of((0, 10))),
        (spans_of((0, 100), (10, 20), (90, 120)), spans_of((0, 120))),
        ([], []),
    ],
    ids=["overlapping", "adjacent", "one apart", "nested", "equal", "a chain", "nothing"],
)
def test_spans_of_one_document_merge_when_they_overlap_or_touch(
    given_spans: list[CharacterSpan], merged: list[CharacterSpan]
) -> None:
    assert merge_overlapping_spans(given_spans) == merged


def test_spans_of_different_documents_never_merge() -> None:
    two = [CharacterSpan("doc1", 0, 50), CharacterSpan("doc2", 0, 50)]
    assert merge_overlapping_spans(two) == two


def test_merged_spans_are_sorted_by_document_and_start() -> None:
    unsorted = [CharacterSpan("doc2", 0, 5), CharacterSpan("doc1", 40, 50), CharacterSpan("doc1", 0, 5)]
    expected = [CharacterSpan("doc1", 0, 5), CharacterSpan("doc1", 40, 50), CharacterSpan("doc2", 0, 5)]
    assert merge_overlapping_spans(unsorted) == expected


def test_a_span_without_characters_disappears_on_merging() -> None:
    assert merge_overlapping_spans(spans_of((5, 5))) == []
    # Nor does it bridge a gap it lies in.
    assert merge_overlapping_spans(spans_of((0, 4), (5, 5), (6, 9))) == spans_of((0, 4), (6, 9))


def test_merging_leaves_its_input_alone() -> None:
    spans = spans_of((30, 80), (0, 50))
    merge_overlapping_spans(spans)
    assert spans == spans_of((30, 80), (0, 50))


@pytest.mark.parametrize(
    ("retrieved", "ground_truth", "expected"),
    [
        (spans_of((10, 60)), spans_of((10, 60)), 1.0),
        (spans_of((0, 50)), spans_of((0, 100)), 0.5),
        (spans_of((0, 50), (0, 50), (20, 50)), spans_of((0, 100)), 0.5),
        ([], spans_of((0, 100)), 0.0),
        (spans_of((0, 50)), [], 1.0),
        (spans_of((0, 50)), spans_of((7, 7)), 1.0),
        ([], [], 1.0),
    ],
)
def test_span_recall_is_the_share_of_expected_characters_found_and_one_when_there_are_none(
    retrieved: list[CharacterSpan], ground_truth: list[CharacterSpan], expected: float
) -> None:
    assert span_recall.calculate(retrieved, ground_truth) == expected


@pytest.mark.parametrize(
    ("retrieved", "ground_truth", "expected"),
    [
        (spans_of((10, 60)), spans_of((10, 60)), 1.0),
        (spans_of((0, 100)), spans_of((0, 50)), 0.5),
        (spans_of((0, 100), (50, 100)), spans_of((0, 50)), 0.5),
        (spans_of((0, 100)), [], 0.0),
        ([], spans_of((0, 100)), 0.0),
        (spans_of((7, 7)), spans_of((0, 100)), 0.0),
        ([], [], 0.0),
    ],
)
def test_span_precision_is_the_share_of_retrieved_characters_expected_and_zero_when_there_are_none(
    retrieved: list[CharacterSpan], ground_truth: list[CharacterSpan], expected: float
) -> None:
    assert span_precision.calculate(retrieved, ground_truth) == expected


@pytest.mark.parametrize(
    ("retrieved", "ground_truth", "expected"),
    [
        (spans_of((50, 150)), spans_of((0, 100)), 50 / 150),
        (spans_of((0, 100)), spans_of((0, 100)), 1.0),
        (spans_of((0, 10)), spans_of((10, 20)), 0.0),
        ([], [], 1.0),
        (spans_of((3, 3)), spans_of((9, 9)), 1.0),
        (spans_of((0, 10)), [], 0.0),
        ([], spans_of((0, 10)), 0.0),
        (spans_of((0, 10)), spans_of((3, 3)), 0.0),
    ],
)
def test_span_iou_is_shared_over_united_characters_one_if_both_are_empty_and_zero_if_one_is(
    retrieved: list[CharacterSpan], ground_truth: list[CharacterSpan], expected: float
) -> None:
    assert span_iou.calculate(retrieved, ground_truth) == expected


def test_overlap_of_spans_in_different_documents_is_zero() -> None:
    assert calculate_overlap([CharacterSpan("doc1", 0, 50)], [CharacterSpan("doc2", 0, 50)]) == 0


def test_overlap_counts_a_character_once_however_often_it_is_covered() -> None:
    assert calculate_overlap(spans_of((0, 50), (10, 60), (0, 60)), spans_of((40, 70), (40, 100))) == 20


def test_touching_spans_share_no_character() -> None:
    assert calculate_overlap(spans_of((0, 50)), spans_of((50, 100))) == 0


def test_span_metrics_carry_the_exact_names() -> None:
    assert [metric.name for metric in ALL_METRICS] == ["spanRecall", "spanPrecision", "spanIoU"]


@pytest.mark.parametrize("metric", ALL_METRICS, ids=lambda metric: metric.name)
def test_a_span_metric_satisfies_the_protocol_and_cannot_be_changed(metric: TokenLevelMetric) -> None:
    assert isinstance(metric, TokenLevelMetric)
    with pytest.raises(FrozenInstanceError):
        metric.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize("metric", ALL_METRICS, ids=lambda metric: metric.name)
def test_a_span_metric_leaves_its_inputs_alone(metric: TokenLevelMetric) -> None:
    retrieved, ground_truth = spans_of((30, 80), (0, 50)), spans_of((9, 9), (0, 5))
    metric.calculate(retrieved, ground_truth)
    assert (retrieved, ground_truth) == (spans_of((30, 80), (0, 50)), spans_of((9, 9), (0, 5)))


@untimed
@given(span_lists)
def test_merging_covers_the_same_characters_with_spans_that_do_not_touch(spans: list[CharacterSpan]) -> None:
    merged = merge_overlapping_spans(spans)
    assert positions(merged) == positions(spans)
    assert sum(span.end - span.start for span in merged) == len(positions(spans))
    for left, right in itertools.pairwise(merged):
        assert (left.doc_id, left.end) < (right.doc_id, right.start)


@untimed
@given(span_lists)
def test_merging_twice_is_merging_once(spans: list[CharacterSpan]) -> None:
    merged = merge_overlapping_spans(spans)
    assert merge_overlapping_spans(merged) == merged


@untimed
@given(span_lists, span_lists)
def test_overlap_equals_the_number_of_common_characters(
    first: list[CharacterSpan], second: list[CharacterSpan]
) -> None:
    assert calculate_overlap(first, second) == len(positions(first) & positions(second))


@untimed
@given(span_lists, span_lists)
def test_span_metrics_agree_with_sets_of_characters(
    retrieved: list[CharacterSpan], ground_truth: list[CharacterSpan]
) -> None:
    found, expected = positions(retrieved), positions(ground_truth)
    shared, either = len(found & expected), len(found | expected)
    assert span_recall.calculate(retrieved, ground_truth) == (
        float(Fraction(shared, len(expected))) if expected else 1.0
    )
    assert span_precision.calculate(retrieved, ground_truth) == (
        float(Fraction(shared, len(found))) if found else 0.0
    )
    assert span_iou.calculate(retrieved, ground_truth) == (float(Fraction(shared, either)) if either else 1.0)


@untimed
@given(span_lists, span_lists)
def test_overlap_and_iou_do_not_care_which_side_is_which(
    first: list[CharacterSpan], second: list[CharacterSpan]
) -> None:
    assert calculate_overlap(first, second) == calculate_overlap(second, first)
    assert span_iou.calculate(first, second) == span_iou.calculate(second, first)


@untimed
@given(span_lists, span_lists, st.randoms(use_true_random=False))
def test_neither_order_nor_duplicates_change_a_span_metric(
    retrieved: list[CharacterSpan], ground_truth: list[CharacterSpan], random: Any
) -> None:
    shuffled_retrieved, shuffled_truth = retrieved * 2, ground_truth * 3
    random.shuffle(shuffled_retrieved)
    random.shuffle(shuffled_truth)
    for metric in ALL_METRICS:
        assert metric.calculate(shuffled_retrieved, shuffled_truth) == metric.calculate(
            retrieved, ground_truth
        )


@untimed
@given(span_lists, span_lists)
def test_iou_is_never_above_recall_or_precision(
    retrieved: list[CharacterSpan], ground_truth: list[CharacterSpan]
) -> None:
    retrieved, ground_truth = [*retrieved, *spans_of((0, 1))], [*ground_truth, *spans_of((0, 1))]
    iou = span_iou.calculate(retrieved, ground_truth)
    assert 0.0 < iou <= span_recall.calculate(retrieved, ground_truth) <= 1.0
    assert iou <= span_precision.calculate(retrieved, ground_truth) <= 1.0


def test_a_span_of_a_huge_document_is_measured_without_listing_its_characters() -> None:
    whole, half = spans_of((0, 10**15)), spans_of((0, 10**15 // 2))
    assert math.isclose(span_recall.calculate(half, whole), 0.5)


@pytest.mark.parametrize(
    ("doc_id", "start", "end", "problem"),
    [
        ("doc1", 80, 30, "ends before it starts"),
        ("doc1", -5, 30, "has a negative start or end"),
        ("doc1", -9, -3, "has a negative start or end"),
        ("doc1", 5, -3, "has a negative start or end"),
        ("doc1", 0.5, 3, "no whole number"),
        ("doc1", 0, "3", "no whole number"),
        ("doc1", False, True, "no whole number"),
        ("doc1", 0, None, "no whole number"),
        (None, 0, 3, "no text"),
        (7, 0, 3, "no text"),
    ],
)
def test_an_impossible_span_is_refused_with_an_error_that_names_it(
    doc_id: Any, start: Any, end: Any, problem: str
) -> None:
    with pytest.raises(InvalidSpan, match=problem) as direct:
        CharacterSpan(doc_id, start, end)
    assert f"doc_id={doc_id!r}, start={start!r}, end={end!r}" in str(direct.value)
    rows = [{"doc_id": "fine", "start": 0, "end": 1}, {"doc_id": doc_id, "start": start, "end": end}]
    with pytest.raises(MetricInputError, match=f"index 1 .*{problem}"):
        read_spans(rows)


@pytest.mark.parametrize(
    "no_span", [("doc1", 0, 5), {"doc_id": "doc1", "start": 0, "end": 5}, None, "doc1", range(5)], ids=repr
)
def test_what_is_no_span_is_refused_with_the_way_to_make_one(no_span: Any) -> None:
    good = spans_of((0, 5))
    for call in (
        lambda: span_recall.calculate([*good, no_span], good),
        lambda: calculate_overlap(good, [*good, no_span]),
        lambda: merge_overlapping_spans([*good, no_span]),
    ):
        with pytest.raises(InvalidSpan, match=r"index 1 is .+ read_spans") as raised:
            call()
        assert repr(no_span) in str(raised.value)


def test_a_span_is_also_called_a_span_range() -> None:
    assert merge_overlapping_spans([SpanRange("doc1", 0, 50), SpanRange("doc1", 30, 80)]) == spans_of((0, 80))


def test_a_span_cannot_be_changed_after_it_was_checked() -> None:
    span = CharacterSpan("doc1", 0, 5)
    with pytest.raises(FrozenInstanceError):
        span.end = -1  # type: ignore[misc]


def test_spans_are_read_from_rows_in_the_order_given() -> None:
    rows = [{"doc_id": "doc2", "start": 4, "end": 9, "page": 3}, {"doc_id": "doc1", "start": 0, "end": 0}]
    assert read_spans(rows) == [CharacterSpan("doc2", 4, 9), CharacterSpan("doc1", 0, 0)]


def test_inverted_and_negative_spans_can_be_dropped_on_request() -> None:
    rows = [
        {"doc_id": "doc1", "start": 80, "end": 30},
        {"doc_id": "doc1", "start": 0, "end": 5},
        {"doc_id": "doc1", "start": -1, "end": 5},
    ]
    assert read_spans(rows, inverted_spans="drop") == spans_of((0, 5))


@pytest.mark.parametrize(
    "row", [{"doc_id": "doc1", "start": 0}, {"start": 0, "end": 1}, {}, ("doc1", 0, 1), "doc1", None]
)
def test_a_row_that_is_no_span_is_refused_even_when_inverted_spans_are_dropped(row: Any) -> None:
    with pytest.raises(InvalidSpan, match="index 0"):
        read_spans([row], inverted_spans="drop")


def test_an_unknown_reading_of_inverted_spans_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownReading, match='"error" and "drop"'):
        read_spans([], inverted_spans="swap")  # type: ignore[arg-type]
