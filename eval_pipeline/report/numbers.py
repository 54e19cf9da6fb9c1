"""How numbers are written for people."""

from __future__ import annotations

NOTHING = "—"


def value(number: float | None) -> str:
    """Four decimals, an em dash where it is undefined."""
    return NOTHING if number is None else f"{number:.4f}"


def change(number: float | None) -> str:
    """With its sign; 0 has none."""
    if number is None:
        return NOTHING
    return f"{number:+.4f}".replace("-", "−") if number else f"{number:.4f}"


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


def rank(number: int | None) -> str:
    """An em dash where nothing was found."""
    return NOTHING if number is None else str(number)


def count(number: int, noun: str, *, plural: str | None = None) -> str:
    """`1 query`, `1,200 queries`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
