"""Span metrics: how many characters the retrieved and the expected spans share (S0.6 to S0.10)."""

# The unit is the code point and a span is half-open, [start, end) (A0.1). Each side is merged before anything
# is counted (A0.8), so no character counts twice; "empty" means that a side covers no character (A0.3).

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, Protocol, TypeAlias, get_args, runtime_checkable

from eval_pipeline.metrics.chunks import named_ground_truth
from eval_pipeline.metrics.errors import InvalidSpan, UnknownReading

InvertedSpans: TypeAlias = Literal["error", "drop"]


@dataclass(frozen=True, slots=True, order=True)
class CharacterSpan:
    """The characters start, start + 1, …, end - 1 of one document."""

    doc_id: str
    start: int
    end: int

    def __post_init__(self) -> None:
        problem = _type_problem(self.doc_id, self.start, self.end) or _range_problem(self.start, self.end)
        if problem:
            raise InvalidSpan(_explain("span", (self.doc_id, self.start, self.end), problem))


SpanRange: TypeAlias = CharacterSpan


def _type_problem(doc_id: object, start: object, end: object) -> str | None:
    if not isinstance(doc_id, str):
        return "has a doc_id that is no text"
    # True is an int in Python, but no position in a text.
    if any(isinstance(offset, bool) or not isinstance(offset, int) for offset in (start, end)):
        return "has a start or end that is no whole number"
    return None


def _range_problem(start: int, end: int) -> str | None:
    if start < 0 or end < 0:
        return "has a negative start or end"
    return "ends before it starts" if end < start else None


def _explain(place: str, span: tuple[object, object, object], problem: str) -> str:
    doc_id, start, end = span
    return (
        f"{place} (doc_id={doc_id!r}, start={start!r}, end={end!r}) {problem}; allowed is a text and two "
        "whole numbers with 0 <= start <= end, half-open, in code points; correct the producer, or leave "
        'inverted and negative spans out with read_spans(rows, inverted_spans="drop")'
    )


def read_spans(
    rows: Iterable[Mapping[str, Any]], *, inverted_spans: InvertedSpans = "error"
) -> list[CharacterSpan]:
    """Spans from rows with `doc_id`, `start` and `end`, in the order given.

    An inverted or negative span is an error that names it; with `inverted_spans="drop"` it is left out
    (A0.4). A row that is no span at all is an error under either reading.
    """
    if inverted_spans not in get_args(InvertedSpans):
        raise UnknownReading(f'inverted_spans is {inverted_spans!r}; allowed are "error" and "drop"')
    spans = (
        _read_span(row, f"span at index {index}", inverted_spans=inverted_spans)
        for index, row in enumerate(rows)
    )
    return [span for span in spans if span is not None]


def _read_span(row: Mapping[str, Any], place: str, *, inverted_spans: InvertedSpans) -> CharacterSpan | None:
    if not isinstance(row, Mapping):
        raise InvalidSpan(
            f"{place} is {row!r}, a {type(row).__name__}; allowed is a mapping with doc_id, start and end"
        )
    doc_id: Any = row.get("doc_id")
    start: Any = row.get("start")
    end: Any = row.get("end")
    problem = _type_problem(doc_id, start, end)
    if problem is None:
        problem = _range_problem(start, end)
        if problem and inverted_spans == "drop":
            return None
    if problem:
        raise InvalidSpan(_explain(place, (doc_id, start, end), problem))
    return CharacterSpan(doc_id, start, end)


def merge_overlapping_spans(spans: Iterable[CharacterSpan]) -> list[CharacterSpan]:
    """The fewest spans that cover exactly the same characters, sorted by document and start.

    Overlapping and adjacent spans of one document become one; spans without a character disappear.
    """
    merged: list[CharacterSpan] = []
    checked = (_checked(span, index) for index, span in enumerate(spans))
    occupied = (span for span in checked if span.end > span.start)
    for span in sorted(occupied, key=attrgetter("doc_id", "start")):
        last = merged[-1] if merged else None
        if last is None or span.doc_id != last.doc_id or span.start > last.end:
            merged.append(span)
        elif span.end > last.end:
            merged[-1] = CharacterSpan(last.doc_id, last.start, span.end)
    return merged


def _checked(span: CharacterSpan, index: int) -> CharacterSpan:
    if all(hasattr(span, name) for name in ("doc_id", "start", "end")):
        return span
    raise InvalidSpan(
        f"span at index {index} is {span!r}, a {type(span).__name__}; allowed is a CharacterSpan(doc_id, start, end); "
        "read_spans(rows) makes them from mappings with these keys"
    )


def calculate_overlap(first: Iterable[CharacterSpan], second: Iterable[CharacterSpan]) -> int:
    """The number of characters that both sets of spans cover, each counted once."""
    return _cover(first, second).shared


@dataclass(frozen=True, slots=True)
class SpanCover:
    """Characters covered by the retrieved spans, by the expected ones, and by both."""

    retrieved: int
    expected: int
    shared: int


def _cover(retrieved: Iterable[CharacterSpan], expected: Iterable[CharacterSpan]) -> SpanCover:
    merged_retrieved = merge_overlapping_spans(retrieved)
    merged_expected = merge_overlapping_spans(expected)
    retrieved_characters = _characters(merged_retrieved)
    expected_characters = _characters(merged_expected)
    either = _characters(merge_overlapping_spans([*merged_retrieved, *merged_expected]))
    shared = retrieved_characters + expected_characters - either
    return SpanCover(retrieved_characters, expected_characters, shared)


def _characters(merged: Sequence[CharacterSpan]) -> int:
    return sum(span.end - span.start for span in merged)


@runtime_checkable
class TokenLevelMetric(Protocol):
    """A named number computed from retrieved and expected spans."""

    @property
    def name(self) -> str: ...

    def calculate(
        self, retrieved: Sequence[CharacterSpan], ground_truth: Sequence[CharacterSpan]
    ) -> float: ...


@dataclass(frozen=True, slots=True)
class SpanMetric:
    """A span metric made from a formula over the covered characters.

    Runs store what sql/facts/span_cover.sql and sql/metrics/span_overlap.sql compute; this is their reference, held
    equal by tests/metrics/test_stored_values.py.
    """

    name: str
    formula: Callable[[SpanCover], float]

    def calculate(
        self,
        retrieved: Sequence[CharacterSpan],
        ground_truth: Sequence[CharacterSpan] | None = None,
        *,
        groundTruth: Sequence[CharacterSpan] | None = None,
    ) -> float:
        return self.formula(_cover(retrieved, named_ground_truth(ground_truth, groundTruth)))


def _recall(cover: SpanCover) -> float:
    return cover.shared / cover.expected if cover.expected else 1.0


def _precision(cover: SpanCover) -> float:
    return cover.shared / cover.retrieved if cover.retrieved else 0.0


def _intersection_over_union(cover: SpanCover) -> float:
    either = cover.retrieved + cover.expected - cover.shared
    return cover.shared / either if either else 1.0


span_recall: TokenLevelMetric = SpanMetric("spanRecall", _recall)
span_precision: TokenLevelMetric = SpanMetric("spanPrecision", _precision)
span_iou: TokenLevelMetric = SpanMetric("spanIoU", _intersection_over_union)
