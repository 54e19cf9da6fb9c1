"""Means, percentiles and the one rounding rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from .readings import Readings


def mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def rounded(value: float | None, readings: Readings) -> float | None:
    """AX.1: four decimals of the double itself; undefined is None, and zero has no sign."""
    if value is None or not math.isfinite(value):
        return None
    if readings["rounding"] == "half_up":
        result = float(Decimal(value).quantize(Decimal("0.0001"), rounding=ROUND_HALF_UP))
    else:
        result = round(value, 4)
    return 0.0 if result == 0 else result


def percentile(values: Sequence[float], share: float, readings: Readings) -> float | None:
    """A2.19: linear interpolation between the neighbours, or the nearest rank."""
    if not values:
        return None
    ordered = sorted(values)
    if readings["percentile"] == "nearest":
        return ordered[max(1, math.ceil(share * len(ordered))) - 1]
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def is_number(value: Any) -> bool:
    """A finite JSON number; true and false are not numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
