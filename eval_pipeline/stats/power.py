"""How many queries it takes to tell a difference from none."""

# A test on paired differences turns on how many queries moved at all: below a handful none can reach significance,
# however large the moves, so that a quiet history must not be read as great precision.

from __future__ import annotations

import math
from statistics import NormalDist

from eval_pipeline.stats.errors import ImpossibleOption, ImpossibleValue
from eval_pipeline.stats.results import Alternative, check_alternative, check_share
from eval_pipeline.stats.student import student_quantile


def fewest_moved_units(*, confidence: float = 0.95, alternative: Alternative = "two-sided") -> int:
    """How many units must move, all in one direction, before any paired test can be significant."""
    check_share("confidence", confidence)
    check_alternative(alternative)
    tails = 2 if alternative == "two-sided" else 1
    fewest = 1
    while tails * 0.5**fewest > 1 - confidence:
        fewest += 1
    return fewest


def resolution(standard_error: float | None, degrees: float | None) -> float | None:
    """The margin that an unchanged candidate of this spread passes nine times in ten; None where no spread is known."""
    if standard_error is None:
        return None
    if standard_error == 0 or degrees is None:
        return 0.0
    return (student_quantile(0.05, degrees) + student_quantile(0.10, degrees)) * standard_error


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
