"""Student's t with real degrees of freedom: the share beyond a value, and the value of a share."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final

_TINY: Final = 1e-300
_EXACT: Final = 1e-15
_MOST_STEPS: Final = 10_000
# From here on a series for the quotient of two gamma functions keeps all digits, and their logarithms do not.
_LARGE: Final = 50.0


def student_tail(t: float, degrees: float) -> float:
    """P(T > t)."""
    if t < 0:
        return 1.0 - student_tail(-t, degrees)
    square = t * t
    half = degrees / 2
    inside, outside = degrees / (degrees + square), square / (degrees + square)
    if outside == 0:
        return 0.5
    front = _gamma_quotient(half) * math.exp(-half * math.log1p(square / degrees)) * math.sqrt(outside)
    if inside < (half + 1) / (half + 2.5):
        return 0.5 * front * _fraction(inside, half, 0.5) / half
    return 0.5 - front * _fraction(outside, 0.5, half)


def student_quantile(tail: float, degrees: float) -> float:
    """The t beyond which a share `tail` lies."""
    if tail > 0.5:
        return -student_quantile(1 - tail, degrees)
    # The tail is convex and heavier than the normal one: Newton's steps from there all go up, and never too far.
    t = NormalDist().inv_cdf(1 - tail)
    while True:
        step = (student_tail(t, degrees) - tail) / _density(t, degrees)
        if not step > 1e-15 * t:
            return t
        t += step


def _density(t: float, degrees: float) -> float:
    shape = math.exp(-(degrees + 1) / 2 * math.log1p(t * t / degrees))
    return _gamma_quotient(degrees / 2) * shape / math.sqrt(degrees)


def _gamma_quotient(a: float) -> float:
    """Γ(a + ½) / (Γ(a) Γ(½))."""
    if a < _LARGE:
        logarithm = math.lgamma(a + 0.5) - math.lgamma(a)
    else:
        logarithm = math.log(a) / 2 - 1 / (8 * a) + 1 / (192 * a**3) - 1 / (640 * a**5)
    return math.exp(logarithm) / math.sqrt(math.pi)


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, 1.0 / _not_zero(1.0 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _MOST_STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1.0 / _not_zero(1.0 + term * d)
            c = _not_zero(1.0 + term / c)
            value *= c * d
        if abs(c * d - 1.0) < _EXACT:
            break
    return value


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
