"""How much a metric moves when nothing changed, and whether many small moves add up."""

# The noise band comes from A/A pairs: runs of one system repeated. A drift test looks at the trailing nights together,
# because a slow decline can pass every single night.

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Final

import numpy as np

from eval_pipeline.stats.errors import ImpossibleOption, UnpairedValues
from eval_pipeline.stats.results import Alternative, check_alternative, check_share
from eval_pipeline.stats.units import FloatArray, finite_values, grid_blur, on_exact_grid

_FEWEST_NIGHTS: Final = 4
# Apart from what else was ever drawn under a seed.
_STREAM: Final = 3


@dataclass(frozen=True, slots=True)
class NoiseBand:
    """Where the next difference of an identical pair falls with this confidence."""

    low: float
    high: float
    pairs: int
    confidence: float


@dataclass(frozen=True, slots=True)
class DriftResult:
    """The trend over trailing nights; `total_change` is the slope times the nights it spans."""

    n: int
    slope_per_night: float | None
    total_change: float | None
    p_value: float | None
    test: str | None


def pairs_needed_for_band(confidence: float = 0.95) -> int:
    """The fewest A/A pairs that carry a band of this confidence."""
    check_share("confidence", confidence)
    return math.ceil(_settled(confidence / (1 - confidence)))


def noise_band(deltas_of_identical_pairs: Sequence[float], *, confidence: float = 0.95) -> NoiseBand | None:
    """The band around 0 that the next A/A difference leaves with a chance of at most 1 − confidence.

    It assumes no distribution: among k pairs and one more, each size is equally likely to be the largest, so the
    band is read off the sorted sizes at rank ceil(confidence × (k + 1)). Which run of an identical pair comes first
    means nothing, so the band is symmetric. With fewer pairs than that rank there is no band: None.
    """
    sizes = np.sort(np.abs(finite_values(deltas_of_identical_pairs, "deltas_of_identical_pairs")))
    if sizes.size < pairs_needed_for_band(confidence):
        return None
    rank = math.ceil(_settled(confidence * (sizes.size + 1)))
    edge = float(sizes[min(rank, sizes.size) - 1])
    return NoiseBand(low=-edge + 0.0, high=edge, pairs=int(sizes.size), confidence=confidence)


def drift_test(
    values: Sequence[float],
    *,
    seed: int,
    nights: Sequence[int] | None = None,
    alternative: Alternative = "less",
    resamples: int = 10_000,
) -> DriftResult:
    """Does the metric go down (`less`), up (`greater`) or either way over these nights, oldest first?

    Permutation test on the least-squares slope: without drift every order of the nights is equally likely. Up to
    seven nights all orders are tried and the p-value is exact; else `resamples` random ones, the observed one
    counted. `nights` are day numbers when some are missing. Fewer than four nights give no p-value.
    """
    check_alternative(alternative)
    series = finite_values(values, "values")
    days = _day_numbers(nights, series.size)
    if series.size < 2:
        return DriftResult(int(series.size), None, None, None, None)
    slope = _slope(days, series)
    total_change = slope * float(days[-1])
    if series.size < _FEWEST_NIGHTS:
        return DriftResult(int(series.size), slope, total_change, None, None)
    if np.all(series == series[0]):
        return DriftResult(int(series.size), 0.0, 0.0, 1.0, "identical")
    test, p_value = _trend_test(days, series, seed=seed, resamples=resamples, alternative=alternative)
    return DriftResult(int(series.size), slope, total_change, p_value, test)


def _trend_test(
    days: FloatArray, series: FloatArray, *, seed: int, resamples: int, alternative: Alternative
) -> tuple[str, float]:
    # Whole days times gridded values add up exactly, whatever the order.
    terms = series.size * (int(days.sum()) + series.size)
    gridded = on_exact_grid(series, terms=terms)
    exact = math.factorial(series.size) <= resamples
    orders = _orders(series.size, exact=exact, seed=seed, resamples=resamples)
    centre = float(gridded.sum()) * float(days.sum())
    trends = series.size * (gridded[orders] @ days) - centre
    p_value = _permutation_p_value(
        trends,
        series.size * float(gridded @ days) - centre,
        alternative=alternative,
        exact=exact,
        tolerance=grid_blur(series, terms=terms),
    )
    return "slope_permutation_exact" if exact else "slope_permutation", p_value


def _permutation_p_value(
    null_values: FloatArray,
    observed: float,
    *,
    alternative: Alternative,
    exact: bool,
    tolerance: float = 0.0,
) -> float:
    """The share of the null distribution at least as extreme as what was observed.

    A sampled distribution counts the observation itself (the +1), so that the p-value is never 0 and the test never
    raises more false alarms than promised. Slopes are symmetric about 0, so the two-sided
    value compares absolute values. What lies within `tolerance` of the observation is a tie and counts.
    """
    if alternative == "greater":
        extreme = null_values >= observed - tolerance
    elif alternative == "less":
        extreme = null_values <= observed + tolerance
    else:
        extreme = np.abs(null_values) >= abs(observed) - tolerance
    count = int(np.count_nonzero(extreme))
    if exact:
        return count / null_values.size
    return (count + 1) / (null_values.size + 1)


def _day_numbers(nights: Sequence[int] | None, n: int) -> FloatArray:
    if nights is None:
        return np.arange(n, dtype=np.float64)
    if len(nights) != n:
        raise UnpairedValues(
            f"nights has {len(nights)} entries for {n} values; allowed is one day number per value"
        )
    days = np.asarray(nights, dtype=np.int64)
    if np.any(np.diff(days) <= 0):
        raise ImpossibleOption("nights do not rise; allowed are whole day numbers, oldest first, each once")
    return (days - days[0]).astype(np.float64) if n else np.zeros(0)


def _slope(days: FloatArray, series: FloatArray) -> float:
    n = days.size
    centred = days - days.sum() / n
    middle = math.fsum(series.tolist()) / n
    return math.fsum((centred * (series - middle)).tolist()) / math.fsum((centred * centred).tolist())


def _orders(
    n: int, *, exact: bool, seed: int, resamples: int
) -> np.ndarray[tuple[int, int], np.dtype[np.intp]]:
    if exact:
        return np.array(list(permutations(range(n))), dtype=np.intp)
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, _STREAM))))
    unmixed = np.tile(np.arange(n, dtype=np.intp), (resamples, 1))
    return generator.permuted(unmixed, axis=1)


def _settled(value: float) -> float:
    """Takes back the last digits of a product that should have been whole, such as 0.95 / 0.05."""
    return round(value, 9)
