"""A mean difference with two imagined moves: interval, bounds, p-value and detectable effect."""

# Bonett and Price (2012) add an imagined win and an imagined loss to paired proportions, so that thirty pairs without a
# difference leave room for what thirty pairs cannot show. The same is done here on any scale: two units more, one that
# moved up and one that moved down, as far as a typical unit moves. The moves that were seen say what is typical, and
# one as wide as the range; a scale without ends has its own moves alone. The rest is Student's t, with as many degrees
# of freedom as the spread of the squares leaves: one far move among many small ones is little to go by.
#
# All sums are correctly rounded and run over distinct rows with their counts: the order of the queries changes no bit.

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from eval_pipeline.stats.results import Alternative, Interval
from eval_pipeline.stats.student import student_quantile, student_tail
from eval_pipeline.stats.units import FloatArray, IntArray, Units, distinct_units, weighted_total

METHOD: Final = "imagined_moves"
LEAST_P: Final = 1e-15
# What is left of a cluster's sum of differences that cancel each other.
_CANCELLED: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the units show: `delta` is their mean difference, `centre` the one with the imagined moves.

    `reach` is how far the mean can move at all, None where there is no end.
    """

    delta: float
    centre: float
    standard_error: float
    degrees: float
    moved: int
    reach: float | None

    def interval(self, confidence: float) -> Interval:
        """Both ends and the bounds that hold alone, none of them further than the mean can move."""
        tail = 1 - confidence
        two_sided, one_sided = (self._margin(share) for share in (tail / 2, tail))
        return Interval(
            self._within_reach(self.centre - two_sided),
            self._within_reach(self.centre + two_sided),
            self._within_reach(self.centre - one_sided),
            self._within_reach(self.centre + one_sided),
            method=METHOD,
        )

    def p_value(self, alternative: Alternative) -> float:
        """How often the imagined null shows as much: below 5 % exactly where the interval of 95 % leaves out 0."""
        t = self.centre / self.standard_error
        if alternative == "two-sided":
            return min(1.0, max(LEAST_P, 2 * student_tail(abs(t), self.degrees)))
        return max(LEAST_P, student_tail(t if alternative == "greater" else -t, self.degrees))

    def detectable(self, confidence: float, power: float, alternative: Alternative) -> float | None:
        """The smallest difference found with this power; None where no difference is as large as that."""
        tail = (1 - confidence) / (2 if alternative == "two-sided" else 1)
        effect = self._margin(tail) + self._margin(1 - power)
        return None if self.reach is not None and effect > self.reach else effect

    def _margin(self, tail: float) -> float:
        return student_quantile(tail, self.degrees) * self.standard_error

    def _within_reach(self, value: float) -> float:
        return value if self.reach is None else max(-self.reach, min(self.reach, value))


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Per unit the sum of its differences, its number of queries, and whether anything in it moved."""

    differences: FloatArray
    sizes: FloatArray
    is_moved: FloatArray

    def distinct(self) -> Units:
        """The distinct rows with their counts; one column alone is sorted far sooner than three."""
        if np.all(self.sizes == 1) and np.array_equal(self.is_moved, self.differences != 0):
            values, counts = np.unique(self.differences + 0.0, return_counts=True)
            return Units(np.column_stack([values, np.ones(values.size), values != 0]), counts)
        return distinct_units(np.column_stack([self.differences, self.sizes, self.is_moved]))


def sums_of(differences: FloatArray, clusters: IntArray | None, is_moved: FloatArray | None = None) -> Sums:
    """Unit by unit; without clusters every query is one."""
    if clusters is None:
        moved = differences != 0 if is_moved is None else is_moved
        return Sums(differences, np.ones(differences.size), moved.astype(np.float64))
    sums = cluster_sums(differences, clusters)
    moved = sums != 0 if is_moved is None else np.bincount(clusters, weights=is_moved) > 0
    return Sums(sums, np.bincount(clusters).astype(np.float64), moved.astype(np.float64))


def cluster_sums(values: FloatArray, clusters: IntArray) -> FloatArray:
    """The correctly rounded sum of every cluster; moves that cancel each other on paper add up to 0."""
    order = np.argsort(clusters, kind="stable")
    sizes = np.bincount(clusters)
    ends = np.cumsum(sizes).tolist()
    ordered = values[order].tolist()
    sums = np.array(
        [math.fsum(ordered[end - size : end]) for end, size in zip(ends, sizes.tolist(), strict=True)]
    )
    sums[np.abs(sums) <= _CANCELLED * np.bincount(clusters, weights=np.abs(values))] = 0.0
    return sums


def imagined_moves(sums: Sums, *, reach: float | None, spread: float = 0.0) -> Evidence | None:
    """The evidence of two units or more; None where nothing moved on a scale without ends and without any `spread`.

    `reach` is the width of the metric's range, `spread` the distance between the least and the greatest value seen.
    """
    units = sums.distinct()
    rows, size = units.rows, float(sums.sizes.sum()) / units.size
    moved = rows[:, 2] != 0
    n_moved = int(units.counts[moved].sum())
    widest = reach if reach is not None else (0.0 if n_moved else spread)
    if not n_moved and not widest:
        return None
    unit = _power_of_two(max(float(np.max(np.abs(rows[:, 0]))), widest * size))
    scaled = rows[:, 0] / unit
    squares = weighted_total(units.counts[moved], scaled[moved] ** 2) + (widest * size / unit) ** 2
    typical = math.sqrt(squares / (n_moved + (widest > 0)))
    n = float(sums.sizes.sum())
    total = weighted_total(units.counts, scaled)
    centre = total / (n + 2 * size)
    ends = (typical - centre * size, -typical - centre * size)
    error, degrees = _spread_of(scaled - centre * rows[:, 1], units.counts, ends, n + 2 * size)
    return Evidence(total / n * unit, centre * unit, error * unit, degrees, n_moved, reach)


def imagined_queries(sums: Sums, *, low: float, high: float) -> Evidence:
    """One run's mean, with an imagined query at each end: of the range, or of the values where it has none."""
    units = sums.distinct()
    rows, n = units.rows, float(sums.sizes.sum())
    size = n / units.size
    total = weighted_total(units.counts, rows[:, 0])
    centre = (total + (low + high) * size) / (n + 2 * size)
    ends = ((low - centre) * size, (high - centre) * size)
    error, degrees = _spread_of(rows[:, 0] - centre * rows[:, 1], units.counts, ends, n + 2 * size)
    return Evidence(total / n, centre, error, degrees, units.size, None)


def _spread_of(
    residuals: FloatArray, counts: IntArray, ends: tuple[float, float], n: float
) -> tuple[float, float]:
    """Standard error of the mean over n queries, and the degrees of freedom by the kurtosis of the residuals."""
    largest = _power_of_two(max(float(np.max(np.abs(residuals))), *(abs(end) for end in ends)))
    squares = (residuals / largest) ** 2
    added = [(end / largest) ** 2 for end in ends]
    second = math.fsum([weighted_total(counts, squares), *added])
    fourth = math.fsum([weighted_total(counts, squares**2), *(square**2 for square in added)])
    units = int(counts.sum())
    error = math.sqrt(second * (units + 2) / (units + 1)) / n * largest
    return error, min(units + 1.0, 2 * second**2 / fourth)


def _power_of_two(value: float) -> float:
    """Near the value: dividing by it loses no bit, and keeps fourth powers from running over."""
    return math.ldexp(1.0, math.frexp(value)[1])
