"""What is done with a span that ends before it starts, or starts before 0 (A0.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, TypeVar

from eval_pipeline.records import GoldenRow, HitSpan, Result, Span

InvertedSpans: TypeAlias = Literal["error", "drop"]
ERROR: Final[InvertedSpans] = "error"
DROP: Final[InvertedSpans] = "drop"
S = TypeVar("S", Span, HitSpan)


def drop_from_result(record: Result) -> None:
    """Leave such spans of the hits out."""
    for hit in record.hits_top_k or []:
        hit.source_spans = straight(hit.source_spans)


def drop_from_golden_row(row: GoldenRow) -> None:
    """The same for what a golden row labels."""
    row.ground_truth_spans = straight(row.ground_truth_spans)
    if row.expected_chunk_spans:
        row.expected_chunk_spans = {
            chunk_id: straight(spans) or [] for chunk_id, spans in row.expected_chunk_spans.items()
        }


def straight(spans: Sequence[S] | None) -> list[S] | None:
    """The spans that run forwards, from 0 at the earliest."""
    return None if spans is None else [span for span in spans if 0 <= span.start <= span.end]
