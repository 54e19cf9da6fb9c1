"""The documents of `compare` and `gate`, with the names that stand in their JSON."""

# What the store does not keep of a comparison has a default, and so has what a later version adds: documents that an
# earlier one kept are read by these types.

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from msgspec import field, structs

from eval_pipeline.documents import UNSET, Document, Help, ScoreCoverage, UnsetType
from eval_pipeline.words import signed

FORMAT: Final = 1
MODE: Final = "chunker_version_match"
EXACT: Final = "exact"
FALLBACK: Final = "fallback_doc_span"
# What the warning about a run holds whose ids nothing knows.
SAYS_IMPLAUSIBLE: Final = " is implausible: "
# How the warning begins that two runs were matched by id without a word on their chunkers (A3.21).
UNRECORDED: Final = "no chunker version recorded on either side: matched by id"
# How the trust line begins about datasets without golden sets.
UNLABELLED: Final = "no labels found"
ADJUSTMENT: Final = "benjamini_hochberg"
# What a test says of a difference.
TESTED: Final = ("ci_low", "ci_high", "p_value", "p_adjusted", "test", "n", "mde", "adjusted_as")
# The compared values, over the queries or cases that both runs define.
MEANS: Final = ("a", "b", "delta")
RATIO: Final = ("ratio", "ratio_low", "ratio_high", "ratio_p")
# As `stats` calls the test of what was computed from the same bytes; to name it costs nothing here.
IDENTICAL: Final = "identical"
# The test of times: by the spread between runs of one configuration.
BETWEEN_RUNS: Final = "between_runs"
MEAN_TIME: Final = "latency_mean_ms"
# What stands in the place of an adjusted p where no key of the family asks.
NOT_ASKED: Final = "no question"

# What is said of a difference that was asked about.
BETTER: Final = "better"
WORSE: Final = "worse"
UNCLEAR: Final = "not shown"

Number = float | None
Measured = int | float | None


class Deltas(dict[str, object]):
    """The deltas by metric, `hit@1`, and by the nested keys of `aggregate_json`, `["hit_at_k"]["1"]`."""

    def __missing__(self, key: str) -> dict[str, object]:
        pattern = {"hit_at_k": r"hit@(\d+)", "recall_at_k_doc": r"recall@(\d+)_doc"}[key]
        return {found[1]: delta for name, delta in self.items() if (found := re.fullmatch(pattern, name))}


class Tested(Document, frozen=True, kw_only=True):
    """How sure one metric's difference is."""

    a: Annotated[Number, Help("Mean of run a over the queries that both runs define.")] = None
    b: Annotated[Number, Help("Mean of run b over the queries that both runs define.")] = None
    delta: Annotated[Number, Help("b − a of these two values; null if no query is defined in both.")] = None
    ci_low: Annotated[Number, Help("Lower end of the 95 % interval of that difference.")]
    ci_high: Annotated[Number, Help("Upper end of the 95 % interval of that difference.")]
    p_value: Annotated[Number, Help("How likely chance alone moves as much, of this metric alone.")]
    p_adjusted: Annotated[
        Number,
        Help("The same, adjusted for the families that were asked; null where `adjusted_as` says why."),
    ]
    test: Annotated[str | None, Help("imagined_moves, identical, or between_runs (times); null: not tested.")]
    n: Annotated[int, Help("How many units both runs define: queries, or cases of extraction.")]
    mde: Annotated[
        Number, Help("The smallest difference that so many units show in four of five cases; null unknown.")
    ]
    family: Annotated[str | None, Help("The family that it is asked with.")] = None
    adjusted_as: Annotated[
        str | None,
        Help("Why it has no adjusted p of its own: what it is a part of, or that too few moved; else null."),
    ] = None
    is_identical: Annotated[bool, Help("Whether both runs were computed from the same bytes.")] = False
    ratio: Annotated[Number | UnsetType, Help("Of times: b is so many times a, the geometric mean.")] = UNSET
    ratio_low: Annotated[Number | UnsetType, Help("Lower end of the 95 % interval of the ratio.")] = UNSET
    ratio_high: Annotated[Number | UnsetType, Help("Upper end of the 95 % interval of the ratio.")] = UNSET
    ratio_p: Annotated[
        Number | UnsetType,
        Help("How likely chance alone gives such a ratio; what the verdict on times rests on."),
    ] = UNSET
    verdict: Annotated[
        str | None,
        Help("better, worse or not shown; null where the key asks nothing itself, or neither way is better."),
    ] = None


class QueryVerdict(Document, frozen=True, kw_only=True):
    """What became of one query that both runs answered."""

    query_id: Annotated[str, Help("Which query.")]
    kind: Annotated[
        str,
        Help(
            "win, loss, draw, rank_up, rank_down, not_applicable (expects no chunk), not_comparable, or regression "
            "where that is configured as a kind of its own."
        ),
    ]
    regression: Annotated[bool, Help("Whether b lost an expected chunk that a had found.")]
    regressed_chunk_ids: Annotated[list[str], Help("The expected chunks that a found and b did not.")]
    a_hit_rank: Annotated[int | None, Help("Where a has the first expected chunk; null where it has none.")]
    b_hit_rank: Annotated[int | None, Help("Where b has the first expected chunk; null where it has none.")]
    note: Annotated[str | None, Help("Known differences of the runs, and whether the query failed in one.")]


class Counts(Document, frozen=True, kw_only=True):
    """How many queries there are of each kind."""

    win: Annotated[int, Help("Found by b and not by a.")]
    loss: Annotated[int, Help("Found by a and not by b.")]
    draw: Annotated[int, Help("At the same rank in both, or found by neither.")]
    rank_up: Annotated[int, Help("Found by both, earlier in b.")]
    rank_down: Annotated[int, Help("Found by both, later in b.")]
    not_applicable: Annotated[int, Help("Queries that expect no chunk.")]
    not_comparable: Annotated[int, Help("Queries of whose expected chunks nothing is known.")]
    regressions: Annotated[int, Help("Queries that lost an expected chunk; they are of any kind.")]

    def by_kind(self) -> dict[str, int]:
        """Kind → how many, in this order."""
        return structs.asdict(self)


class FallbackMetrics(Document, frozen=True, kw_only=True):
    """Both runs measured by document and span, where chunk ids cannot be compared."""

    a: Annotated[dict[str, Measured], Help("Metric → value of run a; `n` is the number of queries.")]
    b: Annotated[dict[str, Measured], Help("Metric → value of run b; `n` is the number of queries.")]
    deltas: Annotated[dict[str, Number], Help("Metric → b − a of the rounded values.")]

    @property
    def n_queries(self) -> int:
        """Over how many queries both were measured."""
        return int(self.a.get("n") or 0)


class SliceMoved(Document, frozen=True, kw_only=True):
    """A slice that moved, by the metric that says so most surely."""

    slice: Annotated[str, Help("The dimension: tag, category, difficulty, vault or answerable.")]
    slice_value: Annotated[str, Help("Which queries of the dimension.")]
    metric: Annotated[str, Help("The metric that moved most surely in it.")]
    n_queries: Annotated[int, Help("Queries of both runs that stand in the slice.")]
    n: Annotated[int, Help("Those of them for which both runs define the metric.")]
    delta: Annotated[Number, Help("The mean of b − a over these.")]
    p_value: Annotated[Number, Help("By a sign test; null where too few queries moved for one.")]
    p_adjusted: Annotated[Number, Help("The same, adjusted for every slice and metric that was tested.")]
    test: Annotated[str | None, Help("sign_exact; null where too few queries moved for one.")] = None


class PartCompared(Document, frozen=True, kw_only=True):
    """A value that is measured over a whole run; extraction and the mean time of a query are tested."""

    a: Annotated[Measured, Help("Its value of run a.")]
    b: Annotated[Measured, Help("Its value of run b.")]
    delta: Annotated[Measured, Help("b − a of the rounded values.")]
    ci_low: Annotated[Number | UnsetType, Help("Lower end of the 95 % interval of the difference.")] = UNSET
    ci_high: Annotated[Number | UnsetType, Help("Upper end of the 95 % interval of the difference.")] = UNSET
    p_value: Annotated[Number | UnsetType, Help("How likely chance alone moves as much.")] = UNSET
    p_adjusted: Annotated[Number | UnsetType, Help("The same; null where `adjusted_as` says why.")] = UNSET
    test: Annotated[str | UnsetType | None, Help("The test over the cases, or queries, of both runs.")] = (
        UNSET
    )
    n: Annotated[int | UnsetType, Help("How many cases, or queries, both runs have.")] = UNSET
    mde: Annotated[Number | UnsetType, Help("The smallest difference that so many show.")] = UNSET
    adjusted_as: Annotated[
        str | UnsetType | None, Help("Why it has no adjusted p of its own; else null.")
    ] = UNSET
    ratio: Annotated[Number | UnsetType, Help("Of times: b is so many times a, the geometric mean.")] = UNSET
    ratio_low: Annotated[Number | UnsetType, Help("Lower end of the 95 % interval of the ratio.")] = UNSET
    ratio_high: Annotated[Number | UnsetType, Help("Upper end of the 95 % interval of the ratio.")] = UNSET
    ratio_p: Annotated[Number | UnsetType, Help("How likely chance alone gives such a ratio.")] = UNSET
    a_in_both: Annotated[Number | UnsetType, Help("Run a over the cases, or queries, of both runs.")] = UNSET
    b_in_both: Annotated[Number | UnsetType, Help("Run b over the cases, or queries, of both runs.")] = UNSET
    delta_in_both: Annotated[
        Number | UnsetType, Help("b − a over the cases, or queries, of both runs: what is tested.")
    ] = UNSET
    family: Annotated[str | UnsetType | None, Help("The family that it is asked with.")] = UNSET
    verdict: Annotated[
        str | UnsetType | None, Help("better, worse or not shown; null where it asks nothing itself.")
    ] = UNSET

    @property
    def tested(self) -> Tested | None:
        """How sure the difference is; None where it is not tested."""
        if self.test is UNSET:
            return None
        fields = {name: name for name in (*TESTED, *RATIO, "family", "verdict")}
        fields |= {name: f"{name}_in_both" for name in MEANS}
        known = {
            name: value for name, field in fields.items() if (value := getattr(self, field)) is not UNSET
        }
        return Tested(is_identical=self.test == IDENTICAL, **known)


class NoiseBand(Document, frozen=True, kw_only=True):
    """How far a metric moves between identical runs."""

    low: Annotated[float, Help("As far down as identical runs move.")]
    high: Annotated[float, Help("As far up as identical runs move.")]
    pairs: Annotated[int, Help("How many pairs of identical runs say so.")]

    def holds(self, delta: float) -> bool:
        """Whether a difference is no larger than identical runs differ."""
        return self.low <= delta <= self.high


class IdenticalPairs(Document, frozen=True, kw_only=True):
    """The pairs of identical runs from which noise is known."""

    n: Annotated[int, Help("How many there are in the recent past.")] = 0
    needed: Annotated[int, Help("How many a band takes.")] = 0


class FlakyQuery(Document, frozen=True, kw_only=True):
    """A query that one of two identical runs found, and the other did not."""

    query_id: Annotated[str, Help("Which query.")]
    flips: Annotated[int, Help("In how many pairs of identical runs.")]
    pairs: Annotated[int, Help("Of how many that both answered it.")]


class CasesCompared(Document, frozen=True, kw_only=True):
    """The extraction cases of both runs."""

    in_both: Annotated[int, Help("Cases that both runs have.")]
    only_in_a: Annotated[list[str], Help("Cases that only run a has.")]
    only_in_b: Annotated[list[str], Help("Cases that only run b has.")]
    failed_in_a: Annotated[list[str], Help("Cases that failed to run in a.")]
    failed_in_b: Annotated[list[str], Help("Cases that failed to run in b.")]
    scored_in_both: Annotated[int, Help("Cases that both runs scored.")]
    macro_f1_delta_in_both: Annotated[Number, Help("How far their mean F1 moved; null without any.")]


class PairCoverage(Document, frozen=True, kw_only=True):
    """How many answers of both runs have the score that they need, over the queries of both."""

    a: Annotated[ScoreCoverage, Help("The answers of run a, or of the baseline.")]
    b: Annotated[ScoreCoverage, Help("The answers of run b, or of the candidate.")]
    change_low: Annotated[
        Number,
        Help("The lowest b − a that any missing scores could lead to; null if their range is unknown."),
    ] = None
    change_high: Annotated[
        Number, Help("The highest b − a that they could lead to; null if their range is unknown.")
    ] = None

    @property
    def is_partial(self) -> bool:
        """Whether more than 2 % of the answers of a run lack a score."""
        return bool(self.a.in_words or self.b.in_words)

    @property
    def is_undecided(self) -> bool:
        """Whether the missing scores could turn the direction of the change."""
        if self.change_low is None or self.change_high is None:
            return self.is_partial
        return self.change_low <= 0 <= self.change_high

    def in_words(self, metric: str, a: str, b: str) -> str:
        """The coverage of both runs, and how far the missing scores could move the change."""
        counts = (
            f"scored {self.b.scored:,} of {self.b.needed:,} in {b}, "
            f"{self.a.scored:,} of {self.a.needed:,} in {a}"
        )
        if self.change_low is None or self.change_high is None:
            prefix, _, name = metric.partition(".")
            table = f'{prefix}."{name}"' if "." in name else metric
            return f"{counts}; `range` under [{table}] of eval-pipeline.toml tells how far the others could move it"
        return (
            f"{counts}; with the scores of the others the change is between {signed(self.change_low)} and "
            f"{signed(self.change_high)}"
        )


class CompareReport(Document, frozen=True, kw_only=True):
    """Two runs side by side: what moved from a to b, how sure that is, and which queries it was."""

    format: Annotated[int, Help("The format of this document.")] = FORMAT
    run_a: Annotated[str, Help("The run that is held against.")]
    run_b: Annotated[str, Help("The run in question.")]
    aggregate_a: Annotated[dict[str, Number], Help("Metric → value of run a over its own queries.")]
    aggregate_b: Annotated[dict[str, Number], Help("Metric → value of run b over its own queries.")]
    deltas: Annotated[
        dict[str, str | Number],
        Help(
            "Metric → b − a of the rounded values; first `chunker_version_match`: exact, or fallback_doc_span where "
            "expected chunks are matched by document and span."
        ),
    ]
    per_query: Annotated[list[QueryVerdict], Help("The queries that both runs answered, in golden order.")]
    counts: Annotated[Counts, Help("How many queries there are of each kind.")]
    causes: Annotated[list[str], Help("Known differences of the two configurations.")]
    only_in_a: Annotated[list[str], Help("Queries that only run a answered.")] = field(default_factory=list)
    only_in_b: Annotated[list[str], Help("Queries that only run b answered.")] = field(default_factory=list)
    warnings: Annotated[list[str], Help("What to know before believing any of it.")]
    fallback_metrics: Annotated[
        FallbackMetrics | None, Help("Both runs by document and span; null where chunk ids are compared.")
    ]
    significance: Annotated[dict[str, Tested], Help("Metric → how sure its difference is.")]
    adjustment: Annotated[str, Help("How p-values are adjusted for their number.")] = ADJUSTMENT
    caveats: Annotated[dict[str, str], Help("Metric → why its difference is not what it seems to be.")]
    slices: Annotated[
        list[SliceMoved], Help("The slices that moved most surely, at most ten; none that holds every query.")
    ] = field(default_factory=list)
    parts: Annotated[
        dict[str, PartCompared], Help("Measure of a whole run (extraction, speed, cost, indexing) → values.")
    ] = field(default_factory=dict)
    fallback_significance: Annotated[
        dict[str, Tested] | None, Help("Metric → how sure its difference by document and span is.")
    ]
    noise: Annotated[
        dict[str, NoiseBand | None],
        Help("Metric → how far identical runs differ; null where too few are known."),
    ] = field(default_factory=dict)
    identical_pairs: Annotated[IdenticalPairs, Help("From how many pairs of runs noise is known.")] = (
        IdenticalPairs()
    )
    flaky_queries: Annotated[
        list[FlakyQuery], Help("Queries that identical runs found now and then, most often first.")
    ] = field(default_factory=list)
    sensitivity: Annotated[
        dict[str, Counts] | None,
        Help("Share of characters that a hit has to cover → verdicts; null where chunk ids are compared."),
    ] = None
    is_without_results: Annotated[bool, Help("Whether neither run was meant to answer queries.")] = False
    cases: Annotated[
        CasesCompared | None, Help("The extraction cases of both; null where one delivered none.")
    ] = None
    undefined: Annotated[
        dict[str, str], Help("Metric without a value in one of the runs, or in both → why it has none.")
    ] = field(default_factory=dict)
    coverage: Annotated[
        dict[str, PairCoverage] | UnsetType,
        Help("Metric of scores → how many answers have one, if some that need one have none."),
    ] = UNSET
    trust: Annotated[
        list[str], Help("What a verdict rests on: queries, labels, definitions, judge, what was recorded.")
    ] = field(default_factory=list)

    def __getitem__(self, key: str) -> Any:
        """The field of that name; `deltas` also has the nested keys of `aggregate_json`."""
        found = super().__getitem__(key)
        return Deltas(found) if key == "deltas" else found

    @property
    def mode(self) -> str:
        """How expected chunks are matched: exact or fallback_doc_span."""
        return str(self.deltas[MODE])

    @property
    def asks_queries(self) -> bool:
        """Whether at least one of the runs was meant to answer queries; else nothing is said of queries."""
        return not self.is_without_results

    @property
    def why_unlabelled(self) -> str | None:
        """Why retrieval cannot be judged, if neither dataset has a golden set; else None."""
        reasons = () if self.is_without_results else self.trust
        return next((reason for reason in reasons if reason.startswith(UNLABELLED)), None)

    def delta_of(self, metric: str) -> float | None:
        """How far the metric moved; None where it is undefined in either run, or not known at all."""
        delta = self.deltas.get(metric)
        return None if isinstance(delta, str) else delta


class GateRule(Document, frozen=True, kw_only=True):
    """One rule of a gate with what was found."""

    metric: Annotated[str, Help("What the rule is about.")]
    verdict: Annotated[str, Help("pass, fail or inconclusive.")]
    baseline: Annotated[Number, Help("Its value of the baseline, over the queries that both define.")]
    candidate: Annotated[Number, Help("Its value of the candidate, over the queries that both define.")]
    delta: Annotated[Number, Help("candidate − baseline.")]
    margin: Annotated[
        Number,
        Help("The margin that was used: how much worse the candidate may be; null where a target is set."),
    ]
    p_adjusted: Annotated[
        Number, Help("One-sided: Simes inside a family, Holm over the families of the rules.")
    ]
    ci_low: Annotated[Number, Help("Lower bound of the difference, with 95 % confidence.")]
    reason: Annotated[str, Help("Why this verdict, in words.")]
    ci_high: Annotated[Number, Help("Upper bound of the difference, with 95 % confidence.")]
    p_value: Annotated[Number, Help("One-sided, of this rule alone; null where nothing was tested.")]
    n: Annotated[int, Help("Over how many queries, cases or nights.")]
    kind: Annotated[str, Help("change, drift (against an old night of the same level) or target.")]
    label: Annotated[str, Help("The rule's name for people: the metric, with its slice or nights.")]
    slice: Annotated[str | None, Help("The dimension that the rule is limited to.")]
    slice_value: Annotated[str | None, Help("Which queries of that dimension.")]
    required: Annotated[bool, Help("Whether the gate passes only if this rule does.")] = True
    resolution: Annotated[
        Number, Help("The margin that an unchanged candidate would pass nine times in ten; null not known.")
    ] = None
    coverage: Annotated[
        PairCoverage | UnsetType,
        Help("How many answers have the score that the rule reads, if some that need one have none."),
    ] = UNSET


class GateReport(Document, frozen=True, kw_only=True):
    """Whether a run is good enough, with the reason of every rule."""

    format: Annotated[int, Help("The format of this document.")] = FORMAT
    verdict: Annotated[str, Help("pass, fail or inconclusive.")]
    candidate: Annotated[str, Help("The run in question.")]
    baseline: Annotated[str, Help("The run that it is held against.")]
    preconditions: Annotated[list[str], Help("Why the gate cannot pass, whatever its rules find.")]
    rules: Annotated[list[GateRule], Help("The rules that were judged.")]
    skipped: Annotated[list[str], Help("Rules that were left out, each with its reason.")] = field(
        default_factory=list
    )
    notes: Annotated[list[str], Help("What to know about the values that decided.")] = field(
        default_factory=list
    )
    evidence: Annotated[
        str, Help("test (differences are tested) or margin (every difference counts as real).")
    ]
    on_inconclusive: Annotated[str, Help("warn or fail: what an inconclusive gate means.")]

    @property
    def not_passed(self) -> list[GateRule]:
        """The rules with any other verdict than pass."""
        return [rule for rule in self.rules if rule.verdict != "pass"]
