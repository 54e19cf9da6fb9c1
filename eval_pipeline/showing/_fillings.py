"""Between what and what a metric of one list lies, whatever its unjudged hits turn out to be."""

# A filling says of every unjudged hit whether it is relevant; one that is has the best grade of its query. Of as many
# fillings as there are unjudged hits squared, those decide that fill the places from the first on, or from the last.

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum


class Place(Enum):
    """What is known of a place of the list; a later place of the same id holds nothing."""

    RELEVANT = "relevant"
    UNJUDGED = "unjudged"
    OTHER = "other"


@dataclass(frozen=True)
class Range:
    """The lowest and the highest value, and how many unjudged hits stand where the metric looks."""

    lower: float
    upper: float
    unjudged: int


@dataclass(frozen=True)
class Graded:
    """A list by its grades: `gains` of the places, `best` of all that is labelled, `fill` of what is found relevant."""

    places: Sequence[Place]
    gains: Sequence[float]
    best: Sequence[float]
    fill: float
    n_relevant: int


def _count(places: Sequence[Place], kind: Place) -> int:
    return sum(place is kind for place in places)


def hit_range(places: Sequence[Place], k: int) -> Range:
    """Whether something relevant is among the first k."""
    found, unjudged = Place.RELEVANT in places[:k], _count(places[:k], Place.UNJUDGED)
    return Range(float(found), float(found or unjudged > 0), unjudged)


def reciprocal_range(places: Sequence[Place], cutoff: int) -> Range:
    """1 / the first rank of something relevant, 0 behind the cutoff."""
    top = list(places[:cutoff])

    def first(*kinds: Place) -> float:
        return next((1 / rank for rank, place in enumerate(top, start=1) if place in kinds), 0.0)

    lower = first(Place.RELEVANT)
    return Range(lower, first(Place.RELEVANT, Place.UNJUDGED), _count(top, Place.UNJUDGED))


def precision_range(places: Sequence[Place], k: int) -> Range:
    """The share of the first k places."""
    found, unjudged = _count(places[:k], Place.RELEVANT), _count(places[:k], Place.UNJUDGED)
    return Range(found / k, (found + unjudged) / k, unjudged)


def recall_range(places: Sequence[Place], k: int, n_relevant: int) -> Range:
    """What is relevant below k makes the share smaller, within k larger."""
    found, unjudged = _count(places[:k], Place.RELEVANT), _count(places[:k], Place.UNJUDGED)
    below = _count(places[k:], Place.UNJUDGED)
    return Range(found / (n_relevant + below), (found + unjudged) / (n_relevant + unjudged), unjudged)


def r_precision_range(places: Sequence[Place], n_relevant: int) -> Range:
    """Every relevant hit more moves the place where the list is cut."""
    found, unjudged = [0], [0]
    for place in places:
        found.append(found[-1] + (place is Place.RELEVANT))
        unjudged.append(unjudged[-1] + (place is Place.UNJUDGED))
    values = []
    for filled in range(unjudged[-1] + 1):
        cut = min(n_relevant + filled, len(places))
        most = found[cut] + min(filled, unjudged[cut])
        least = found[cut] + max(0, filled - (unjudged[-1] - unjudged[cut]))
        values += [most / (n_relevant + filled), least / (n_relevant + filled)]
    return Range(min(values), max(values), unjudged[min(n_relevant, len(places))])


def average_precision_range(places: Sequence[Place], k: int, n_relevant: int) -> Range:
    """As average precision over the first k, by its relevant places."""

    def value(filled: frozenset[int], n_filled: int) -> float:
        found, total = 0, 0.0
        for place, kind in enumerate(places[:k]):
            if kind is Place.RELEVANT or place in filled:
                found += 1
                total += found / (place + 1)
        return total / (n_relevant + n_filled)

    values = [value(filled, n) for filled, n in _deciding(places, k)]
    return Range(min(values), max(values), _count(places[:k], Place.UNJUDGED))


def ndcg_range(known: Graded, k: int) -> Range:
    """As ndcg over the first k; what is found relevant joins the best order too."""

    def value(filled: frozenset[int], n_filled: int) -> float:
        got = [known.fill if place in filled else gain for place, gain in enumerate(known.gains[:k])]
        # Nothing is better than the best grade, so that what is filled in comes first.
        best = [*[known.fill] * min(n_filled, k), *known.best][:k]
        return _discounted(got) / _discounted(best)

    values = [value(filled, n) for filled, n in _deciding(known.places, k)]
    return Range(min(values), max(values), _count(known.places[:k], Place.UNJUDGED))


def _discounted(gains: Sequence[float]) -> float:
    return math.fsum(gain / math.log2(place + 2) for place, gain in enumerate(gains))


def _deciding(places: Sequence[Place], k: int) -> Iterator[tuple[frozenset[int], int]]:
    """The places within k that are filled, and how many are filled in all.

    More of them below k only lower the value, so that none is filled there for the highest and all for the lowest.
    """
    within = [place for place, kind in enumerate(places[:k]) if kind is Place.UNJUDGED]
    below = _count(places[k:], Place.UNJUDGED)
    for n in range(len(within) + 1):
        yield frozenset(within[:n]), n
        yield frozenset(within[len(within) - n :]), n + below
