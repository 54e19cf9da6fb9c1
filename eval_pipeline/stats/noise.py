"""How much a metric moves when nothing changed, and the old night that small moves add up against."""

# The noise band comes from A/A pairs: runs of one system repeated. A slow decline can pass every single night, so the
# last night is also held against an anchor: an old night of the same level.

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from eval_pipeline.stats.results import check_share
from eval_pipeline.stats.units import finite_values

# So many steps say how far nights are used to move; the median of their sizes, as a normal spread.
_FEWEST_STEPS: Final = 7
_MAD_OF_NORMAL: Final = 1.4826
_FAR: Final = 2.5
_TOLERANCE: Final = 1e-12
# The spread between fewer than four runs of one configuration is little more than a guess.
_FEWEST_DEGREES: Final = 3


@dataclass(frozen=True, slots=True)
class NoiseBand:
    """Where the next difference of an identical pair falls with this confidence."""

    low: float
    high: float
    pairs: int
    confidence: float


def pairs_needed_for_band(confidence: float = 0.95) -> int:
    """The fewest A/A pairs that carry a band of this confidence."""
    check_share("confidence", confidence)
    return math.ceil(_settled(confidence / (1 - confidence)))


def noise_band(deltas_of_identical_pairs: Sequence[float], *, confidence: float = 0.95) -> NoiseBand | None:
    """The band around 0 that the next A/A difference leaves with a chance of at most 1 − confidence.

    It assumes no distribution: among k pairs and one more, each size is equally likely to be the largest, so the
    band is read off the sorted sizes at rank ceil(confidence × (k + 1)). Which run of an identical pair comes first
    means nothing, so the band is symmetric. With fewer pairs than that rank there is no band: None.
    """
    sizes = np.sort(np.abs(finite_values(deltas_of_identical_pairs, "deltas_of_identical_pairs")))
    if sizes.size < pairs_needed_for_band(confidence):
        return None
    rank = math.ceil(_settled(confidence * (sizes.size + 1)))
    edge = float(sizes[min(rank, sizes.size) - 1])
    return NoiseBand(low=-edge + 0.0, high=edge, pairs=int(sizes.size), confidence=confidence)


@dataclass(frozen=True, slots=True)
class RunSpread:
    """The standard deviation between runs of one configuration, with its degrees of freedom."""

    deviation: float
    degrees: int


def run_spread(groups: Sequence[Sequence[float]]) -> RunSpread | None:
    """Pool the spread of several groups of runs; None if they are too few, or do not differ at all."""
    degrees = sum(len(group) - 1 for group in groups if group)
    squares = math.fsum((value - math.fsum(group) / len(group)) ** 2 for group in groups for value in group)
    if degrees < _FEWEST_DEGREES or squares <= 0:
        return None
    return RunSpread(math.sqrt(squares / degrees), degrees)


def drift_anchor(values: Sequence[float], *, limit: float) -> int:
    """Which of these nights, oldest first, the last one is held against: the first after the last step.

    A step is farther than `limit` from its neighbour, and, where there are seven neighbours or more, also farther than
    nights are used to: a level that was accepted once must not fail every night after it.
    """
    steps = np.abs(np.diff(finite_values(values, "values")))
    if not steps.size:
        return 0
    if steps.size >= _FEWEST_STEPS:
        limit = max(limit, _FAR * _MAD_OF_NORMAL * float(np.median(steps)))
    far = np.flatnonzero(steps > limit + _TOLERANCE)
    return int(far[-1]) + 1 if far.size else 0


def _settled(value: float) -> float:
    """Takes back the last digits of a product that should have been whole, such as 0.95 / 0.05."""
    return round(value, 9)
