"""The rules of a gate judged: each by its own evidence, their families adjusted for each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from eval_pipeline.comparing.documents import GateRule, PairCoverage
from eval_pipeline.comparing.gate_rules import GateConfig, Rule
from eval_pipeline.comparing.material import Paired
from eval_pipeline.comparing.options import SIGNIFICANT
from eval_pipeline.comparing.pair_rows import IntArray
from eval_pipeline.comparing.significance import Compared, Groups, _printed_means, _short, compare_metric
from eval_pipeline.documents import UNSET
from eval_pipeline.stats import PairedResult, adjust_by_family, holm, queries_needed, resolution
from eval_pipeline.stats.power import fewest_moved_units
from eval_pipeline.stats.results import IDENTICAL, Alternative
from eval_pipeline.store.open import Connection, first_value
from eval_pipeline.words import count, decimal, rounded

TOLERANCE: Final = 1e-9
# A metric that the candidate defines on fewer of the baseline's queries than this is not the same question any more.
SHARE_DEFINED: Final = 0.5
# A rule that nobody wrote down decides where it asks about this share of the compared queries.
SHARE_REQUIRED: Final = 0.5
FEWEST_MOVED: Final = fewest_moved_units(alternative="greater")
# How far a margin may grow with what the queries cannot resolve.
MOST_MARGIN: Final = 2.5


@dataclass(frozen=True)
class Judged:
    """One rule with what was found; `p_value` is None where nothing was tested."""

    rule: Rule
    kind: str
    label: str
    verdict: str
    reason: str
    baseline: float | None = None
    candidate: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    n: int = 0
    margin: float | None = None
    resolution: float | None = None
    required: bool = True
    coverage: PairCoverage | None = None

    def entry(self) -> GateRule:
        """As the document shows it."""
        baseline, candidate, delta, decimals = _printed_means(self.baseline, self.candidate)
        return GateRule(
            metric=self.rule.metric,
            verdict=self.verdict,
            baseline=baseline,
            candidate=candidate,
            delta=delta,
            margin=self.margin,
            p_adjusted=_short(self.p_adjusted),
            ci_low=rounded(self.ci_low, decimals),
            reason=self.reason,
            ci_high=rounded(self.ci_high, decimals),
            p_value=_short(self.p_value),
            n=self.n,
            kind=self.kind,
            label=self.label,
            slice=self.rule.slice,
            slice_value=self.rule.slice_value,
            required=self.required,
            resolution=rounded(self.resolution, decimals),
            coverage=self.coverage or UNSET,
        )


@dataclass(frozen=True)
class Change:
    """A metric of both runs for one rule, before it is judged.

    `seen` reports how many judged answers have a score in both runs. `share` is the share of the compared queries for
    which the baseline has the metric or needs it. `extremes` are the same change with the lowest and with the highest
    scores for the answers that lack one.
    """

    rule: Rule
    result: PairedResult | None
    baseline: float | None
    candidate: float | None
    problem: str | None
    seen: str = ""
    share: float = 1.0
    coverage: PairCoverage | None = None
    extremes: Sequence[Change] = ()

    @property
    def p_value(self) -> float | None:
        """Of a question: none where so few moved that no test could show anything."""
        result = self.result
        if result is None or self.problem or (result.moved or 0) < FEWEST_MOVED:
            return None
        return result.p_value

    @property
    def is_identical(self) -> bool:
        """Whether both values come of the same bytes."""
        return self.result is not None and self.result.test == IDENTICAL

    @property
    def loss(self) -> float:
        """How much worse the candidate is; negative when it is better."""
        delta = self.result.delta if self.result and self.result.delta is not None else 0.0
        return -delta if self.rule.is_higher_better else delta

    @property
    def printed_loss(self) -> str:
        """The loss as the row shows it: the difference of the rounded values."""
        _, _, delta, decimals = _printed_means(self.baseline, self.candidate)
        return decimal(self.loss if delta is None else abs(delta), decimals)

    @property
    def largest_loss(self) -> float | None:
        """The end of the interval, with 95 % confidence."""
        if self.result is None:
            return None
        bound = self.result.lower_bound if self.rule.is_higher_better else self.result.upper_bound
        if bound is None:
            return None
        return -bound if self.rule.is_higher_better else bound

    @property
    def resolution(self) -> float | None:
        """The margin that an unchanged candidate of this spread passes nine times in ten."""
        return resolution(self.result.standard_error, self.result.degrees) if self.result else None

    @property
    def margin(self) -> float:
        """As it is written, or, of a rule that leaves it open, what these queries can resolve, up to a limit."""
        base, resolved = self.rule.margin, self.resolution
        if not self.rule.is_auto or resolved is None:
            return base
        return min(max(base, math.ceil(resolved * 1000) / 1000), MOST_MARGIN * base)

    @property
    def is_required(self) -> bool:
        return self.share >= SHARE_REQUIRED if self.rule.required is None else self.rule.required


@dataclass(frozen=True)
class Drift:
    """The candidate against an old night of the same level, `nights` nights before it."""

    change: Change
    anchor: str
    nights: int


def measure_change(
    rule: Rule,
    compared: Compared | None,
    *,
    places: IntArray | None,
    groups: Groups,
    is_judged: bool = False,
) -> Change:
    """Candidate less baseline over the queries on which both define the metric; `places` limits it to a slice."""
    if compared is None:
        return Change(rule, None, None, None, "was not computed")
    pairs = compared.pairs
    inside = np.ones(pairs.a.size, dtype=np.bool_)
    if places is not None:
        inside = np.isin(np.arange(pairs.a.size), places)
    counts = {
        "both": int(np.count_nonzero(pairs.on_both & inside)),
        "baseline": int(np.count_nonzero(pairs.defined_a & inside)),
        "candidate": int(np.count_nonzero(pairs.defined_b & inside)),
        "either": int(np.count_nonzero((pairs.defined_a | pairs.defined_b) & inside)),
    }
    alternative: Alternative = "less" if rule.is_higher_better else "greater"
    result = compare_metric(
        compared,
        groups=groups,
        within=places,
        alternative=alternative,
    )
    coverage = compared.coverage(places)
    n_needed = coverage.a.needed if coverage else counts["baseline"]
    is_lost = counts["baseline"] >= rule.minimum_n and not counts["candidate"]
    change = Change(
        rule,
        result,
        result.a,
        result.b,
        _problem(rule, counts),
        seen=f"; both runs have {counts['both']:,} of {counts['either']:,}" if is_judged else "",
        # A metric that the candidate no longer has is missing evidence, however few queries it is about.
        share=1.0 if is_lost else n_needed / pairs.a.size if pairs.a.size else 0.0,
        coverage=coverage,
    )
    if coverage is None:
        return change
    # Filled values vary more: they must not widen the margin.
    fixed = replace(rule, margin=change.margin, is_auto=False)
    extremes = [measure_change(fixed, end, places=places, groups=groups) for end in compared.extremes()]
    return replace(change, extremes=extremes, seen="")


def _problem(rule: Rule, counts: Mapping[str, int]) -> str | None:
    """Why nothing can be said, whatever the numbers are."""
    if not counts["baseline"] or not counts["candidate"]:
        undefined = [side for side in ("baseline", "candidate") if not counts[side]]
        return f"undefined in the {' and the '.join(undefined)}"
    if not counts["both"]:
        return "no query on which both runs define it"
    if counts["both"] < SHARE_DEFINED * counts["baseline"]:
        return f"the candidate defines it for {counts['both']:,} of the baseline's {counts['baseline']:,} queries only"
    if counts["both"] < rule.minimum_n:
        return f"only {counts['both']:,} queries; the rule wants {rule.minimum_n:,}"
    return None


def judge_all(
    changes: Sequence[Change], drifts: Sequence[Drift], families: Sequence[str], config: GateConfig
) -> list[Judged]:
    """Return the verdict of every rule; it holds for all possible values of missing scores."""
    judged = _judge_all(changes, drifts, families, config)
    measured = [*changes, *(drift.change for drift in drifts)]
    if not any(change.coverage for change in measured):
        return judged
    lowest, highest = (
        _judge_all(
            [_extreme(change, end) for change in changes],
            [replace(drift, change=_extreme(drift.change, end)) for drift in drifts],
            families,
            config,
        )
        for end in (0, 1)
    )
    return [
        _with_coverage(verdict, change.coverage, ends if change.extremes else ())
        for verdict, change, *ends in zip(judged, measured, lowest, highest, strict=True)
    ]


def _extreme(change: Change, end: int) -> Change:
    return change.extremes[end] if change.extremes else change


def _with_coverage(judged: Judged, coverage: PairCoverage | None, extremes: Sequence[Judged]) -> Judged:
    """Return the verdict if it holds for the lowest and the highest missing scores, else inconclusive."""
    if coverage is None or (judged.kind == "drift" and judged.verdict == "pass"):
        return judged
    judged = replace(judged, coverage=coverage)
    words = coverage.in_words(judged.rule.metric, "the baseline", "the candidate")
    verdicts = {extreme.verdict for extreme in extremes}
    if not extremes:
        verdicts = {"inconclusive" if coverage.is_partial else judged.verdict}
    if verdicts == {judged.verdict}:
        return replace(judged, reason=f"{judged.reason}; {words}") if coverage.is_partial else judged
    if len(verdicts) == 1 and extremes:
        return replace(judged, verdict=verdicts.pop(), reason=f"whatever the missing scores are; {words}")
    return replace(judged, verdict="inconclusive", reason=f"missing scores decide; {words}")


def _judge_all(
    changes: Sequence[Change], drifts: Sequence[Drift], families: Sequence[str], config: GateConfig
) -> list[Judged]:
    """Every rule's verdict: Simes inside a metric's family, Holm over the families; of drifts Holm of their own."""
    is_tested = config.evidence == "test"
    p_values = [change.p_value if is_tested else None for change in changes]
    judged = [
        _judge_change(change, p_adjusted) if is_tested else _judge_by_margin(change)
        for change, p_adjusted in zip(changes, adjust_by_family(p_values, families, across=holm), strict=True)
    ]
    adjusted = holm([drift.change.p_value for drift in drifts])
    return judged + [
        _judge_drift(drift, p_adjusted) for drift, p_adjusted in zip(drifts, adjusted, strict=True)
    ]


def _judge_change(change: Change, p_adjusted: float | None) -> Judged:
    judged = _told(change, p_adjusted)
    if change.problem:
        return replace(judged, verdict="inconclusive", reason=change.problem)
    if _has_failed(change, p_adjusted):
        margin = change.rule.margin
        why = f"worse by {change.printed_loss}, more than the margin of {margin:g} (p {p_adjusted:.3g})"
        return replace(judged, verdict="fail", reason=f"{why}{change.seen}", margin=margin)
    largest = change.largest_loss
    if change.is_identical or (largest is not None and largest < change.margin):
        return replace(judged, verdict="pass", reason=_why_passed(change, largest or 0.0) + change.seen)
    return replace(judged, verdict="inconclusive", reason=_why_inconclusive(change, p_adjusted) + change.seen)


def _has_failed(change: Change, p_adjusted: float | None) -> bool:
    is_exceeded = change.loss > change.rule.margin + TOLERANCE
    return is_exceeded and p_adjusted is not None and p_adjusted < SIGNIFICANT


def _why_passed(change: Change, largest: float) -> str:
    if change.is_identical:
        return "both were computed from the same results"
    if largest <= 0:
        return "better, with 95 % confidence"
    return f"with 95 % confidence no worse than {decimal(largest)}; margin {change.margin:g}"


def _why_inconclusive(change: Change, p_adjusted: float | None) -> str:
    result, margin = change.result, change.margin
    n = count(result.n if result else 0, "query", plural="queries")
    if result is None or change.largest_loss is None:
        return f"{n}: {result.reason}" if result and result.reason else f"{n} are too few for any test"
    told = f"{n} rule out no loss below {decimal(change.largest_loss)}"
    if change.loss > change.rule.margin + TOLERANCE:
        chance = f"p {p_adjusted:.3g}" if p_adjusted is not None else "too few moved"
        told = f"worse by {change.printed_loss}, which may be chance ({chance}); {told}"
    if change.resolution is not None:
        told += f", they resolve {decimal(change.resolution)}"
    alternative: Alternative = "less" if change.rule.is_higher_better else "greater"
    needed = queries_needed(margin, result.standard_error, n=result.n, alternative=alternative)
    if needed is None:
        return f"{told}; how many a margin of {margin:g} needs cannot be told from these"
    return f"{told}; a margin of {margin:g} needs about {max(needed, result.n + 1):,}"


def _judge_by_margin(change: Change) -> Judged:
    """For deterministic replays: every change is real, so the margin alone decides."""
    judged = replace(_told(change, None), margin=change.rule.margin)
    if change.problem:
        return replace(judged, verdict="inconclusive", reason=change.problem)
    if change.loss > change.rule.margin + TOLERANCE:
        why = f"worse by {change.printed_loss}, more than the margin of {change.rule.margin:g}"
        return replace(judged, verdict="fail", reason=why)
    return replace(judged, verdict="pass", reason=f"no more than {change.rule.margin:g} worse")


def _told(change: Change, p_adjusted: float | None) -> Judged:
    result = change.result or PairedResult(n=0)
    return Judged(
        change.rule,
        "change",
        change.rule.label,
        verdict="inconclusive",
        reason="",
        baseline=change.baseline,
        candidate=change.candidate,
        p_value=change.p_value,
        p_adjusted=p_adjusted,
        ci_low=result.lower_bound,
        ci_high=result.upper_bound,
        n=result.n,
        margin=change.margin,
        resolution=change.resolution,
        required=change.is_required,
    )


def _judge_drift(drift: Drift, p_adjusted: float | None) -> Judged:
    """A decline over many nights, each of which passed; where none is shown nothing is held up."""
    change, nights = drift.change, count(drift.nights, "night")
    told = replace(
        _told(change, p_adjusted),
        kind="drift",
        label=f"{change.rule.metric} over {nights}",
        margin=change.rule.margin,
        required=False,
        n=drift.nights,
    )
    if _has_failed(change, p_adjusted):
        loss = f"{decimal(change.loss)} worse than {drift.anchor}, {nights} before"
        why = f"more than the margin of {change.rule.margin:g} (p {p_adjusted:.3g})"
        return replace(told, verdict="fail", reason=f"{loss}, {why}")
    return replace(told, verdict="pass", reason=f"no lasting decline since {drift.anchor}, {nights} before")


def _judge_target(rule: Rule, baseline: float | None, candidate: float | None, *, n: int) -> Judged:
    """The candidate's unrounded value against a fixed one."""
    assert rule.target is not None
    judged = Judged(rule, "target", rule.label, "inconclusive", "undefined in the candidate", baseline, None)
    judged = replace(judged, required=rule.required is not False)
    if candidate is None or n == 0:
        return judged
    judged = replace(judged, candidate=candidate, n=n)
    is_met = candidate >= rule.target if rule.is_higher_better else candidate <= rule.target
    # Rounding must not make 0.89996 look like 0.9.
    told = f"{candidate:.6g} {'meets' if is_met else 'misses'} the target of {rule.target:g}"
    return replace(judged, verdict="pass" if is_met else "fail", reason=told)


def why_empty(con: Connection, paired: Paired) -> str | None:
    """Why a candidate with results has nothing to judge: every query failed, or its rows are empty; else None."""
    if not paired.queries:
        return None
    run = paired.b
    n = count(len(paired.queries), "query", plural="queries")
    if all(query.error_b for query in paired.queries):
        return f"every query of {run.run_id} failed ({n}): check the system, and run the evaluation again"
    has_content = first_value(
        con,
        "select exists(from raw.hits where run_key = r.run_key) or exists(from raw.scores where run_key = r.run_key) "
        "or exists(from raw.results q where q.run_key = r.run_key and (q.has_answer "
        "or q.judge_groundedness is not null or q.judge_correctness is not null)) "
        "from raw.runs r where r.run_key = ?",
        [run.run_key],
    )
    return None if has_content else f"{run.run_id} delivered no hit, no answer and no score for {n}"


# The chunkers whose inventories hold the run's ids and no labelled id, if no labelled id is among the run's.
_FOREIGN_IDS: Final = """
with labelled as (select distinct chunk_key from labels.expected_chunks where golden_key = $golden),
retrieved as (select distinct chunk_key from raw.hits where run_key = $run),
listed as (
    select i.chunker_version, c.chunk_key from raw.archive_chunks c
    join (from ledger.archives_in_force where dataset_key = $dataset and is_newest) i using (archive_key)
)
select distinct chunker_version from listed semi join retrieved using (chunk_key)
where not exists(from retrieved semi join labelled using (chunk_key))
    and exists(from listed semi join labelled using (chunk_key))
    and chunker_version not in (select chunker_version from listed semi join labelled using (chunk_key))
order by chunker_version
"""


def why_foreign(con: Connection, paired: Paired) -> str | None:
    """Why labels do not apply to a run without a recorded chunker: its ids are those of another one; else None."""
    for run in (paired.b, paired.a):
        if run.config["chunker_version"] is None:
            keys = {"golden": run.delivered_key, "run": run.run_key, "dataset": run.dataset_key}
            chunkers = [chunker for (chunker,) in con.execute(_FOREIGN_IDS, keys).fetchall()]
            if chunkers:
                return (
                    f"{run.run_id} records no chunker, its ids are in the inventory of {' and '.join(chunkers)}, and "
                    "labels name chunks of another one: record config.chunker_version in run.json"
                )
    return None
