"""Two runs compared query by query: how large b − a is, how sure, and what could have been seen."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from eval_pipeline.stats.errors import ImpossibleOption
from eval_pipeline.stats.moves import METHOD, Evidence, imagined_moves, imagined_queries, sums_of
from eval_pipeline.stats.results import (
    IDENTICAL,
    SCALES,
    Alternative,
    ComparisonPlan,
    Interval,
    MeanResult,
    PairedResult,
    Scale,
    with_interval,
)
from eval_pipeline.stats.units import (
    FloatArray,
    Groups,
    IntArray,
    check_scale_values,
    cluster_numbers,
    finite_values,
    same_length,
)

# How wide the values of a scale range; times and counts have no end.
REACH: Final[dict[Scale, float | None]] = {
    "binary": 1.0,
    "fraction": 1.0,
    "ordinal": 5.0,
    "count": None,
    "ms": None,
}
NOTHING: Final = "no query on which both define it"
ONE_QUERY: Final = "one query shows no spread"
ONE_CLUSTER: Final = "one cluster shows no spread"
ALL_EQUAL: Final = "all values are equal, and the scale has no ends"


def compare_paired(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    scale: Scale,
    seed: int | None = None,
    groups: Groups | None = None,
    resamples: int | None = None,
    confidence: float = 0.95,
    alternative: Alternative = "two-sided",
    power: float = 0.8,
    reach: float | Literal["scale"] | None = "scale",
    identical: bool = False,
) -> PairedResult:
    """Compare one metric of two runs over the queries on which both define it.

    `groups` names the cluster of each query (None: on its own). `alternative` says what the p-value is to show:
    "greater" that b is larger than a, "less" that it is smaller; a gate with a margin of 0.02 compares `lower_bound`
    with −0.02. `reach` is the width of the metric's range, None where it has no end ("scale": 1 for binary and
    fraction, 5 for ordinal, else none). `identical` says that both runs are known to be the same to the byte: equal
    values alone leave room for what so few queries cannot show. The order of the queries changes no bit.

    `seed` and `resamples` are of earlier versions and mean nothing; 0.3 takes them away.
    """
    plan = ComparisonPlan(confidence=confidence, alternative=alternative, power=power)
    width = _reach_of(scale, reach)
    sides = {"a": finite_values(a, "a"), "b": finite_values(b, "b")}
    same_length(sides)
    for name, side in sides.items():
        check_scale_values(side, name, scale=scale)
    differences = finite_values(sides["b"] - sides["a"], "b - a")
    clusters = cluster_numbers(groups, differences.size)
    asked = unanswered(_mean(differences), differences.size, clusters, plan)
    asked = replace(asked, a=_mean(sides["a"]), b=_mean(sides["b"]))
    if identical:
        return of_the_same(asked, is_so=not np.any(differences))
    if asked.reason:
        return asked
    values = np.concatenate(list(sides.values()))
    answered = answer(asked, _evidence(differences, clusters, values, width), plan)
    return _with_ratio(answered, sides, clusters, plan) if scale == "ms" else answered


def _reach_of(scale: Scale, reach: float | str | None) -> float | None:
    if scale not in SCALES:
        raise ImpossibleOption(f"scale is {scale!r}; allowed is one of {', '.join(SCALES)}")
    if isinstance(reach, str):
        return REACH[scale]
    if reach is not None and not (math.isfinite(reach) and reach > 0):
        raise ImpossibleOption(
            f"reach is {reach!r}; allowed is a width above 0, or None for a scale without ends"
        )
    return reach


def _mean(values: FloatArray) -> float | None:
    return math.fsum(values.tolist()) / values.size + 0.0 if values.size else None


def unanswered(delta: float | None, n: int, clusters: IntArray | None, plan: ComparisonPlan) -> PairedResult:
    """The difference alone, with the reason where so few units say nothing about it."""
    units = None if clusters is None else int(clusters.max()) + 1
    few = ONE_QUERY if n == 1 else ONE_CLUSTER if units == 1 else None
    return PairedResult(
        n=int(n),
        clusters=units,
        delta=delta,
        confidence=plan.confidence,
        alternative=plan.alternative,
        reason=few if n else NOTHING,
    )


def of_the_same(asked: PairedResult, *, is_so: bool) -> PairedResult:
    """The result for two runs that are known to be the same."""
    if not is_so:
        raise ImpossibleOption("identical is True, and the values differ; leave it out")
    if not asked.n:
        return asked
    same = replace(asked, p_value=1.0, test=IDENTICAL, standard_error=0.0, moved=0, reason=None)
    return with_interval(same, Interval(0.0, 0.0, 0.0, 0.0, method=IDENTICAL))


def _evidence(
    differences: FloatArray, clusters: IntArray | None, values: FloatArray, reach: float | None
) -> Evidence | None:
    if reach is not None:
        # A formula may leave the range that it declares; the interval goes at least as far.
        reach = max(reach, float(np.max(np.abs(differences))))
    return imagined_moves(sums_of(differences, clusters), reach=reach, spread=float(np.ptp(values)))


def answer(asked: PairedResult, evidence: Evidence | None, plan: ComparisonPlan) -> PairedResult:
    """The result with all that the evidence says."""
    if evidence is None:
        return replace(asked, moved=0, reason=ALL_EQUAL)
    answered = replace(
        asked,
        p_value=evidence.p_value(plan.alternative),
        test=METHOD,
        standard_error=evidence.standard_error,
        degrees=evidence.degrees,
        moved=evidence.moved,
        mde=evidence.detectable(plan.confidence, plan.power, plan.alternative),
    )
    return with_interval(answered, evidence.interval(plan.confidence))


def _with_ratio(
    answered: PairedResult, sides: dict[str, FloatArray], clusters: IntArray | None, plan: ComparisonPlan
) -> PairedResult:
    """How many times as long, by the differences of the logarithms; a time of 0 has none."""
    if answered.test is None or any(np.any(side <= 0) for side in sides.values()):
        return answered
    logarithms = [np.log(side) for side in sides.values()]
    found = _evidence(logarithms[1] - logarithms[0], clusters, np.concatenate(logarithms), None)
    if found is None:
        return answered
    interval = found.interval(plan.confidence)
    return replace(
        answered,
        ratio=math.exp(found.delta),
        ratio_low=math.exp(interval.low),
        ratio_high=math.exp(interval.high),
        ratio_p=found.p_value(plan.alternative),
    )


def mean_of_run(
    values: npt.ArrayLike,
    *,
    low: float | None = None,
    high: float | None = None,
    groups: Groups | None = None,
    confidence: float = 0.95,
) -> MeanResult:
    """One run's mean with its interval; `low` and `high` are the ends of the metric's range, where it has any."""
    plan = ComparisonPlan(confidence=confidence)
    found = finite_values(values, "values")
    clusters = cluster_numbers(groups, found.size)
    few = unanswered(_mean(found), found.size, clusters, plan)
    if few.reason:
        return MeanResult(n=few.n, mean=few.delta, confidence=confidence, reason=few.reason)
    ends = (float(found.min()) if low is None else low, float(found.max()) if high is None else high)
    if ends[0] >= ends[1]:
        return MeanResult(n=few.n, mean=few.delta, confidence=confidence, reason=ALL_EQUAL)
    evidence = imagined_queries(sums_of(found, clusters), low=ends[0], high=ends[1])
    interval = evidence.interval(confidence)
    return MeanResult(
        n=few.n,
        mean=few.delta,
        ci_low=interval.low if low is None else max(low, interval.low),
        ci_high=interval.high if high is None else min(high, interval.high),
        standard_error=evidence.standard_error,
        degrees=evidence.degrees,
        confidence=confidence,
    )
