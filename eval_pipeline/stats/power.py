"""What a comparison could have seen, and how many queries it would take to see more."""

# Two limits hold at once. The spread of the differences blurs their mean: the usual normal approximation. And a test on
# paired differences turns on how many queries moved at all: below a handful no test can reach significance, however
# large the moves, so that a quiet history must not be read as great precision.

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Final

from eval_pipeline.stats.errors import ImpossibleOption, ImpossibleValue
from eval_pipeline.stats.results import Alternative, check_alternative, check_share

_HALVINGS: Final = 60


def minimum_detectable_effect(
    standard_error: float,
    units: int,
    *,
    typical_move: float | None,
    confidence: float = 0.95,
    power: float = 0.8,
    alternative: Alternative = "two-sided",
) -> float | None:
    """The smallest mean difference found with this power, given the standard error seen now.

    `typical_move` is by how much the mean shifts when every unit moves, seen from the units that did move; where it
    is None the second limit only decides whether there is an answer. None when no difference could be found.
    """
    share = smallest_detectable_share(units, confidence=confidence, power=power, alternative=alternative)
    if share is None:
        return None
    blurred = (_critical(confidence, alternative) + NormalDist().inv_cdf(power)) * standard_error
    return max(blurred, share * typical_move) if typical_move is not None else blurred


def binary_minimum_detectable_effect(
    n: int,
    discordant: int,
    *,
    confidence: float = 0.95,
    power: float = 0.8,
    alternative: Alternative = "two-sided",
) -> float | None:
    """The smallest difference of two paired proportions that McNemar's test finds with this power.

    Connor's formula (1987) with the share of disagreements seen now; a difference larger than that share needs at
    least as many disagreements as itself.
    """
    share = smallest_detectable_share(n, confidence=confidence, power=power, alternative=alternative)
    if share is None:
        return None
    critical = _critical(confidence, alternative)

    def found(difference: float) -> bool:
        disagreeing = max(discordant / n, difference)
        spread = math.sqrt(max(disagreeing - difference**2, 0.0))
        surplus = difference * math.sqrt(n) - critical * math.sqrt(disagreeing)
        return surplus >= NormalDist().inv_cdf(power) * spread

    blurred = _smallest(found)
    return None if blurred is None else max(blurred, share)


def smallest_detectable_share(
    units: int, *, confidence: float = 0.95, power: float = 0.8, alternative: Alternative = "two-sided"
) -> float | None:
    """The share of units that must move, all in one direction, for an exact test to notice with this power."""
    fewest = fewest_moved_units(confidence=confidence, alternative=alternative)
    check_share("power", power)
    if units < fewest:
        return None
    return _smallest(lambda share: _chance_of_fewer(fewest, units, share) <= 1 - power)


def fewest_moved_units(*, confidence: float = 0.95, alternative: Alternative = "two-sided") -> int:
    """How many units must move, all in one direction, before any paired test can be significant."""
    check_share("confidence", confidence)
    check_alternative(alternative)
    tails = 2 if alternative == "two-sided" else 1
    fewest = 1
    while tails * 0.5**fewest > 1 - confidence:
        fewest += 1
    return fewest


def queries_needed(
    margin: float,
    standard_error: float | None,
    *,
    n: int,
    confidence: float = 0.95,
    power: float = 0.8,
    alternative: Alternative = "two-sided",
) -> int | None:
    """How many queries would tell a difference of `margin` from none, judged by n queries with this standard error.

    The spread per query, clusters included, is taken to stay as it is. None when no spread has been seen.
    """
    if not (math.isfinite(margin) and margin > 0):
        raise ImpossibleOption(
            f"margin is {margin!r}; allowed is a size above 0, such as 0.02 for two points"
        )
    if n < 0:
        raise ImpossibleValue(f"n is {n}; allowed is a number of queries, 0 or more")
    check_share("power", power)
    fewest = fewest_moved_units(confidence=confidence, alternative=alternative)
    if standard_error is None or standard_error <= 0:
        return None
    reach = (_critical(confidence, alternative) + NormalDist().inv_cdf(power)) * standard_error
    return max(fewest, math.ceil(n * (reach / margin) ** 2))


def _critical(confidence: float, alternative: Alternative) -> float:
    check_share("confidence", confidence)
    check_alternative(alternative)
    tail = 1 - confidence
    return NormalDist().inv_cdf(1 - (tail / 2 if alternative == "two-sided" else tail))


def _chance_of_fewer(successes: int, trials: int, share: float) -> float:
    """P(fewer than `successes` of `trials`), each with chance `share`."""
    if share >= 1:
        return 0.0
    term = (1 - share) ** trials
    total = term
    for done in range(successes - 1):
        term *= (trials - done) / (done + 1) * share / (1 - share)
        total += term
    return total


def _smallest(found: Callable[[float], bool]) -> float | None:
    """The smallest value in (0, 1] from which on `found` holds."""
    if not found(1.0):
        return None
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if found(middle) else (middle, high)
    return high
