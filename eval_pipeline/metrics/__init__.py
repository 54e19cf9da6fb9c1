"""Chunk, span and extraction metrics as pure functions, importable without the rest of the product.

Chunk and span metrics are objects with a `name` and `calculate(retrieved, ground_truth)`; the extraction
metrics are functions from documents to discrepancies, from there to counts and rates, and on to aggregates.

What runs store of chunks and spans is computed in SQL (sql/metrics/chunk_overlap.sql, span_overlap.sql). These objects
are its reference: tests/metrics/test_stored_values.py holds the two equal, and whoever changes the one changes the
other. The extraction functions are what runs themselves call: a change to them makes stored values stale.

The eight names in camel case, such as `chunkRecall`, and the keyword `groundTruth` work too.
"""

from eval_pipeline.metrics.chunks import (
    ChunkId,
    ChunkLevelMetric,
    ChunkMetric,
    chunk_f1,
    chunk_precision,
    chunk_recall,
)
from eval_pipeline.metrics.errors import (
    ImpossibleCounts,
    InvalidChunkIds,
    InvalidField,
    InvalidSpan,
    MetricInputError,
    UnexpectedEvalCount,
    UnknownErrorType,
    UnknownReading,
    UnusableMetrics,
)
from eval_pipeline.metrics.extraction import (
    EXTRACTION_FORMULA_VERSION,
    MACRO_F1_TARGET,
    AggregateMetrics,
    ConfusionCounts,
    Discrepancy,
    EvalMetrics,
    FalseNegativePolicy,
    FieldAccuracy,
    Rates,
    StrictRates,
    compute_aggregate_metrics,
    compute_confusion_counts,
    compute_field_accuracy,
    compute_metrics,
    count_by_type,
    is_data_error,
    is_target_met,
)
from eval_pipeline.metrics.fields import (
    ERROR_TYPES,
    ErrorType,
    FieldDiscrepancy,
    find_discrepancies,
    flatten_fields,
)
from eval_pipeline.metrics.spans import (
    CharacterSpan,
    InvertedSpans,
    SpanMetric,
    SpanRange,
    TokenLevelMetric,
    calculate_overlap,
    merge_overlapping_spans,
    read_spans,
    span_iou,
    span_precision,
    span_recall,
)

__all__ = [
    "ERROR_TYPES",
    "EXTRACTION_FORMULA_VERSION",
    "MACRO_F1_TARGET",
    "AggregateMetrics",
    "CharacterSpan",
    "ChunkId",
    "ChunkLevelMetric",
    "ChunkMetric",
    "ConfusionCounts",
    "Discrepancy",
    "ErrorType",
    "EvalMetrics",
    "FalseNegativePolicy",
    "FieldAccuracy",
    "FieldDiscrepancy",
    "ImpossibleCounts",
    "InvalidChunkIds",
    "InvalidField",
    "InvalidSpan",
    "InvertedSpans",
    "MetricInputError",
    "Rates",
    "SpanMetric",
    "SpanRange",
    "StrictRates",
    "TokenLevelMetric",
    "UnexpectedEvalCount",
    "UnknownErrorType",
    "UnknownReading",
    "UnusableMetrics",
    "calculateOverlap",
    "calculate_overlap",
    "chunkF1",
    "chunkPrecision",
    "chunkRecall",
    "chunk_f1",
    "chunk_precision",
    "chunk_recall",
    "compute_aggregate_metrics",
    "compute_confusion_counts",
    "compute_field_accuracy",
    "compute_metrics",
    "count_by_type",
    "find_discrepancies",
    "flatten_fields",
    "is_data_error",
    "is_target_met",
    "mergeOverlappingSpans",
    "merge_overlapping_spans",
    "read_spans",
    "spanIoU",
    "spanPrecision",
    "spanRecall",
    "span_iou",
    "span_precision",
    "span_recall",
]

# The names of the requirements.
chunkRecall = chunk_recall
chunkPrecision = chunk_precision
chunkF1 = chunk_f1
mergeOverlappingSpans = merge_overlapping_spans
spanRecall = span_recall
spanPrecision = span_precision
spanIoU = span_iou
calculateOverlap = calculate_overlap
