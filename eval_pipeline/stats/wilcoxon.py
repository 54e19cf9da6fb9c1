"""Wilcoxon's signed-rank test, the second opinion on ordinal scores."""

# Zero differences are left out (Wilcoxon's own rule) and equal sizes share their mean rank. Up to a hundred differences
# the distribution is exact, ties included; beyond that the normal approximation with the correction for ties.

from __future__ import annotations

import math
from typing import Final

import numpy as np

from eval_pipeline.stats.results import Alternative, check_alternative
from eval_pipeline.stats.units import FloatArray, IntArray, Units

_MOST_EXACT: Final = 100


def signed_rank_p_value(units: Units, *, alternative: Alternative = "two-sided") -> float | None:
    """The p-value for differences given as distinct values with counts; None when all of them are zero."""
    check_alternative(alternative)
    differences = units.rows[:, 0]
    moved = differences != 0
    if not np.any(moved):
        return None
    sizes, place = np.unique(np.abs(differences[moved]), return_inverse=True)
    tied = np.bincount(place, weights=units.counts[moved], minlength=sizes.size).astype(np.int64)
    positive = np.bincount(
        place, weights=np.where(differences[moved] > 0, units.counts[moved], 0), minlength=sizes.size
    ).astype(np.int64)
    # Twice the mean rank, so that shared ranks stay whole numbers.
    doubled_ranks = 2 * (np.cumsum(tied) - tied) + tied + 1
    statistic = int(positive @ doubled_ranks)
    if int(tied.sum()) <= _MOST_EXACT:
        at_least, at_most = _exact_tails(doubled_ranks, tied, statistic)
    else:
        at_least, at_most = _normal_tails(tied, statistic)
    if alternative == "two-sided":
        return min(1.0, 2 * min(at_least, at_most))
    return min(1.0, at_least if alternative == "greater" else at_most)


def _exact_tails(doubled_ranks: IntArray, tied: IntArray, statistic: int) -> tuple[float, float]:
    n = int(tied.sum())
    chances: FloatArray = np.zeros(n * (n + 1) + 1)
    chances[0] = 1.0
    for rank in np.repeat(doubled_ranks, tied).tolist():
        chances[rank:] = chances[rank:] + chances[:-rank]
        chances /= 2
    return float(chances[statistic:].sum()), float(chances[: statistic + 1].sum())


def _normal_tails(tied: IntArray, doubled_statistic: int) -> tuple[float, float]:
    n = int(tied.sum())
    sizes = tied.astype(np.float64)
    variance = (n * (n + 1) * (2 * n + 1) - float(np.sum(sizes**3 - sizes)) / 2) / 24
    distance = (doubled_statistic / 2 - n * (n + 1) / 4) / math.sqrt(variance)
    return math.erfc(distance / math.sqrt(2)) / 2, math.erfc(-distance / math.sqrt(2)) / 2
