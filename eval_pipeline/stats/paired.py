"""Two runs compared query by query: how large b − a is, how sure, and what could have been seen."""

# The scale of a metric chooses its statistics:
#
# ============================  ======================================  =============================
# scale                         test                                    interval
# ============================  ======================================  =============================
# binary                        exact McNemar                           Tango's score interval
# fraction, ordinal, count, ms  sign-flip permutation of the mean       BCa bootstrap
# any, in clusters              sign flips of whole clusters            BCa bootstrap of clusters
# no difference anywhere        "identical": p = 1                      [0, 0]
# ============================  ======================================  =============================
#
# A bootstrap needs something to resample. Units too few for any test to become significant get Student's t interval;
# one and the same difference everywhere gets, on a scale from 0 to 1, the interval that the unseen rest leaves open.

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from eval_pipeline.stats.binary import mcnemar_exact, paired_proportions_interval
from eval_pipeline.stats.errors import ImpossibleOption
from eval_pipeline.stats.intervals import bootstrap_interval, range_interval, student_interval
from eval_pipeline.stats.power import (
    binary_minimum_detectable_effect,
    fewest_moved_units,
    minimum_detectable_effect,
)
from eval_pipeline.stats.resampling import bootstrap_sums, permutation_p_value, sign_flip_sums
from eval_pipeline.stats.results import (
    SCALES,
    Alternative,
    ComparisonPlan,
    Interval,
    PairedResult,
    Scale,
    with_interval,
)
from eval_pipeline.stats.units import (
    FloatArray,
    Groups,
    IntArray,
    Units,
    check_scale_values,
    cluster_numbers,
    distinct_units,
    finite_values,
    grid_blur,
    same_length,
    sampling_columns,
    unsigned_units,
    weighted_total,
)

_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class _Sample:
    """Differences of one metric; a unit's row is its sum of differences and, in clusters, its number of queries."""

    differences: FloatArray
    numbers: IntArray | None
    units: Units
    delta: float
    scale: Scale

    @property
    def is_binary(self) -> bool:
        """McNemar's test takes the queries to be independent, so not in clusters."""
        return self.scale == "binary" and self.numbers is None

    @property
    def is_bounded(self) -> bool:
        """On a scale from 0 to 1 no difference exceeds 1."""
        return self.scale in ("binary", "fraction")

    @property
    def is_identical(self) -> bool:
        return not np.any(self.differences)

    @property
    def is_constant(self) -> bool:
        """Every unit shows the same mean, so that resampling shows no spread."""
        means = self.units.rows[:, 0] / self.unit_sizes
        return bool(np.ptp(means) <= _ROUNDING * np.max(np.abs(means)))

    @property
    def blur(self) -> float:
        """Sums of differences closer than this are ties."""
        return grid_blur(self.differences, terms=self.differences.size)

    @property
    def unit_sizes(self) -> FloatArray:
        rows = self.units.rows
        return rows[:, 1] if rows.shape[1] > 1 else np.ones(rows.shape[0])

    def count(self, difference: int) -> int:
        return int(np.count_nonzero(self.differences == difference))


def compare_paired(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    scale: Scale,
    seed: int,
    groups: Groups | None = None,
    resamples: int = 10_000,
    confidence: float = 0.95,
    alternative: Alternative = "two-sided",
    power: float = 0.8,
    is_interval_wanted: bool = True,
) -> PairedResult:
    """Compare one metric of two runs over the queries on which both define it.

    `groups` names the cluster of each query (None: on its own). `alternative` says what the p-value is to show:
    "greater" that b is larger than a, "less" that it is smaller; a gate with a margin of 0.02 compares `lower_bound`
    with −0.02. Neither the order of the queries nor the number of threads changes a bit of the result. Most of the work
    is the interval, which can be left out.
    """
    plan = ComparisonPlan(
        seed=seed, resamples=resamples, confidence=confidence, alternative=alternative, power=power
    )
    _check_scale(scale)
    sample = _sample_of(a, b, scale=scale, groups=groups)
    n = int(sample.differences.size)
    unanswered = PairedResult(
        n=n,
        clusters=sample.units.size if sample.numbers is not None else None,
        delta=sample.delta if n else None,
        confidence=confidence,
        alternative=alternative,
    )
    if sample.units.size < 2:
        return unanswered
    answered = _answered(unanswered, sample, plan)
    return with_interval(answered, _interval(sample, plan)) if is_interval_wanted else answered


def _answered(unanswered: PairedResult, sample: _Sample, plan: ComparisonPlan) -> PairedResult:
    test, p_value = _test(sample, plan)
    return replace(
        unanswered,
        p_value=p_value,
        test=test,
        standard_error=_standard_error(sample),
        mde=_detectable(sample, plan),
    )


def _check_scale(scale: str) -> None:
    if scale not in SCALES:
        raise ImpossibleOption(f"scale is {scale!r}; allowed is one of {', '.join(SCALES)}")


def _sample_of(a: npt.ArrayLike, b: npt.ArrayLike, *, scale: Scale, groups: Groups | None) -> _Sample:
    sides = {"a": finite_values(a, "a"), "b": finite_values(b, "b")}
    same_length(sides)
    for name, side in sides.items():
        check_scale_values(side, name, scale=scale)
    differences = finite_values(sides["b"] - sides["a"], "b - a")
    numbers = cluster_numbers(groups, differences.size)
    # The exactly rounded sum does not depend on the order of the queries.
    delta = math.fsum(differences.tolist()) / differences.size + 0.0 if differences.size else 0.0
    return _Sample(differences, numbers, _units_of(differences, numbers), delta, scale)


def _units_of(differences: FloatArray, numbers: IntArray | None) -> Units:
    sizes = [] if numbers is None else [np.ones(differences.size)]
    return distinct_units(sampling_columns([differences, *sizes], numbers))


def _mean(sums: FloatArray, units: Units) -> FloatArray:
    """Sum of differences over number of queries, which varies from resample to resample only with clusters."""
    weights = sums[..., 1] if sums.shape[-1] > 1 else float(units.size)
    return np.asarray(sums[..., 0] / weights, dtype=np.float64)


def _interval(sample: _Sample, plan: ComparisonPlan) -> Interval | None:
    if sample.is_identical:
        return Interval(0.0, 0.0, 0.0, 0.0, method="identical")
    if sample.is_binary:
        wins, losses = sample.count(1), sample.count(-1)
        return paired_proportions_interval(wins, losses, sample.differences.size, confidence=plan.confidence)
    units = sample.units
    if sample.is_constant:
        return _interval_of_constant(sample, plan)
    if units.size < fewest_moved_units(confidence=plan.confidence):
        error = _standard_error(sample)
        wide = student_interval(sample.delta, error, units=units.size, confidence=plan.confidence)
        return _within_unit_range(wide) if sample.is_bounded else wide
    sums = bootstrap_sums(units, seed=plan.seed, resamples=plan.resamples)
    return bootstrap_interval(
        _mean(sums, units),
        float(_mean(units.totals, units)),
        left_out=_mean_without_one(units),
        counts=units.counts,
        confidence=plan.confidence,
        tolerance=sample.blur / sample.differences.size,
    )


def _interval_of_constant(sample: _Sample, plan: ComparisonPlan) -> Interval | None:
    delta = sample.delta
    if sample.is_bounded:
        return range_interval(delta, units=sample.units.size, confidence=plan.confidence, largest=1.0)
    if sample.units.size < fewest_moved_units(confidence=plan.confidence):
        return None
    return Interval(delta, delta, delta, delta, method="percentile")


def _within_unit_range(interval: Interval) -> Interval:
    return Interval(
        max(interval.low, -1.0),
        min(interval.high, 1.0),
        max(interval.lower_bound, -1.0),
        min(interval.upper_bound, 1.0),
        interval.method,
    )


def _mean_without_one(units: Units) -> FloatArray:
    rest = units.totals - units.rows
    weights = rest[:, 1] if rest.shape[1] > 1 else float(units.size - 1)
    return np.asarray(rest[:, 0] / weights, dtype=np.float64)


def _test(sample: _Sample, plan: ComparisonPlan) -> tuple[str, float]:
    if sample.is_identical:
        return "identical", 1.0
    if sample.is_binary:
        wins, losses = sample.count(1), sample.count(-1)
        return "mcnemar_exact", mcnemar_exact(wins, losses, alternative=plan.alternative)
    columns = sampling_columns([sample.differences], sample.numbers)
    flips = sign_flip_sums(unsigned_units(columns), seed=plan.seed, resamples=plan.resamples)
    p_value = permutation_p_value(
        flips.sums[:, 0],
        float(columns.sum()),
        alternative=plan.alternative,
        exact=flips.exact,
        tolerance=sample.blur,
    )
    name = "sign_flip" if sample.numbers is None else "cluster_sign_flip"
    return (f"{name}_exact" if flips.exact else name), p_value


def _standard_error(sample: _Sample) -> float:
    """Of the mean; with clusters of the ratio of sums, so that alike queries do not pass for independent ones."""
    units = sample.units
    totals = units.totals
    residuals = units.rows[:, 0] - float(_mean(totals, units)) * sample.unit_sizes
    inflation = units.size / (units.size - 1)
    return (
        math.sqrt(inflation * weighted_total(units.counts, residuals * residuals)) / sample.differences.size
    )


def _detectable(sample: _Sample, plan: ComparisonPlan) -> float | None:
    if sample.is_binary:
        discordant = int(np.count_nonzero(sample.differences))
        return binary_minimum_detectable_effect(
            sample.differences.size,
            discordant,
            confidence=plan.confidence,
            power=plan.power,
            alternative=plan.alternative,
        )
    move = _typical_move(sample)
    if move is None:
        return None
    effect = minimum_detectable_effect(
        _standard_error(sample),
        sample.units.size,
        typical_move=move,
        confidence=plan.confidence,
        power=plan.power,
        alternative=plan.alternative,
    )
    return None if effect is None or (sample.is_bounded and effect > 1) else effect


def _typical_move(sample: _Sample) -> float | None:
    """How far the mean would shift if every unit moved like those that did."""
    if sample.is_identical:
        # Nothing moved: on a bounded scale take the largest move there is, else its size is unknown.
        return 1.0 if sample.is_bounded else None
    units = sample.units
    sizes = np.abs(units.rows[:, 0])
    moved = sizes > 0
    if not np.any(moved):
        return None
    average = weighted_total(units.counts, sizes) / int(units.counts[moved].sum())
    return average * units.size / sample.differences.size
