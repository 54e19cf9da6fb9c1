"""S0: chunk-id and character-span metrics, straight from their sentences.

Spans are compared as plain sets of characters, so that nothing here depends on interval arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Span(NamedTuple):
    doc_id: str
    start: int
    end: int


Character = tuple[str, int]


def checked_spans(spans: Iterable[Span], *, inverted: str = "error") -> list[Span]:
    """A0.4: an inverted or negative span is refused by name, or dropped when that reading is chosen."""
    kept = []
    for span in spans:
        if span.start < 0 or span.end < span.start:
            if inverted == "error":
                raise ValueError(f"span {span} is inverted or negative: 0 <= start <= end is required")
            continue
        kept.append(span)
    return kept


def characters(spans: Iterable[Span], *, inverted: str = "error") -> set[Character]:
    """Every (document, position) the spans cover, each once; a zero-length span covers none (A0.3)."""
    covered: set[Character] = set()
    for span in checked_spans(spans, inverted=inverted):
        covered.update((span.doc_id, position) for position in range(span.start, span.end))
    return covered


def merge_overlapping_spans(spans: Iterable[Span], *, inverted: str = "error") -> list[Span]:
    """S0.6: overlapping and adjacent spans of one document become one; sorted by document and start (A0.8)."""
    merged: list[Span] = []
    for span in sorted(checked_spans(spans, inverted=inverted)):
        if span.start == span.end:
            continue
        if merged and merged[-1].doc_id == span.doc_id and span.start <= merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged


def calculate_overlap(left: Iterable[Span], right: Iterable[Span]) -> int:
    return len(characters(left) & characters(right))


def span_recall(retrieved: Iterable[Span], truth: Iterable[Span], *, inverted: str = "error") -> float:
    expected = characters(truth, inverted=inverted)
    if not expected:
        return 1.0
    return len(characters(retrieved, inverted=inverted) & expected) / len(expected)


def span_precision(retrieved: Iterable[Span], truth: Iterable[Span], *, inverted: str = "error") -> float:
    found = characters(retrieved, inverted=inverted)
    if not found:
        return 0.0
    return len(found & characters(truth, inverted=inverted)) / len(found)


def span_iou(retrieved: Iterable[Span], truth: Iterable[Span], *, inverted: str = "error") -> float:
    found = characters(retrieved, inverted=inverted)
    expected = characters(truth, inverted=inverted)
    if not found and not expected:
        return 1.0
    return len(found & expected) / len(found | expected)


def chunk_recall(retrieved: Sequence[str], truth: Sequence[str]) -> float:
    if not truth:
        return 1.0
    return len(set(retrieved) & set(truth)) / len(set(truth))


def chunk_precision(retrieved: Sequence[str], truth: Sequence[str]) -> float:
    if not retrieved:
        return 0.0
    return len(set(retrieved) & set(truth)) / len(set(retrieved))


def chunk_f1(retrieved: Sequence[str], truth: Sequence[str]) -> float:
    return harmonic_mean(chunk_precision(retrieved, truth), chunk_recall(retrieved, truth))


def harmonic_mean(precision: float, recall: float) -> float:
    if precision + recall == 0:
        return 0.0
    return 2 * precision * recall / (precision + recall)
