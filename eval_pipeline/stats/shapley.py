"""A movement split fairly among the factors that changed together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, permutations

World = frozenset[str]


@dataclass(frozen=True)
class Step:
    """One factor changed while others had, or had not, changed before: in `times` of all orders that have values."""

    before: World
    after: World
    times: int


def steps_of(
    factors: Sequence[str], values: Mapping[World, float | None]
) -> tuple[dict[str, list[Step]], int]:
    """Factor → the steps that its term is the mean of, and of how many orders.

    `values` has every set of factors that changed. An order that leads through a set without a value is left out, so
    that the terms of those that remain still add up.
    """
    found: dict[str, Counter[tuple[World, World]]] = {factor: Counter() for factor in factors}
    n_orders = 0
    for order in permutations(factors):
        worlds = [frozenset(order[:length]) for length in range(len(order) + 1)]
        if any(values[world] is None for world in worlds):
            continue
        n_orders += 1
        for factor, step in zip(order, pairwise(worlds), strict=True):
            found[factor][step] += 1
    steps = {
        factor: [Step(before, after, times) for (before, after), times in counted.items()]
        for factor, counted in found.items()
    }
    return steps, n_orders


def mean_step(steps: Sequence[Step], n_orders: int, values: Mapping[World, float]) -> float:
    """The mean of what the steps change; the same the other way round, with the other sign."""
    total = sum(
        (step.times * (Fraction(values[step.after]) - Fraction(values[step.before])) for step in steps),
        start=Fraction(0),
    )
    return float(total / n_orders)
