"""Comparing pooled ratios, such as micro-F1: sums of numerators over sums of denominators."""

# A pooled ratio has no value per case whose mean it would be. What a case pulls at the difference of the two ratios, by
# linearisation, stands for its difference: these have the difference as their mean, and are compared as all others are.

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from eval_pipeline.stats.errors import ImpossibleOption, ImpossibleValue
from eval_pipeline.stats.moves import imagined_moves, sums_of
from eval_pipeline.stats.paired import answer, of_the_same, unanswered
from eval_pipeline.stats.results import Alternative, ComparisonPlan, PairedResult
from eval_pipeline.stats.units import FloatArray, Groups, cluster_numbers, finite_values, same_length

UNDEFINED: Final = "the denominators of a side add up to 0"


def compare_ratios(
    numerators_a: npt.ArrayLike,
    denominators_a: npt.ArrayLike,
    numerators_b: npt.ArrayLike,
    denominators_b: npt.ArrayLike,
    *,
    seed: int | None = None,
    empty: float | None = None,
    groups: Groups | None = None,
    resamples: int | None = None,
    confidence: float = 0.95,
    alternative: Alternative = "two-sided",
    power: float = 0.8,
    reach: float = 1.0,
    identical: bool = False,
) -> PairedResult:
    """Compare sum(numerators) / sum(denominators) of two runs over the same cases.

    `empty` is the value of a ratio whose denominators add up to 0: None for undefined, 0.0 where the formula says so
    (S1.14). Micro-F1 is the ratio of 2·TP to 2·TP + FP + FN. `reach` and `identical` as in `compare_paired`; `seed` and
    `resamples` are of earlier versions and mean nothing; 0.3 takes them away.
    """
    plan = ComparisonPlan(confidence=confidence, alternative=alternative, power=power)
    if empty is not None and not math.isfinite(empty):
        raise ImpossibleOption(f"empty is {empty!r}; allowed is a finite number, or None for undefined")
    a = finite_values(numerators_a, "numerators_a"), _denominators(denominators_a, "denominators_a")
    b = finite_values(numerators_b, "numerators_b"), _denominators(denominators_b, "denominators_b")
    same_length(
        dict(zip(("numerators_a", "denominators_a", "numerators_b", "denominators_b"), (*a, *b), strict=True))
    )
    n = a[0].size
    clusters = cluster_numbers(groups, n)
    ratio_a, ratio_b = _ratio(*a, empty), _ratio(*b, empty)
    delta = None if ratio_a is None or ratio_b is None else ratio_b - ratio_a
    asked = replace(unanswered(delta, n, clusters, plan), a=ratio_a, b=ratio_b)
    is_moved = (a[0] != b[0]) | (a[1] != b[1])
    if identical:
        return of_the_same(asked, is_so=not np.any(is_moved))
    if asked.reason or ratio_a is None or ratio_b is None or delta is None:
        return replace(asked, reason=asked.reason or UNDEFINED)
    pulls = delta + n * (_pull(*b, ratio_b) - _pull(*a, ratio_a))
    reach = max(reach, abs(delta))
    return answer(asked, imagined_moves(sums_of(pulls, clusters, is_moved), reach=reach), plan)


def _denominators(values: npt.ArrayLike, name: str) -> FloatArray:
    array = finite_values(values, name)
    if np.any(array < 0):
        place = int(np.flatnonzero(array < 0)[0])
        raise ImpossibleValue(f"{name}[{place}] is {array[place]}; allowed are denominators of 0 or more")
    return array


def _ratio(numerators: FloatArray, denominators: FloatArray, empty: float | None) -> float | None:
    below = math.fsum(denominators.tolist())
    return math.fsum(numerators.tolist()) / below if below > 0 else empty


def _pull(numerators: FloatArray, denominators: FloatArray, ratio: float) -> FloatArray:
    """How far each case alone moves the ratio."""
    below = math.fsum(denominators.tolist())
    return (numerators - ratio * denominators) / below if below > 0 else np.zeros(numerators.size)
