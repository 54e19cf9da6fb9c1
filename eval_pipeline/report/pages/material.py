"""What the pages are made of: documents of the product, and rows beside them."""

# Plain values, no store.

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from eval_pipeline.comparing.documents import CompareReport, GateReport
from eval_pipeline.report.links import NO_LINKS, Links
from eval_pipeline.showing.run_report import RunReport


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
    judge_reasoning: str | None = None
    unsupported_claims: Sequence[str] = ()


@dataclass(frozen=True)
class QueryTexts:
    """What there is to read about one query: expected chunks, and the hits of each run that is looked at."""

    expected: Sequence[ChunkRow] = ()
    hits: Sequence[Sequence[ChunkRow]] = ()


@dataclass(frozen=True)
class NightCompared:
    """A run beside another; without a document, `why` nobody can say what changed."""

    against: str
    run_a: str
    run_b: str
    document: CompareReport | None = None
    why: str = ""


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
    links: Links = NO_LINKS
    compared: Sequence[NightCompared] = ()


@dataclass(frozen=True)
class PairMaterial:
    """Everything on the page of two runs; of a query its slices, and the metrics whose value moved.

    Where `whole` is an address, this is what the first screen needs, and the rest is there.
    """

    document: CompareReport
    facts: tuple[RunFacts, RunFacts]
    metrics: Sequence[MetricFacts]
    states: tuple[Mapping[str, FormulaState], Mapping[str, FormulaState]] = ({}, {})
    queries: tuple[Mapping[str, QueryRow], Mapping[str, QueryRow]] = ({}, {})
    texts: Mapping[str, QueryTexts] = field(default_factory=dict)
    with_text: bool = True
    slices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    moved: Mapping[str, Sequence[str]] = field(default_factory=dict)
    gate: GateReport | None = None
    links: Links = NO_LINKS
    whole: str | None = None
    margins: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class GateVerdict:
    """What a gate said of a run: as a whole, and of each metric; `baseline` is the run it was held against."""

    verdict: str
    baseline: str
    metrics: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SuiteRun:
    """A run as the table of a suite shows it; `golden` is the golden set it was asked, `labels` those behind values."""

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
    is_implausible: bool = False
    is_unlabelled: bool = False
    golden: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

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
class Night:
    """The run that stands for a night, and in one or two words what was said of it."""

    run_id: str
    night: dt.date
    verdict: str


@dataclass(frozen=True)
class QuestionRanks:
    """A question's ranks, a letter a night, the newest first; how often it was found after a miss, or the reverse."""

    query_id: str
    question: str | None
    n_flips: int
    ranks: str


@dataclass(frozen=True)
class RankMatrix:
    """The questions that flip most, over the newest nights; of how many, and over how many nights flips are counted."""

    nights: Sequence[Night]
    questions: Sequence[QuestionRanks]
    n_nights: int
    n_questions: int
    n_counted: int


@dataclass(frozen=True)
class SuiteMaterial:
    """The newest runs of one suite on one dataset, oldest first; `nights` are all; the baseline may be an older run."""

    suite: str | None
    dataset: str
    runs: Sequence[SuiteRun]
    n_left_out: int
    metrics: Sequence[MetricFacts]
    gate: Mapping[str, GateMark] = field(default_factory=dict)
    baseline: str | None = None
    links: Links = NO_LINKS
    nights: Sequence[Night] = ()
    n_incomplete: int = 0
    compared: Sequence[NightCompared] = ()
    ranks: RankMatrix | None = None
    baseline_run: SuiteRun | None = None
    with_text: bool = True
