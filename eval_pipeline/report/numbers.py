"""How numbers are written for people."""

from __future__ import annotations

from eval_pipeline.comparing.documents import Tested
from eval_pipeline.words import DECIMALS, decimal, decimals_of, signed

NOTHING = "—"
LARGE = 10


def value(number: float | None, decimals: int = DECIMALS) -> str:
    """Four decimals, more for small units, an em dash if it is undefined."""
    return NOTHING if number is None else decimal(number, decimals)


def change(number: float | None, decimals: int = DECIMALS) -> str:
    """With its sign; 0 has none."""
    if number is None:
        return NOTHING
    return signed(number, decimals).replace("-", "−") if number else decimal(number, decimals)


def amount(number: float | None) -> str:
    """A share with four decimals, a count whole, milliseconds and their like with one."""
    if number is None:
        return NOTHING
    if isinstance(number, int):
        return f"{number:,}"
    return f"{number:,.1f}" if abs(number) >= LARGE else decimal(number, decimals_of(number))


def _amount_change(before: float | None, after: float | None) -> str:
    """The difference of two printed amounts, with its sign and as many decimals as they have."""
    if before is None or after is None:
        return NOTHING
    if isinstance(before, int) and isinstance(after, int):
        told = f"{after - before:+,}"
    elif max(abs(before), abs(after)) >= LARGE:
        told = f"{round(after, 1) - round(before, 1):+,.1f}"
    else:
        told = signed(after - before, decimals_of(before, after))
    return told.replace("-", "−") if before != after else amount(after - before)


def _brief(before: float | None, after: float | None) -> str:
    """`0.62 → 0.77`: with two decimals where these tell them apart."""
    short = [
        NOTHING if one is None else f"{one:,.2f}" if abs(one) < LARGE else f"{one:,.0f}"
        for one in (before, after)
    ]
    decimals = decimals_of(before, after)
    long = [
        amount(number) if (number or 0) >= LARGE else value(number, decimals) for number in (before, after)
    ]
    return " → ".join(long if short[0] == short[1] and long[0] != long[1] else short)


def interval(low: float | None, high: float | None, decimals: int = DECIMALS) -> str:
    """One decimal less than the values: enough for the ends of an interval."""
    if low is None or high is None:
        return NOTHING
    return f"[{low:+.{decimals - 1}f}, {high:+.{decimals - 1}f}]".replace("-", "−")


def p_value(number: float | None) -> str:
    """Three decimals, and what is smaller is said to be smaller."""
    if number is None:
        return NOTHING
    return "<0.001" if number < 0.001 else f"{number:.3f}"


def _adjusted_p(tested: Tested) -> str:
    """The adjusted p-value; where a metric has none of its own, why."""
    if tested.p_adjusted is None and tested.p_value is not None and tested.adjusted_as:
        return tested.adjusted_as
    return p_value(tested.p_adjusted)


def rank(number: int | None) -> str:
    """An em dash where nothing was found."""
    return NOTHING if number is None else str(number)
