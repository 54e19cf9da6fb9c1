"""Ups and downs counted: only the queries on which the two sides disagree say anything."""

# `wins` are the queries that moved up from a to b, `losses` those that moved down.

from __future__ import annotations

import math
import sys
from typing import Final

import numpy as np

from eval_pipeline.stats.errors import ImpossibleValue

_STIRLING_FROM: Final = 16


def sign_test(wins: int, losses: int) -> float:
    """Were the disagreements tossed with a fair coin, how often would they be as lopsided?"""
    if wins < 0 or losses < 0:
        raise ImpossibleValue(f"wins={wins}, losses={losses}; allowed are counts of 0 or more")
    return min(1.0, 2 * fair_coin_at_most(min(wins, losses), wins + losses))


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
