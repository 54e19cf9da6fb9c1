"""Comparing pooled ratios, such as micro-F1: sums of numerators over sums of denominators."""

# A pooled ratio has no value per case whose mean it would be. So cases are resampled as pairs, all four numbers
# together, and the two ratios are formed anew; under the null hypothesis it does not matter which run a case's
# numbers came from, so cases are swapped between the runs.

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from eval_pipeline.stats.errors import ImpossibleOption, ImpossibleValue
from eval_pipeline.stats.intervals import bootstrap_interval, student_interval
from eval_pipeline.stats.power import fewest_moved_units, minimum_detectable_effect
from eval_pipeline.stats.resampling import bootstrap_sums, permutation_p_value, sign_flip_sums
from eval_pipeline.stats.results import Alternative, ComparisonPlan, Interval, PairedResult, with_interval
from eval_pipeline.stats.units import (
    FloatArray,
    Groups,
    Units,
    cluster_numbers,
    distinct_units,
    finite_values,
    same_length,
    sampling_columns,
    unsigned_units,
    weighted_total,
)

_SAME: Final = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class _Cases:
    """One row per case or cluster: numerator and denominator of a, then of b."""

    columns: FloatArray
    units: Units
    clustered: bool
    empty: float | None

    @property
    def is_identical(self) -> bool:
        return bool(np.all(self.columns[:, :2] == self.columns[:, 2:]))


def compare_ratios(
    numerators_a: npt.ArrayLike,
    denominators_a: npt.ArrayLike,
    numerators_b: npt.ArrayLike,
    denominators_b: npt.ArrayLike,
    *,
    seed: int,
    empty: float | None = None,
    groups: Groups | None = None,
    resamples: int = 10_000,
    confidence: float = 0.95,
    alternative: Alternative = "two-sided",
    power: float = 0.8,
) -> PairedResult:
    """Compare sum(numerators) / sum(denominators) of two runs over the same cases.

    `empty` is the value of a ratio whose denominators add up to 0: None for undefined, 0.0 where the formula says so
    (S1.14). Micro-F1 is the ratio of 2·TP to 2·TP + FP + FN.
    """
    plan = ComparisonPlan(
        seed=seed, resamples=resamples, confidence=confidence, alternative=alternative, power=power
    )
    if empty is not None and not math.isfinite(empty):
        raise ImpossibleOption(f"empty is {empty!r}; allowed is a finite number, or None for undefined")
    sides = {
        "numerators_a": finite_values(numerators_a, "numerators_a"),
        "denominators_a": _denominators(denominators_a, "denominators_a"),
        "numerators_b": finite_values(numerators_b, "numerators_b"),
        "denominators_b": _denominators(denominators_b, "denominators_b"),
    }
    same_length(sides)
    n = int(sides["numerators_a"].size)
    numbers = cluster_numbers(groups, n)
    columns = sampling_columns(list(sides.values()), numbers)
    cases = _Cases(columns, distinct_units(columns), numbers is not None, empty)
    return _compare(cases, plan, n=n, delta=_delta(sides, empty))


def _denominators(values: npt.ArrayLike, name: str) -> FloatArray:
    array = finite_values(values, name)
    if np.any(array < 0):
        place = int(np.flatnonzero(array < 0)[0])
        raise ImpossibleValue(f"{name}[{place}] is {array[place]}; allowed are denominators of 0 or more")
    return array


def _delta(sides: dict[str, FloatArray], empty: float | None) -> float | None:
    sums = np.array([math.fsum(side.tolist()) for side in sides.values()])
    delta = float(_difference(sums, empty))
    return delta + 0.0 if math.isfinite(delta) else None


def _difference(sums: FloatArray, empty: float | None) -> FloatArray:
    """Ratio of b minus ratio of a; NaN, which stays inside this file, where a side is undefined."""
    return _ratio(sums[..., 2], sums[..., 3], empty) - _ratio(sums[..., 0], sums[..., 1], empty)


def _ratio(numerators: FloatArray, denominators: FloatArray, empty: float | None) -> FloatArray:
    value: FloatArray = np.full(np.shape(numerators), math.nan if empty is None else empty)
    np.divide(numerators, denominators, out=value, where=np.asarray(denominators) > 0)
    return value


def _compare(cases: _Cases, plan: ComparisonPlan, *, n: int, delta: float | None) -> PairedResult:
    clusters = cases.units.size if cases.clustered else None
    unanswered = PairedResult(
        n=n, clusters=clusters, delta=delta, confidence=plan.confidence, alternative=plan.alternative
    )
    if delta is None or cases.units.size < 2:
        return unanswered
    test, p_value = _test(cases, plan)
    error = _standard_error(cases)
    answered = replace(
        unanswered,
        p_value=p_value,
        test=test,
        standard_error=error,
        mde=_detectable(cases, plan, standard_error=error),
    )
    return with_interval(answered, _interval(cases, plan, delta=delta, standard_error=error))


def _interval(
    cases: _Cases, plan: ComparisonPlan, *, delta: float, standard_error: float | None
) -> Interval | None:
    if cases.is_identical:
        return Interval(0.0, 0.0, 0.0, 0.0, method="identical")
    units = cases.units
    if units.size < fewest_moved_units(confidence=plan.confidence):
        if not standard_error:
            return None
        return student_interval(delta, standard_error, units=units.size, confidence=plan.confidence)
    sums = bootstrap_sums(units, seed=plan.seed, resamples=plan.resamples)
    distribution = _difference(sums, cases.empty)
    defined = distribution[np.isfinite(distribution)]
    # With most resamples undefined, the rest says little about the whole.
    if 2 * defined.size < distribution.size:
        return None
    return bootstrap_interval(
        defined,
        float(_difference(units.totals, cases.empty)),
        left_out=_difference(units.totals - units.rows, cases.empty),
        counts=units.counts,
        confidence=plan.confidence,
        tolerance=_tie_tolerance(defined),
    )


def _test(cases: _Cases, plan: ComparisonPlan) -> tuple[str, float | None]:
    if cases.is_identical:
        return "identical", 1.0
    both = np.sum(cases.columns[:, :2] + cases.columns[:, 2:], axis=0)
    apart = cases.columns[:, 2:] - cases.columns[:, :2]
    flips = sign_flip_sums(unsigned_units(apart), seed=plan.seed, resamples=plan.resamples)
    swapped = np.hstack([(both - flips.sums) / 2, (both + flips.sums) / 2])
    null_values = _difference(swapped, cases.empty)
    observed = float(_difference(cases.columns.sum(axis=0), cases.empty))
    name = ("cluster_" if cases.clustered else "") + "case_swap" + ("_exact" if flips.exact else "")
    defined = null_values[np.isfinite(null_values)]
    if 2 * defined.size < null_values.size:
        return name, None
    return name, permutation_p_value(
        defined,
        observed,
        alternative=plan.alternative,
        exact=flips.exact,
        tolerance=_tie_tolerance(defined),
    )


def _tie_tolerance(differences: FloatArray) -> float:
    """Quotients that are equal on paper may differ in their last digits."""
    return _SAME * float(np.max(np.abs(differences)))


def _standard_error(cases: _Cases) -> float | None:
    """By linearisation: how much each case pulls at the difference of the ratios."""
    units = cases.units
    totals = units.totals
    if totals[1] <= 0 or totals[3] <= 0:
        return None
    numerator_a, denominator_a, numerator_b, denominator_b = units.rows.T
    pull_b = (numerator_b - totals[2] / totals[3] * denominator_b) / totals[3]
    pull_a = (numerator_a - totals[0] / totals[1] * denominator_a) / totals[1]
    inflation = units.size / (units.size - 1)
    pull = pull_b - pull_a
    return math.sqrt(inflation * weighted_total(units.counts, pull * pull))


def _detectable(cases: _Cases, plan: ComparisonPlan, *, standard_error: float | None) -> float | None:
    if cases.is_identical or not standard_error:
        return None
    return minimum_detectable_effect(
        standard_error,
        cases.units.size,
        typical_move=None,
        confidence=plan.confidence,
        power=plan.power,
        alternative=plan.alternative,
    )
