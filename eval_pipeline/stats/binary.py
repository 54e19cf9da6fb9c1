"""Paired yes/no outcomes: only the queries on which the two sides disagree say anything."""

# `wins` are the queries right in b and wrong in a, `losses` the opposite, `n` all pairs.

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from statistics import NormalDist
from typing import Final

import numpy as np

from eval_pipeline.stats.errors import ImpossibleOption, ImpossibleValue
from eval_pipeline.stats.results import Alternative, Interval, check_alternative, check_share

_STIRLING_FROM: Final = 16
_HALVINGS: Final = 100


def mcnemar_exact(wins: int, losses: int, *, alternative: Alternative = "two-sided") -> float:
    """Exact McNemar: were the disagreements tossed with a fair coin, how often would they be as lopsided?

    `greater` asks whether b is better (more wins), `less` whether it is worse.
    """
    check_alternative(alternative)
    _check_counts(wins, losses, wins + losses)
    tosses = wins + losses
    if alternative == "two-sided":
        return min(1.0, 2 * fair_coin_at_most(min(wins, losses), tosses))
    return fair_coin_at_most(losses if alternative == "greater" else wins, tosses)


def fair_coin_at_most(heads: int, tosses: int) -> float:
    """P(at most `heads` heads in `tosses` tosses of a fair coin), to about twelve digits at any size."""
    if heads >= tosses:
        return 1.0
    if 2 * heads >= tosses:
        # The complement is the smaller tail, and by symmetry again one of few heads.
        return 1.0 - fair_coin_at_most(tosses - heads - 1, tosses)
    below = np.arange(heads, 0, -1, dtype=np.float64)
    ratios = np.cumprod(below / (tosses - below + 1))
    tail = 1.0 + float(ratios.sum())
    return min(1.0, max(tail * _fair_coin_exactly(heads, tosses), sys.float_info.min))


def _fair_coin_exactly(heads: int, tosses: int) -> float:
    """P(exactly `heads` heads) by Stirling's series, which keeps its digits where factorials lose theirs."""
    if heads in (0, tosses):
        return math.ldexp(1.0, -tosses)
    tails = tosses - heads
    lean = (tails - heads) / tosses
    distance = tosses / 2 * ((1 + lean) * math.log1p(lean) + (1 - lean) * math.log1p(-lean))
    corrections = _stirling_excess(tosses) - _stirling_excess(heads) - _stirling_excess(tails)
    return math.sqrt(tosses / (2 * math.pi * heads * tails)) * math.exp(corrections - distance)


def _stirling_excess(number: int) -> float:
    """log(number!) minus Stirling's leading terms."""
    if number < _STIRLING_FROM:
        return (
            math.lgamma(number + 1) - (number + 0.5) * math.log(number) + number - math.log(2 * math.pi) / 2
        )
    square = float(number) ** 2
    return (
        1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / (1188 * square)) / square) / square) / square
    ) / number


def paired_score(wins: int, losses: int, n: int, *, null_delta: float) -> float:
    """Tango's score statistic for "the difference of the proportions is null_delta"; normal when that is true."""
    _check_counts(wins, losses, n)
    if not -1 < null_delta < 1:
        raise ImpossibleOption(
            f"null_delta is {null_delta!r}; a difference of two proportions lies strictly between -1 and 1"
        )
    linear = (2 * n - wins + losses) * null_delta - wins - losses
    constant = -losses * null_delta * (1 - null_delta)
    root = math.sqrt(max(linear**2 - 8 * n * constant, 0.0))
    # Of the two forms of the root the one without cancellation; it is the most likely share of losses.
    share = (root - linear) / (4 * n) if linear <= 0 else -2 * constant / (linear + root)
    variance = n * (2 * max(share, 0.0, -null_delta) + null_delta * (1 - null_delta))
    distance = wins - losses - n * null_delta
    if variance <= 0:
        return 0.0 if distance == 0 else math.copysign(math.inf, distance)
    return distance / math.sqrt(variance)


def paired_proportions_interval(wins: int, losses: int, n: int, *, confidence: float = 0.95) -> Interval:
    """Tango's score interval for the difference of two paired proportions, with its one-sided bounds.

    It holds its confidence for few queries too, and never shrinks to a point.
    """
    check_share("confidence", confidence)
    _check_counts(wins, losses, n)
    if n == 0:
        raise ImpossibleValue("n is 0; allowed is at least one pair: without any there is no interval")
    tail = 1 - confidence
    two_sided, one_sided = (NormalDist().inv_cdf(1 - share) for share in (tail / 2, tail))
    return Interval(
        low=_score_limit(wins, losses, n, critical=two_sided, side=-1),
        high=_score_limit(wins, losses, n, critical=two_sided, side=1),
        lower_bound=_score_limit(wins, losses, n, critical=one_sided, side=-1),
        upper_bound=_score_limit(wins, losses, n, critical=one_sided, side=1),
        method="score",
    )


def _score_limit(wins: int, losses: int, n: int, *, critical: float, side: int) -> float:
    """The difference farthest on one side that the score test does not yet refuse."""
    estimate = (wins - losses) / n
    if estimate == side:
        return float(side)

    def refused(null_delta: float) -> bool:
        return abs(paired_score(wins, losses, n, null_delta=null_delta)) > critical

    return _boundary(estimate, float(side), beyond=refused)


def _boundary(inside: float, outside: float, *, beyond: Callable[[float], bool]) -> float:
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if middle in (inside, outside):
            break
        if beyond(middle):
            outside = middle
        else:
            inside = middle
    return inside


def _check_counts(wins: int, losses: int, n: int) -> None:
    if wins < 0 or losses < 0 or wins + losses > n:
        raise ImpossibleValue(
            f"wins={wins}, losses={losses}, n={n}; allowed are counts of 0 or more that n holds together"
        )
