"""CBOR as ranx packs it: maps, texts, numbers and lists, and nothing else."""

from __future__ import annotations

import struct
from typing import Any, Final

_FLOATS: Final = {25: (">e", 2), 26: (">f", 4), 27: (">d", 8)}
_LENGTHS: Final = {24: 1, 25: 2, 26: 4, 27: 8}
DEEPEST: Final = 8


def cbor_value(data: bytes) -> Any:
    """The one value that these bytes hold; ValueError of anything else."""
    try:
        value, end = _value(data, 0, 0)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"no CBOR: {error}") from error
    if end != len(data):
        raise ValueError("no CBOR: more stands behind the value")
    return value


def _value(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    kind, low = data[at] >> 5, data[at] & 31
    if kind == 7:
        if low in _FLOATS:
            form, size = _FLOATS[low]
            return struct.unpack_from(form, data, at + 1)[0], at + 1 + size
        return {20: False, 21: True}.get(low), at + 1
    size = _LENGTHS.get(low, 0)
    if low > 27 or depth > DEEPEST or at + size >= len(data):
        raise ValueError("no CBOR of this kind")
    number = int.from_bytes(data[at + 1 : at + 1 + size], "big") if size else low
    at += 1 + size
    if kind in (0, 1):
        return (number if kind == 0 else -1 - number), at
    if kind == 3:
        return data[at : at + number].decode("utf-8"), at + number
    if kind == 4:
        found = []
        for _ in range(number):
            one, at = _value(data, at, depth + 1)
            found.append(one)
        return found, at
    if kind == 5:
        members = {}
        for _ in range(number):
            key, at = _value(data, at, depth + 1)
            members[str(key)], at = _value(data, at, depth + 1)
        return members, at
    raise ValueError("no CBOR of this kind")
