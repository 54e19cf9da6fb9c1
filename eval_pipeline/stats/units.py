"""What is compared: queries, or clusters of queries, as distinct rows with counts."""

# Two ideas live here. Rows that are equal are kept once with a count, in ascending order: the order of the queries
# cannot matter, and few distinct rows make sums quick. And where many sums of the same values are wanted (slices), they
# are put on a grid so fine that nobody sees it (at least thirty bits below the largest value for a hundred thousand
# queries) and so coarse that sums of that many of them are exact: no summation order, thread count or processor changes
# a result.

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from eval_pipeline.stats.errors import ImpossibleValue, UndefinedValue, UnpairedValues
from eval_pipeline.stats.results import Scale

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
Groups: TypeAlias = Sequence[Hashable | None]

_EXACT_BITS: Final = 52


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Distinct rows in ascending order, and how often each occurs."""

    rows: FloatArray
    counts: IntArray

    @property
    def size(self) -> int:
        return int(self.counts.sum())


def finite_values(values: npt.ArrayLike, name: str) -> FloatArray:
    """The values as a flat float array; NaN and infinity are refused with their place."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise UnpairedValues(
            f"{name} has shape {array.shape}; allowed is one flat list of numbers, one per query"
        )
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        place = int(bad[0])
        raise UndefinedValue(
            f"{name}[{place}] is {array[place]} ({bad.size} such values); allowed are finite numbers; "
            "leave out the queries that are undefined on either side before comparing"
        )
    return array


def same_length(sides: dict[str, FloatArray]) -> None:
    """Refuse sides that cannot be pairs."""
    lengths = {name: side.size for name, side in sides.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise UnpairedValues(
            f"{listed} values; allowed are equally many: one pair per query defined on both sides"
        )


def check_scale_values(values: FloatArray, name: str, *, scale: Scale) -> None:
    """A binary scale holds zeros and ones only; anything else is a fraction that was called by the wrong name."""
    if scale != "binary":
        return
    bad = np.flatnonzero((values != 0) & (values != 1))
    if bad.size:
        place = int(bad[0])
        raise ImpossibleValue(
            f'{name}[{place}] is {values[place]}, but scale "binary" allows 0 and 1 only; use scale="fraction"'
        )


def cluster_numbers(groups: Groups | None, n: int) -> IntArray | None:
    """A cluster number per query, or None when every query stands alone; a label of None is its own cluster."""
    if groups is None:
        return None
    if len(groups) != n:
        raise UnpairedValues(
            f"groups has {len(groups)} labels for {n} queries; allowed is one label (or None) each"
        )
    numbers = np.empty(n, dtype=np.int64)
    seen: dict[Hashable, int] = {}
    alone = 0
    for place, label in enumerate(groups):
        if label is None:
            alone += 1
            numbers[place] = -alone
        else:
            numbers[place] = seen.setdefault(label, len(seen))
    if len(seen) + alone == n:
        return None
    return np.where(numbers < 0, len(seen) - 1 - numbers, numbers)


def on_exact_grid(values: FloatArray, *, terms: int) -> FloatArray:
    """The values rounded to a power of two so that a sum of `terms` of them is exact in double precision."""
    step = _grid_step(values, terms)
    # Adding zero turns −0.0 into 0.0, which would otherwise be a value of its own.
    return values + 0.0 if step == 0 else np.asarray(np.rint(values / step) * step + 0.0, dtype=np.float64)


def _grid_step(values: FloatArray, terms: int) -> float:
    largest = float(np.max(np.abs(values), initial=0.0))
    if largest == 0:
        return 0.0
    return math.ldexp(1.0, math.frexp(largest)[1] + terms.bit_length() - _EXACT_BITS)


def distinct_units(columns: FloatArray) -> Units:
    """The distinct rows with their counts."""
    if columns.shape[0] == 0:
        return Units(columns, np.zeros(0, dtype=np.int64))
    ordered = columns[np.lexsort(columns.T[::-1])]
    is_first = np.ones(ordered.shape[0], dtype=np.bool_)
    np.any(ordered[1:] != ordered[:-1], axis=1, out=is_first[1:])
    starts = np.flatnonzero(is_first)
    counts = np.diff(np.append(starts, ordered.shape[0])).astype(np.int64)
    return Units(ordered[starts], counts)


def weighted_total(counts: IntArray, values: FloatArray) -> float:
    """Sum of counts × values, correctly rounded: a library's own sum may depend on its threads."""
    return math.fsum((counts * values).tolist())
