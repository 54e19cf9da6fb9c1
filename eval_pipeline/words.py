"""Words that every room says alike."""

from __future__ import annotations


def count(number: int, noun: str, *, plural: str | None = None) -> str:
    """`1 query`, `1,200 queries`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
