"""The rules of a gate judged: each by its own evidence, all of them adjusted for each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from eval_pipeline.comparing.documents import GateRule
from eval_pipeline.comparing.gate_rules import GateConfig, Rule
from eval_pipeline.comparing.pair_rows import IntArray
from eval_pipeline.comparing.significance import Compared, Groups, _mean_of_values, _short, compare_metric
from eval_pipeline.stats import DriftResult, PairedResult, drift_test, holm, queries_needed, seed_for
from eval_pipeline.stats.results import Alternative
from eval_pipeline.words import decimal, rounded

ALPHA: Final = 0.05
TOLERANCE: Final = 1e-9
# A metric that the candidate defines on fewer of the baseline's queries than this is not the same question any more.
SHARE_DEFINED: Final = 0.5


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
    delta: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    n: int = 0

    def entry(self) -> GateRule:
        """As the document shows it."""
        return GateRule(
            metric=self.rule.metric,
            verdict=self.verdict,
            baseline=rounded(self.baseline),
            candidate=rounded(self.candidate),
            delta=rounded(self.delta),
            margin=None if self.kind == "target" else self.rule.margin,
            p_adjusted=_short(self.p_adjusted),
            ci_low=rounded(self.ci_low),
            reason=self.reason,
            ci_high=rounded(self.ci_high),
            p_value=_short(self.p_value),
            n=self.n,
            kind=self.kind,
            label=self.label,
            slice=self.rule.slice,
            slice_value=self.rule.slice_value,
        )


@dataclass(frozen=True)
class Change:
    """A metric of both runs for one rule, before it is judged."""

    rule: Rule
    result: PairedResult | None
    baseline: float | None
    candidate: float | None
    problem: str | None

    @property
    def p_value(self) -> float | None:
        return self.result.p_value if self.result and self.problem is None else None

    @property
    def loss(self) -> float:
        """How much worse the candidate is; negative when it is better."""
        delta = self.result.delta if self.result and self.result.delta is not None else 0.0
        return -delta if self.rule.is_higher_better else delta

    @property
    def largest_loss(self) -> float | None:
        """The end of the interval, with 95 % confidence."""
        if self.result is None:
            return None
        bound = self.result.lower_bound if self.rule.is_higher_better else self.result.upper_bound
        if bound is None:
            return None
        return -bound if self.rule.is_higher_better else bound


@dataclass(frozen=True)
class Trend:
    """A metric over the trailing nights for one rule, before it is judged."""

    rule: Rule
    result: DriftResult
    first: float
    last: float

    @property
    def loss(self) -> float:
        total = self.result.total_change or 0.0
        return -total if self.rule.is_higher_better else total


def measure_change(
    rule: Rule,
    compared: Compared | None,
    *,
    places: IntArray | None,
    groups: Groups,
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
    }
    wanted = pairs.on_both & inside
    alternative: Alternative = "less" if rule.is_higher_better else "greater"
    result = compare_metric(
        compared,
        groups=groups,
        within=places,
        alternative=alternative,
    )
    return Change(
        rule,
        result,
        _mean_of_values(pairs.a[wanted]),
        _mean_of_values(pairs.b[wanted]),
        _problem(rule, counts),
    )


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


def judge_all(changes: Sequence[Change], trends: Sequence[Trend], config: GateConfig) -> list[Judged]:
    """Every rule's verdict; one Holm adjustment over all p-values of the gate."""
    is_tested = config.evidence == "test"
    p_values = [change.p_value if is_tested else None for change in changes]
    p_values += [trend.result.p_value for trend in trends]
    adjusted = holm(p_values)
    judged = [
        _judge_change(change, p_adjusted) if is_tested else _judge_by_margin(change)
        for change, p_adjusted in zip(changes, adjusted[: len(changes)], strict=True)
    ]
    judged += [
        _judge_trend(trend, p_adjusted)
        for trend, p_adjusted in zip(trends, adjusted[len(changes) :], strict=True)
    ]
    return judged


def _judge_change(change: Change, p_adjusted: float | None) -> Judged:
    judged = _told(change, p_adjusted)
    if change.problem:
        return replace(judged, verdict="inconclusive", reason=change.problem)
    margin = change.rule.margin
    largest = change.largest_loss
    is_exceeded = change.loss > margin + TOLERANCE
    if is_exceeded and p_adjusted is not None and p_adjusted < ALPHA:
        reason = f"worse by {decimal(change.loss)}, more than {margin:g}, and hardly by chance (p {p_adjusted:.3g})"
        return replace(judged, verdict="fail", reason=reason)
    if largest is not None and largest < margin:
        return replace(judged, verdict="pass", reason=_why_passed(change, largest))
    return replace(judged, verdict="inconclusive", reason=_why_inconclusive(change, p_adjusted))


def _why_passed(change: Change, largest: float) -> str:
    if change.result is not None and change.result.test == "identical":
        return "no query changed"
    if largest <= 0:
        return "better, with 95 % confidence"
    return f"with 95 % confidence no worse than {decimal(largest)}"


def _why_inconclusive(change: Change, p_adjusted: float | None) -> str:
    result, margin = change.result, change.rule.margin
    if result is None or p_adjusted is None:
        return f"{result.n if result else 0:,} queries are too few for any test"
    if change.loss > margin + TOLERANCE:
        told = f"worse by {decimal(change.loss)}, which may be chance (p {p_adjusted:.3g})"
    elif change.largest_loss is None:
        told = "no interval can be told"
    else:
        told = f"the loss may be up to {decimal(change.largest_loss)}"
    alternative: Alternative = "less" if change.rule.is_higher_better else "greater"
    needed = queries_needed(margin, result.standard_error, n=result.n, alternative=alternative)
    if needed is None:
        return f"{told}; how many queries a margin of {margin:g} needs cannot be told from these {result.n:,}"
    return f"{told}; a margin of {margin:g} needs about {max(needed, result.n + 1):,} queries, there are {result.n:,}"


def _judge_by_margin(change: Change) -> Judged:
    """For deterministic replays: every change is real, so the margin alone decides."""
    judged = _told(change, None)
    if change.problem:
        return replace(judged, verdict="inconclusive", reason=change.problem)
    if change.loss > change.rule.margin + TOLERANCE:
        return replace(
            judged,
            verdict="fail",
            reason=f"worse by {decimal(change.loss)}, more than {change.rule.margin:g}",
        )
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
        delta=result.delta,
        p_value=change.p_value,
        p_adjusted=p_adjusted,
        ci_low=result.lower_bound,
        ci_high=result.upper_bound,
        n=result.n,
    )


def _measure_trend(
    rule: Rule, values: Sequence[float], nights: Sequence[int], *, candidate: str
) -> Trend | None:
    """Whether the metric got worse over these nights, oldest first; None where there are too few to tell."""
    alternative: Alternative = "less" if rule.is_higher_better else "greater"
    result = drift_test(
        values, seed=seed_for(candidate, "drift", rule.metric), nights=nights, alternative=alternative
    )
    return None if result.p_value is None else Trend(rule, result, values[0], values[-1])


def _judge_trend(trend: Trend, p_adjusted: float | None) -> Judged:
    margin, loss, nights = trend.rule.margin, trend.loss, trend.result.n
    is_drifting = loss > margin + TOLERANCE and p_adjusted is not None and p_adjusted < ALPHA
    if is_drifting:
        told = f"{decimal(loss)} worse over {nights} nights, more than {margin:g}"
        reason = f"{told}, and hardly by chance (p {p_adjusted:.3g})"
    else:
        reason = f"no lasting decline over {nights} nights"
    return Judged(
        trend.rule,
        "drift",
        f"{trend.rule.metric} over {nights} nights",
        verdict="fail" if is_drifting else "pass",
        reason=reason,
        baseline=trend.first,
        candidate=trend.last,
        delta=trend.result.total_change,
        p_value=trend.result.p_value,
        p_adjusted=p_adjusted,
        n=nights,
    )


def _judge_target(rule: Rule, baseline: float | None, candidate: float | None, *, n: int) -> Judged:
    """The candidate's unrounded value against a fixed one."""
    assert rule.target is not None
    judged = Judged(rule, "target", rule.label, "inconclusive", "undefined in the candidate", baseline, None)
    if candidate is None or n == 0:
        return judged
    delta = None if baseline is None else candidate - baseline
    judged = replace(judged, candidate=candidate, delta=delta, n=n)
    is_met = candidate >= rule.target if rule.is_higher_better else candidate <= rule.target
    # Rounding must not make 0.89996 look like 0.9.
    told = f"{candidate:.6g} {'meets' if is_met else 'misses'} the target of {rule.target:g}"
    return replace(judged, verdict="pass" if is_met else "fail", reason=told)
