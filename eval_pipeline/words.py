"""Words and numbers that every room says alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

# Of what is stored, and of what people read of it; `rounded` and `rounded_by` of sql/functions have as many.
DECIMALS: Final = 4
# Values below this are in a small unit, such as USD per call.
SMALL: Final = 0.001


def count(number: int, noun: str, *, plural: str | None = None) -> str:
    """`1 query`, `1,200 queries`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def usd(value: float | None) -> str:
    """`0.31 USD`; without a price nobody knows."""
    if value is None:
        return "price unknown"
    return f"{value:.2g} USD" if 0 < value < 0.1 else f"{value:,.2f} USD"


def rounded_usd(value: float) -> float:
    """Of a sum what was meant: a millionth of a USD is the least that is said."""
    return round(value, 6)


def failed_sentence(failed: Sequence[tuple[str, str]]) -> str:
    """Why a table failed, by its runs and what each failed on: the first of them in full."""
    more = f" (and {count(len(failed) - 1, 'more run')})" if len(failed) > 1 else ""
    return f"failed: {failed[0][1]}{more}"


def target_words(is_met: bool | None) -> str:
    """Whether a target is met; nothing is said while a case that should be there is missing."""
    return {True: "met", False: "not met", None: "undecided"}[is_met]


def decimals_of(*values: float | None) -> int:
    """Return the number of decimals for values of one unit: four significant digits if all of them are small."""
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    return DECIMALS if largest >= SMALL or not largest else DECIMALS - 1 - math.floor(math.log10(largest))


def rounded(value: float | None, decimals: int = DECIMALS) -> float | None:
    """As stored: half to even on the double's exact value, undefined is None, zero has no sign."""
    if value is None or not math.isfinite(value):
        return None
    return round(value, decimals) + 0.0


def decimal(value: float, decimals: int = DECIMALS) -> str:
    """As people read a stored number; zero has no sign."""
    return f"{value:z.{decimals}f}"


def signed(value: float, decimals: int = DECIMALS) -> str:
    """As people read how far it moved."""
    return f"{value:+.{decimals}f}"


def common_value(values: Iterable[Any] | None) -> Any:
    """Return the one value that is recorded, None without any; several as text: `v1 and v2`."""
    known = [value for value in dict.fromkeys(values or ()) if value is not None]
    return " and ".join(map(str, known)) if len(known) > 1 else next(iter(known), None)


def each_counted(counts: Mapping[str, int]) -> str:
    """`38 ok, 3 unparsed, 1 refused`."""
    return ", ".join(f"{n:,} {name}" for name, n in counts.items())
