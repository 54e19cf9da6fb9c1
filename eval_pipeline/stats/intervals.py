"""Confidence intervals from a bootstrap distribution."""

# BCa (bias-corrected and accelerated; Efron 1987) reads the distribution at levels shifted by its bias and skewness.
# Where these cannot be told (every resample on one side of the estimate, no spread, a correction beyond its pole) the
# plain percentiles are read instead, and the method says so. A handful of values has too few resamples to tell its own
# spread: there Student's t is wider and keeps its promise.

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final

import numpy as np

from eval_pipeline.stats.results import Interval
from eval_pipeline.stats.units import FloatArray, IntArray, weighted_total

_HALVINGS: Final = 60


def bootstrap_interval(
    distribution: FloatArray,
    observed: float,
    *,
    left_out: FloatArray,
    counts: IntArray,
    confidence: float,
    tolerance: float = 0.0,
) -> Interval:
    """BCa interval, or percentiles when degenerate.

    `left_out` holds the estimate without one unit, once per distinct unit; `counts` how often that unit occurs.
    Resamples within `tolerance` of the estimate are ties.
    """
    tail = 1 - confidence
    levels = (tail / 2, 1 - tail / 2, tail, 1 - tail)
    shifted = bca_levels(
        distribution, observed, left_out=left_out, counts=counts, levels=levels, tolerance=tolerance
    )
    low, high, lower_bound, upper_bound = np.quantile(
        distribution, levels if shifted is None else shifted
    ).tolist()
    return Interval(low, high, lower_bound, upper_bound, method="percentile" if shifted is None else "bca")


def bca_levels(
    distribution: FloatArray,
    observed: float,
    *,
    left_out: FloatArray,
    counts: IntArray,
    levels: Sequence[float],
    tolerance: float = 0.0,
) -> list[float] | None:
    """Where to read the distribution instead of at `levels`; None when that cannot be told."""
    below = np.count_nonzero(distribution < observed - tolerance)
    not_above = np.count_nonzero(distribution <= observed + tolerance)
    share_below = (below + not_above) / (2 * distribution.size)
    acceleration = _acceleration(left_out, counts)
    if not 0 < share_below < 1 or acceleration is None:
        return None
    normal = NormalDist()
    bias = normal.inv_cdf(share_below)
    shifted = []
    for level in levels:
        reach = bias + normal.inv_cdf(level)
        if 1 - acceleration * reach <= 0:
            return None
        shifted.append(normal.cdf(bias + reach / (1 - acceleration * reach)))
    return shifted


def _acceleration(left_out: FloatArray, counts: IntArray) -> float | None:
    if not np.all(np.isfinite(left_out)):
        return None
    distances = weighted_total(counts, left_out) / int(counts.sum()) - left_out
    largest = float(np.max(np.abs(distances)))
    # A spread that is nothing but rounding has no skewness.
    if largest <= 1e-12 * float(np.max(np.abs(left_out))):
        return None
    scaled = distances / largest
    squares = weighted_total(counts, scaled * scaled)
    cubes = weighted_total(counts, scaled * scaled * scaled)
    return cubes / (6 * squares * math.sqrt(squares))


def student_interval(estimate: float, standard_error: float, *, units: int, confidence: float) -> Interval:
    """Student's t interval for a mean of few units."""
    tail = 1 - confidence
    two_sided = student_quantile(1 - tail / 2, units - 1) * standard_error
    one_sided = student_quantile(1 - tail, units - 1) * standard_error
    return Interval(
        estimate - two_sided,
        estimate + two_sided,
        estimate - one_sided,
        estimate + one_sided,
        method="student",
    )


def student_quantile(level: float, degrees: int) -> float:
    """The t value below which a share `level` of Student's distribution lies."""
    if level < 0.5:
        return -student_quantile(1 - level, degrees)
    low, high = 0.0, math.pi / 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if _central_mass(middle, degrees) >= 2 * level - 1 else (middle, high)
    return math.sqrt(degrees) * math.tan((low + high) / 2)


def _central_mass(angle: float, degrees: int) -> float:
    """P(|T| <= sqrt(degrees) · tan(angle)): a finite sum for whole degrees of freedom."""
    is_odd = degrees % 2 == 1
    cosine = math.cos(angle)
    term = math.sin(angle) * (cosine if is_odd else 1.0)
    total = 0.0
    for power in range(degrees % 2, degrees - 1, 2):
        total += term
        term *= cosine**2 * (power + 1) / (power + 2)
    return 2 / math.pi * (angle + total) if is_odd else total


def range_interval(value: float, *, units: int, confidence: float, largest: float) -> Interval:
    """For units that all show one value: what the share not seen so far could do within ±largest.

    With chance 1 − tail at least a share tail^(1/units) of all units shows that value; the rest may be anywhere.
    """
    tail = 1 - confidence
    ends = []
    for share in (tail / 2, tail):
        unseen = 1 - share ** (1 / units)
        ends.append((value - unseen * (value + largest), value + unseen * (largest - value)))
    (low, high), (lower_bound, upper_bound) = ends
    return Interval(low, high, lower_bound, upper_bound, method="range")
