"""What a comparison is asked and what it answers."""

# None stands for what the numbers cannot say.

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, get_args

from eval_pipeline.stats.errors import ImpossibleOption

Scale: TypeAlias = Literal["binary", "fraction", "ordinal", "count", "ms"]
Alternative: TypeAlias = Literal["two-sided", "less", "greater"]
IntervalMethod: TypeAlias = Literal["identical", "imagined_moves"]

# The test of two runs that were computed from the same bytes.
IDENTICAL: Final = "identical"
SCALES: Final[tuple[Scale, ...]] = get_args(Scale)
ALTERNATIVES: Final[tuple[Alternative, ...]] = get_args(Alternative)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonPlan:
    """How a comparison is carried out, checked once."""

    confidence: float = 0.95
    alternative: Alternative = "two-sided"
    power: float = 0.8

    def __post_init__(self) -> None:
        check_share("confidence", self.confidence)
        check_share("power", self.power)
        check_alternative(self.alternative)


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided interval, and the one-sided bounds of the same confidence."""

    low: float
    high: float
    lower_bound: float
    upper_bound: float
    method: IntervalMethod


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedResult:
    """b − a over the queries defined on both sides; `a` and `b` are the two means over these queries.

    `ci_low` and `ci_high` enclose the difference with `confidence`; `lower_bound` and `upper_bound` each hold alone
    with the same confidence, which is what a gate asks. `mde` is the smallest difference that as many queries of
    this spread would have shown with the wanted power: what "no change" has to be read beside. It is None when no
    difference could have been shown, however large, or when nothing is known about the spread.

    `moved` units (queries, or clusters of them) differ at all; `degrees` are those of Student's t. Times also have a
    `ratio` of b to a, the geometric mean over the queries, with its interval. `reason` says why something is None.
    """

    n: int
    clusters: int | None = None
    a: float | None = None
    b: float | None = None
    delta: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    lower_bound: float | None = None
    upper_bound: float | None = None
    interval: IntervalMethod | None = None
    p_value: float | None = None
    test: str | None = None
    standard_error: float | None = None
    mde: float | None = None
    confidence: float = 0.95
    alternative: Alternative = "two-sided"
    degrees: float | None = None
    moved: int | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    ratio_p: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanResult:
    """One run's mean, with the interval that encloses it with `confidence`; `reason` says why there is none."""

    n: int
    mean: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    standard_error: float | None = None
    degrees: float | None = None
    confidence: float = 0.95
    reason: str | None = None


def with_interval(result: PairedResult, interval: Interval | None) -> PairedResult:
    """The result with this interval; without one its fields stay None."""
    if interval is None:
        return result
    return replace(
        result,
        ci_low=interval.low,
        ci_high=interval.high,
        lower_bound=interval.lower_bound,
        upper_bound=interval.upper_bound,
        interval=interval.method,
    )


def check_share(name: str, value: float) -> None:
    """Refuse what is not strictly between 0 and 1."""
    if not 0 < value < 1:
        raise ImpossibleOption(
            f"{name} is {value!r}; allowed is a number between 0 and 1, such as 0.95 for 95 %"
        )


def check_alternative(alternative: str) -> None:
    """Refuse an alternative that is none of the three."""
    if alternative not in ALTERNATIVES:
        raise ImpossibleOption(f"alternative is {alternative!r}; allowed is one of {', '.join(ALTERNATIVES)}")
