"""How far two raters agree beyond chance: Cohen's kappa with quadratic weights, and its interval."""

# Kappa is 1 − disagreement seen / disagreement by chance. Both are means over the pairs, so it is known how each pair
# moves kappa, and the interval is Student's t over these influences. Two imagined pairs, one each way, as far apart as
# pairs that disagree typically are, keep a small sample without a disagreement from claiming that there is none.

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eval_pipeline.stats.results import check_share
from eval_pipeline.stats.student import student_quantile
from eval_pipeline.stats.units import FloatArray, finite_values, same_length


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Kappa of two raters over the same items, with the interval that encloses it; `reason` says why there is none."""

    n: int
    kappa: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    confidence: float = 0.95
    reason: str | None = None


def quadratic_kappa(
    first: Sequence[float], second: Sequence[float], *, reach: float, confidence: float = 0.95
) -> Agreement:
    """Of two raters on a scale as wide as `reach`; yes and no are 1 and 0, where it is the usual kappa."""
    check_share("confidence", confidence)
    a, b = finite_values(first, "first"), finite_values(second, "second")
    same_length({"first": a, "second": b})
    n = int(a.size)
    if n < 2:
        return Agreement(n=n, confidence=confidence, reason="fewer than 2 items")
    by_chance = _by_chance(a, b)
    if by_chance == 0:
        return Agreement(n=n, confidence=confidence, reason="both raters always say the same one thing")
    kappa = 1 - float(np.mean((a - b) ** 2)) / by_chance
    low, high = _interval(a, b, reach, confidence)
    return Agreement(
        n=n, kappa=kappa, ci_low=min(low, kappa), ci_high=max(high, kappa), confidence=confidence
    )


def _by_chance(a: FloatArray, b: FloatArray) -> float:
    """The mean squared distance of any first to any second."""
    return float(np.var(a) + np.var(b) + (np.mean(a) - np.mean(b)) ** 2)


def _interval(a: FloatArray, b: FloatArray, reach: float, confidence: float) -> tuple[float, float]:
    moved = a != b
    typical = math.sqrt((reach**2 + float(np.sum((a - b) ** 2))) / (int(moved.sum()) + 1))
    middle = float(np.mean(np.concatenate([a, b])))
    ends = np.array([middle - typical / 2, middle + typical / 2])
    a, b = np.concatenate([a, ends]), np.concatenate([b, ends[::-1]])
    influences = _influences(a, b)
    units = a.size - 2
    squares, fourths = float(np.sum(influences**2)), float(np.sum(influences**4))
    error = math.sqrt(squares * (units + 2) / (units + 1)) / a.size
    degrees = min(units + 1.0, 2 * squares**2 / fourths) if fourths else units + 1.0
    centre = 1 - float(np.mean((a - b) ** 2)) / _by_chance(a, b)
    margin = student_quantile((1 - confidence) / 2, degrees) * error
    return max(-1.0, centre - margin), min(1.0, centre + margin)


def _influences(a: FloatArray, b: FloatArray) -> FloatArray:
    """How far each pair pulls kappa from its mean."""
    seen, chance = (a - b) ** 2, _by_chance(a, b)
    from_a, from_b = a - np.mean(a), b - np.mean(b)
    apart = float(np.mean(a) - np.mean(b))
    moves_chance = from_a**2 - np.var(a) + from_b**2 - np.var(b) + 2 * apart * (from_a - from_b)
    mean_seen = float(np.mean(seen))
    found: FloatArray = -(seen - mean_seen) / chance + mean_seen * moves_chance / chance**2
    return found
