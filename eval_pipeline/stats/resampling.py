"""Bootstrap and sign-flip distributions of sums."""

# Both draw sums over units (see units.py). With few distinct rows a bootstrap resample is one multinomial draw over
# them, and the flips of equal rows are one binomial draw: the same distribution as resampling query by query, at a
# cost that does not grow with the number of queries. Values that hardly repeat are drawn one by one, in blocks of
# bounded size.

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from eval_pipeline.stats.results import Alternative
from eval_pipeline.stats.seeds import Stream, generator_for
from eval_pipeline.stats.units import FloatArray, Units

# A binomial draw costs about as much as drawing and adding this many single values.
_SINGLE_DRAWS_PER_MULTINOMIAL_CELL: Final = 20
_SINGLE_FLIPS_PER_BINOMIAL_CELL: Final = 120
_BLOCK_CELLS: Final = 1_000_000
_MOST_ENUMERATED_UNITS: Final = 16


@dataclass(frozen=True, slots=True, eq=False)
class FlipDistribution:
    """Sums under the null hypothesis; `exact` when they are all possible ones instead of a sample."""

    sums: FloatArray
    exact: bool


def bootstrap_sums(units: Units, *, seed: int, resamples: int) -> FloatArray:
    """Column sums of `resamples` resamples of the units, drawn with replacement."""
    if units.counts.size * _SINGLE_DRAWS_PER_MULTINOMIAL_CELL <= units.size:
        return bootstrap_by_distinct_row(units, seed=seed, resamples=resamples)
    return bootstrap_by_unit(units, seed=seed, resamples=resamples)


def bootstrap_by_distinct_row(units: Units, *, seed: int, resamples: int) -> FloatArray:
    """Each resample is one multinomial draw over the distinct rows."""
    generator = generator_for(seed, Stream.BOOTSTRAP)
    shares = units.counts / units.size
    sums = np.empty((resamples, units.rows.shape[1]))
    for block in _blocks(resamples, units.counts.size):
        drawn = generator.multinomial(units.size, shares, size=block.stop - block.start)
        sums[block] = _weighted_sums(drawn.astype(np.float64), units.rows)
    return sums


def bootstrap_by_unit(units: Units, *, seed: int, resamples: int) -> FloatArray:
    """Each resample draws unit by unit."""
    generator = generator_for(seed, Stream.BOOTSTRAP)
    columns = [np.repeat(column, units.counts) for column in units.rows.T]
    size = units.size
    sums = np.empty((resamples, len(columns)))
    for block in _blocks(resamples, size):
        drawn = generator.integers(0, size, size=(block.stop - block.start, size))
        for number, column in enumerate(columns):
            sums[block, number] = column.take(drawn).sum(axis=1)
    return sums


def sign_flip_sums(units: Units, *, seed: int, resamples: int) -> FlipDistribution:
    """Column sums when every unit keeps or turns its sign by chance; all of them when there are few enough.

    The units are those of `unsigned_units`: a whole row flips, and with clusters a row is a cluster.
    """
    size = units.size
    if size <= _MOST_ENUMERATED_UNITS and 2**size <= resamples:
        return FlipDistribution(all_sign_flips(units), exact=True)
    if units.counts.size * _SINGLE_FLIPS_PER_BINOMIAL_CELL <= size:
        return FlipDistribution(flips_by_distinct_row(units, seed=seed, resamples=resamples), exact=False)
    return FlipDistribution(flips_by_unit(units, seed=seed, resamples=resamples), exact=False)


def all_sign_flips(units: Units) -> FloatArray:
    """The column sums of all 2^size assignments of signs."""
    size = units.size
    patterns = np.arange(2**size, dtype=np.int64)[:, None] >> np.arange(size, dtype=np.int64)
    signs = (1 - 2 * (patterns & 1)).astype(np.float64)
    return _weighted_sums(signs, np.repeat(units.rows, units.counts, axis=0))


def flips_by_distinct_row(units: Units, *, seed: int, resamples: int) -> FloatArray:
    """How many of the equal rows keep their sign is one binomial draw."""
    generator = generator_for(seed, Stream.PERMUTATION)
    sums = np.empty((resamples, units.rows.shape[1]))
    for block in _blocks(resamples, units.counts.size):
        kept = generator.binomial(units.counts, 0.5, size=(block.stop - block.start, units.counts.size))
        sums[block] = _weighted_sums((2 * kept - units.counts).astype(np.float64), units.rows)
    return sums


def flips_by_unit(units: Units, *, seed: int, resamples: int) -> FloatArray:
    """One random bit per unit."""
    generator = generator_for(seed, Stream.PERMUTATION)
    rows = np.repeat(units.rows, units.counts, axis=0)
    size = units.size
    totals = units.totals
    sums = np.empty((resamples, rows.shape[1]))
    for block in _blocks(resamples, size):
        packed = generator.integers(0, 256, size=(block.stop - block.start, -(-size // 8)), dtype=np.uint8)
        kept = np.unpackbits(packed, axis=1, count=size).astype(np.float64)
        sums[block] = 2.0 * _weighted_sums(kept, rows) - totals
    return sums


def permutation_p_value(
    null_values: FloatArray,
    observed: float,
    *,
    alternative: Alternative,
    exact: bool,
    tolerance: float = 0.0,
) -> float:
    """The share of the null distribution at least as extreme as what was observed.

    A sampled distribution counts the observation itself (the +1), so that the p-value is never 0 and the test never
    raises more false alarms than promised. The sign-flip distribution is symmetric about 0, so the two-sided value
    compares absolute values. What lies within `tolerance` of the observation is a tie and counts.
    """
    if alternative == "greater":
        extreme = null_values >= observed - tolerance
    elif alternative == "less":
        extreme = null_values <= observed + tolerance
    else:
        extreme = np.abs(null_values) >= abs(observed) - tolerance
    count = int(np.count_nonzero(extreme))
    if exact:
        return count / null_values.size
    return (count + 1) / (null_values.size + 1)


def _weighted_sums(weights: FloatArray, rows: FloatArray) -> FloatArray:
    # Not a matrix product: starting BLAS threads costs more than these thin sums.
    return np.column_stack([np.einsum("ij,j->i", weights, np.ascontiguousarray(column)) for column in rows.T])


def _blocks(resamples: int, width: int) -> Iterator[slice]:
    rows = max(1, _BLOCK_CELLS // max(1, width))
    for start in range(0, resamples, rows):
        yield slice(start, min(start + rows, resamples))
