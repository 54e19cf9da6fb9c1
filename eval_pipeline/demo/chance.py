"""Chance that is the same everywhere: numbers drawn from a hash of what they are for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def draw(*purpose: str) -> float:
    """A number from 0 up to, not including, 1; the same purpose always gives the same number."""
    digest = hashlib.sha256("\x1f".join(purpose).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def draw_whole(low: int, high: int, *purpose: str) -> int:
    """A whole number from `low` to `high`, both included."""
    return low + int(draw(*purpose) * (high - low + 1))


def sample(items: Iterable[str], size: int, *purpose: str) -> list[str]:
    """`size` of the items, in their own order."""
    everything = list(items)
    chosen = set(sorted(everything, key=lambda item: draw(*purpose, item))[:size])
    return [item for item in everything if item in chosen]
