"""What the pages are made of: documents of the product, and rows beside them."""

# Plain values, no store.

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval_pipeline.comparing.documents import CompareReport
from eval_pipeline.showing.run_report import RunReport

Document = Mapping[str, Any]


@dataclass(frozen=True)
class MetricFacts:
    """One key of the catalogue. Chunk-level ones mean nothing to another chunker than the one that labels name."""

    key: str
    formula: str
    base: str
    meaning: str
    applies: str | None
    undefined: str | None
    scale: str
    value_range: tuple[float | None, float | None]
    direction: str
    is_chunk_level: bool = False
    family: str = ""


@dataclass(frozen=True)
class FormulaState:
    """What a formula's values of one run were computed with, and whether that still holds."""

    formula: str
    version: int | None
    fingerprint: str | None
    state: str
    reason: str | None = None
    keys: tuple[str, ...] = ()

    @property
    def mark(self) -> str | None:
        """What a reader has to be told; None where the values are fresh."""
        if self.state == "fresh":
            return None
        return f"{self.state}: {self.reason}" if self.reason else self.state


@dataclass(frozen=True)
class RunFacts:
    """What run.json says of a run."""

    run_id: str
    dataset: str
    suite: str | None
    night: dt.date | None
    created_at: dt.datetime | None
    attempt: int | None
    replaces: str | None
    replicate_of: str | None
    commit_hash: str | None
    config: Mapping[str, object]


@dataclass(frozen=True)
class ChunkRow:
    """A hit or an expected chunk; `text` is None where no text is stored."""

    chunk_id: str
    text: str | None = None


@dataclass(frozen=True)
class QueryRow:
    """One scored query of one run."""

    query_key: int
    query_id: str
    question: str | None
    category: str | None
    error: str | None
    is_failed: bool
    n_expected: int | None
    first_rank: int | None
    answer: str | None


@dataclass(frozen=True)
class QueryTexts:
    """What there is to read about one query: expected chunks, and the hits of each run that is looked at."""

    expected: Sequence[ChunkRow] = ()
    hits: Sequence[Sequence[ChunkRow]] = ()


@dataclass(frozen=True)
class RunMaterial:
    """Everything on the page of a run."""

    document: RunReport
    facts: RunFacts
    metrics: Sequence[MetricFacts]
    states: Mapping[str, FormulaState]
    queries: Sequence[QueryRow]
    values: Mapping[str, Mapping[str, float | None]]
    texts: Mapping[str, QueryTexts]
    latencies: Sequence[float]
    field_errors: Mapping[str, Mapping[str, int]]
    guide_version: str
    with_text: bool = True


@dataclass(frozen=True)
class PairMaterial:
    """Everything on the page of two runs."""

    document: CompareReport
    facts: tuple[RunFacts, RunFacts]
    metrics: Sequence[MetricFacts]
    states: tuple[Mapping[str, FormulaState], Mapping[str, FormulaState]]
    queries: tuple[Mapping[str, QueryRow], Mapping[str, QueryRow]]
    texts: Mapping[str, QueryTexts]
    with_text: bool = True


@dataclass(frozen=True)
class GateVerdict:
    """What a gate said of a run: as a whole, and of each metric; `baseline` is the run it was held against."""

    verdict: str
    baseline: str
    metrics: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SuiteRun:
    """A run as the table of a suite shows it."""

    facts: RunFacts
    night: dt.date
    n_golden: int
    n_results: int
    n_failed: int
    n_quarantined: int
    is_complete: bool
    is_answer: bool
    replaced_by: str | None
    values: Mapping[str, tuple[float | None, int]]
    fingerprints: Mapping[str, str]
    n_stale: int
    is_shown: bool
    gate: GateVerdict | None = None

    @property
    def n_missing(self) -> int:
        """Golden queries without a result."""
        return self.n_golden - self.n_results


@dataclass(frozen=True)
class GateMark:
    """How far a metric may fall, or the value it has to reach."""

    is_higher_better: bool
    margin: float | None = None
    target: float | None = None


@dataclass(frozen=True)
class SuiteMaterial:
    """The runs of one suite on one dataset, oldest first."""

    suite: str | None
    dataset: str
    runs: Sequence[SuiteRun]
    n_left_out: int
    metrics: Sequence[MetricFacts]
    gate: Mapping[str, GateMark] = field(default_factory=dict)
    baseline: str | None = None
