"""How often the interval of a mean difference holds what it says, and how often chance alone is called a difference.

    python -m bench.intervals coverage [--draws 2000]
    python -m bench.intervals size

`coverage` draws pairs of runs whose true difference is known, and counts how often the interval of 95 % encloses it, by
Student's t and with imagined moves; `size` counts wins and losses out, without drawing. README.md says what is drawn.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from eval_pipeline.stats.moves import Evidence, imagined_moves, sums_of
from eval_pipeline.stats.student import student_quantile

Draw = Callable[[np.random.Generator, int], np.ndarray[Any, Any]]
SIZES = (20, 60, 200)
SEED = 20260918
# The first hit's rank, 1 to 10 or none, of a system that is neither good nor bad.
RECIPROCAL_RANKS = np.array([*(1 / rank for rank in range(1, 11)), 0.0])
FOUND_AT = np.array([50, 15, 8, 5, 4, 3, 2, 2, 1, 1, 9]) / 100
JUDGED = np.arange(6.0)
JUDGED_AS = np.array([3, 5, 10, 17, 25, 40]) / 100


@dataclass(frozen=True)
class Case:
    """Differences of n queries whose mean is `true` in the long run."""

    name: str
    true: float
    draw: Draw
    reach: float | None = 1.0
    clusters_of: int | None = None


def tilted(chances: np.ndarray[Any, Any], values: np.ndarray[Any, Any], change: float) -> Any:
    """The same values with chances that move their mean by `change`."""
    low, high = -20.0, 20.0
    for _ in range(200):
        middle = (low + high) / 2
        weights = chances * np.exp(middle * np.arange(chances.size) / chances.size)
        weights /= weights.sum()
        too_high = weights @ values - chances @ values > change
        low, high = (middle, high) if too_high == (values[0] > values[-1]) else (low, middle)
    return weights


def redrawn(values: Any, chances: Any, share: float, change: float = 0.0) -> Draw:
    """A share of the queries is drawn anew in the second run, where the mean of these is moved by `change`."""
    after = tilted(chances, values, change) if change else chances

    def draw(random: np.random.Generator, n: int) -> Any:
        is_moved = random.random(n) < share
        return np.where(
            is_moved, random.choice(values, p=after, size=n) - random.choice(values, p=chances, size=n), 0.0
        )

    return draw


def wins_and_losses(won: float, lost: float) -> Draw:
    def draw(random: np.random.Generator, n: int) -> Any:
        return random.choice([1.0, -1.0, 0.0], p=[won, lost, 1 - won - lost], size=n)

    return draw


def few_lose_much(random: np.random.Generator, n: int) -> Any:
    """95 % gain a little, 5 % lose nearly all, and the mean stays where it is."""
    return np.where(random.random(n) < 0.05, -0.95, 0.05)


def slower(random: np.random.Generator, n: int) -> Any:
    """Times with a long tail, and 1.3 times as long again."""
    before = random.lognormal(6.0, 1.0, n)
    return before * (1.3 * random.lognormal(-0.005, 0.1, n) - 1)


RANKS = (RECIPROCAL_RANKS, FOUND_AT)
CASES = (
    Case("5 % moved, null", 0.0, redrawn(*RANKS, 0.05)),
    Case("the same, −.0066", -0.0066, redrawn(*RANKS, 0.05, -0.132)),
    Case("10 % moved, null", 0.0, redrawn(*RANKS, 0.10)),
    Case("30 % moved, shifted", -0.0396, redrawn(*RANKS, 0.30, -0.132)),
    Case("rare loss .03", -0.03, wins_and_losses(0.0, 0.03)),
    Case("binary .05/.02", 0.03, wins_and_losses(0.05, 0.02)),
    Case("judge", 0.0, redrawn(JUDGED, JUDGED_AS, 0.30), reach=5.0),
    Case("clusters of 4", 0.0, redrawn(*RANKS, 0.15), clusters_of=4),
    Case("mean 0, 5 % lose .95", 0.0, few_lose_much),
    Case("ms ×1.3, lognormal", 0.3 * math.exp(6.5), slower, reach=None),
)


@dataclass(frozen=True)
class Covered:
    """Shares of intervals that enclose the truth, and how wide the proposed one is against Student's."""

    student: float
    imagined: float
    width: float


def cover(case: Case, n: int, *, draws: int) -> Covered:
    """One case and number of queries; the same draws for both intervals."""
    random = np.random.default_rng([SEED, n])
    by_t, by_moves, widths_t, widths = 0, 0, 0.0, 0.0
    for _ in range(draws):
        differences = case.draw(random, n)
        clusters = _clusters(random, n, case.clusters_of) if case.clusters_of else None
        centre, margin = student(differences, clusters)
        by_t += abs(centre - case.true) <= margin + 1e-12
        widths_t += 2 * margin
        found = imagined_moves(sums_of(differences, clusters), reach=case.reach)
        assert found is not None
        interval = found.interval(0.95)
        by_moves += interval.low - 1e-12 <= case.true <= interval.high + 1e-12
        widths += interval.high - interval.low
    return Covered(by_t / draws, by_moves / draws, widths / widths_t)


def _clusters(random: np.random.Generator, n: int, size: int) -> Any:
    return np.unique(random.integers(0, n // size, n), return_inverse=True)[1]


def student(differences: Any, clusters: Any) -> tuple[float, float]:
    """The usual interval: the mean of the units, or the ratio of their sums, and Student's t."""
    sums = sums_of(differences, clusters)
    units = sums.sizes.size
    mean = float(differences.mean())
    residuals = sums.differences - mean * sums.sizes
    error = math.sqrt(float((residuals**2).sum()) * units / (units - 1)) / differences.size
    return mean, student_quantile(0.025, units - 1) * error


def coverage(draws: int) -> Iterator[str]:
    shown = "  ".join(f"{f'n = {n}':^11}" for n in SIZES)
    yield f"{'':<22}  {shown}  width at {SIZES[-1]}"
    yield f"{'':<22}  {'  '.join(['t     moves'] * len(SIZES))}"
    for case in CASES:
        found = [cover(case, n, draws=draws) for n in SIZES]
        cells = "  ".join(f"{one.student:.3f} {one.imagined:.3f}" for one in found)
        yield f"{case.name:<22}  {cells}  {found[-1].width:.2f}"
    yield f"each share ± {1.96 * math.sqrt(0.95 * 0.05 / draws):.3f}"


def size() -> Iterator[str]:
    """The greatest chance of p < .05 where wins and losses are equally likely, while up to half of the queries differ.

    Where nearly all differ, counts are so coarse that it may be .056 (200 queries, each a win or a loss).
    """
    yield f"{'n':>5}  moves   exact test of wins and losses"
    for n in (20, 60, 200, 1000):
        ours, exact = chance_found(n, p_by_moves), chance_found(n, p_by_counting)
        yield f"{n:>5}  {ours:.4f}  {exact:.4f}"


def chance_found(n: int, p_value: Callable[[int, int, int], float]) -> float:
    """Lopsided counts are sought from the last one found, since they rise with the number that moved."""
    refused = np.zeros(n + 1)
    most = -1
    for moved in range(n + 1):
        while 2 * (most + 1) < moved and p_value(most + 1, moved, n) < 0.05:
            most += 1
        while most >= 0 and p_value(most, moved, n) >= 0.05:
            most -= 1
        refused[moved] = 2 * sum(_binomial(wins, moved, 0.5) for wins in range(most + 1))
    shares = np.linspace(0.005, 0.5, 100)
    return max(float(sum(_binomial(k, n, share) * refused[k] for k in range(n + 1))) for share in shares)


def p_by_moves(wins: int, moved: int, n: int) -> float:
    differences = np.repeat([1.0, -1.0, 0.0], [wins, moved - wins, n - moved])
    found: Evidence | None = imagined_moves(sums_of(differences, None), reach=1.0)
    assert found is not None
    return found.p_value("two-sided")


def p_by_counting(wins: int, moved: int, n: int) -> float:
    return min(1.0, 2 * sum(_binomial(few, moved, 0.5) for few in range(wins + 1)))


def _binomial(successes: int, trials: int, share: float) -> float:
    logarithm = (
        math.lgamma(trials + 1) - math.lgamma(successes + 1) - math.lgamma(trials - successes + 1)
    ) + successes * math.log(share)
    return math.exp(logarithm + (trials - successes) * math.log1p(-share))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", choices=["coverage", "size"])
    parser.add_argument("--draws", type=int, default=2_000)
    asked = parser.parse_args()
    for line in coverage(asked.draws) if asked.table == "coverage" else size():
        print(line, flush=True)


if __name__ == "__main__":
    main()
