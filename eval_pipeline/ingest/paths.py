"""Places inside rows, written with dots: `scores.faithfulness`, `resps.0`, `.` for the whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

WHOLE = "."
DEEPEST = 6


def find_value(value: Any, place: str) -> Any:
    """What stands at this place, or None; a key that has dots itself is found too, and so is JSON inside a text."""
    if place == WHOLE:
        return value
    if isinstance(value, str):
        value = opened(value)
    if isinstance(value, dict):
        if place in value:
            return value[place]
        for cut in range(len(place) - 1, 0, -1):
            if place[cut] == "." and place[:cut] in value:
                return find_value(value[place[:cut]], place[cut + 1 :])
    if isinstance(value, list):
        first, _, rest = place.partition(".")
        if first.isascii() and first.isdigit() and int(first) < len(value):
            return find_value(value[int(first)], rest or WHOLE)
    return None


def opened(value: Any) -> Any:
    """The list or object that a text holds as JSON, as cells of a table do; everything else as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def places_in(row: Any, *, place: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Every place that holds something else than an object, with what it holds."""
    value = opened(row)
    if isinstance(value, dict) and depth < DEEPEST:
        for key, inner in value.items():
            yield from places_in(inner, place=f"{place}.{key}" if place else str(key), depth=depth + 1)
    else:
        yield place or WHOLE, value
