"""Chunk metrics: how well the retrieved chunk ids cover the expected ones (S0.1 to S0.5)."""

# Both sides are sets: a repeated id counts once (A0.2). What an empty side means is stated per metric and
# taken literally, so with both sides empty recall is 1, precision 0 and F1 0 (A0.5).

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar, cast, runtime_checkable

from eval_pipeline.metrics.errors import InvalidChunkIds

ChunkId: TypeAlias = str
T = TypeVar("T")
ChunkFormula: TypeAlias = Callable[[frozenset[ChunkId], frozenset[ChunkId]], float]


@runtime_checkable
class ChunkLevelMetric(Protocol):
    """A named number computed from retrieved and expected chunk ids."""

    @property
    def name(self) -> str: ...

    def calculate(self, retrieved: Sequence[ChunkId], ground_truth: Sequence[ChunkId]) -> float: ...


@dataclass(frozen=True, slots=True)
class ChunkMetric:
    """A chunk metric made from a formula over two sets of ids.

    Runs store what sql/metrics/chunk_overlap.sql computes; this is its reference, held equal by
    tests/metrics/test_stored_values.py.
    """

    name: str
    formula: ChunkFormula

    def calculate(
        self,
        retrieved: Sequence[ChunkId],
        ground_truth: Sequence[ChunkId] | None = None,
        *,
        groundTruth: Sequence[ChunkId] | None = None,
    ) -> float:
        return self.formula(
            _distinct_ids(retrieved, "retrieved"),
            _distinct_ids(named_ground_truth(ground_truth, groundTruth), "ground_truth"),
        )


def named_ground_truth(ground_truth: T | None, camel_case: T | None) -> T:
    """The ground truth by either of its names; passing both or none raises a TypeError."""
    if (ground_truth is None) == (camel_case is None):
        raise TypeError("calculate() takes the ground truth once: as ground_truth or as groundTruth")
    return cast(T, camel_case if ground_truth is None else ground_truth)


def _distinct_ids(ids: Sequence[ChunkId], argument: str) -> frozenset[ChunkId]:
    # A text is itself a sequence of texts, so neither Python nor a type checker would object.
    if isinstance(ids, str):
        raise InvalidChunkIds(
            f"{argument} is the text {ids!r}, which would be read letter by letter; "
            f"allowed is a list of chunk ids; for a single chunk pass [{ids!r}]"
        )
    return frozenset(ids)


def _recall(retrieved: frozenset[ChunkId], expected: frozenset[ChunkId]) -> float:
    return len(retrieved & expected) / len(expected) if expected else 1.0


def _precision(retrieved: frozenset[ChunkId], expected: frozenset[ChunkId]) -> float:
    return len(retrieved & expected) / len(retrieved) if retrieved else 0.0


def _f1(retrieved: frozenset[ChunkId], expected: frozenset[ChunkId]) -> float:
    precision = _precision(retrieved, expected)
    recall = _recall(retrieved, expected)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


chunk_recall: ChunkLevelMetric = ChunkMetric("chunkRecall", _recall)
chunk_precision: ChunkLevelMetric = ChunkMetric("chunkPrecision", _precision)
chunk_f1: ChunkLevelMetric = ChunkMetric("chunkF1", _f1)
