"""How numbers are written for people."""

from __future__ import annotations

from eval_pipeline.comparing.documents import Tested
from eval_pipeline.words import decimal, signed

NOTHING = "—"
LARGE = 10


def value(number: float | None) -> str:
    """Four decimals, an em dash where it is undefined."""
    return NOTHING if number is None else decimal(number)


def change(number: float | None) -> str:
    """With its sign; 0 has none."""
    if number is None:
        return NOTHING
    return signed(number).replace("-", "−") if number else decimal(number)


def amount(number: float | None) -> str:
    """A share with four decimals, a count whole, milliseconds and their like with one."""
    if number is None:
        return NOTHING
    if isinstance(number, int):
        return f"{number:,}"
    return f"{number:,.1f}" if abs(number) >= LARGE else decimal(number)


def _amount_change(before: float | None, after: float | None, moved: float | None = None) -> str:
    """From one amount to another, or as far as is said, with its sign and as many decimals as they have."""
    if before is None or after is None:
        return NOTHING
    if moved is None:
        moved = after - before
    if isinstance(moved, int):
        told = f"{moved:+,}"
    else:
        told = f"{moved:+,.1f}" if max(abs(before), abs(after)) >= LARGE else signed(moved)
    return told.replace("-", "−") if moved else amount(moved)


def _brief(before: float | None, after: float | None) -> str:
    """`0.62 → 0.77`: with two decimals where these tell them apart."""
    short = [
        NOTHING if one is None else f"{one:,.2f}" if abs(one) < LARGE else f"{one:,.0f}"
        for one in (before, after)
    ]
    long = [amount(before), amount(after)]
    return " → ".join(long if short[0] == short[1] and long[0] != long[1] else short)


def interval(low: float | None, high: float | None) -> str:
    """Three decimals are enough for the ends of an interval."""
    if low is None or high is None:
        return NOTHING
    return f"[{low:+.3f}, {high:+.3f}]".replace("-", "−")


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
