"""How sure the differences are: a test per metric, adjusted for the families that are asked."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

import numpy as np
from msgspec.structs import replace

from eval_pipeline.comparing.documents import (
    BETTER,
    BETWEEN_RUNS,
    MEAN_TIME,
    NOT_ASKED,
    UNCLEAR,
    WORSE,
    NoiseBand,
    PairCoverage,
    SliceMoved,
    Tested,
)
from eval_pipeline.comparing.options import SIGNIFICANT
from eval_pipeline.comparing.pair_rows import BoolArray, FloatArray, IntArray, MetricPairs
from eval_pipeline.documents import UNSET, ScoreCoverage
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.formulas.scores import PREFIX
from eval_pipeline.showing.undefined import SPAN
from eval_pipeline.stats import (
    PairedResult,
    RunSpread,
    Scale,
    adjust_by_family,
    benjamini_hochberg,
    compare_paired,
)
from eval_pipeline.stats.binary import sign_test
from eval_pipeline.stats.moves import cluster_sums
from eval_pipeline.stats.paired import REACH
from eval_pipeline.stats.power import fewest_moved_units
from eval_pipeline.stats.results import IDENTICAL, Alternative
from eval_pipeline.stats.student import student_quantile, student_tail
from eval_pipeline.stats.units import cluster_numbers, on_exact_grid
from eval_pipeline.words import decimals_of, rounded

SHOWN_SLICES: Final = 10
SMALLEST_SLICE: Final = 5
SIGN_TEST: Final = "sign_exact"
SLICED_SCALES: Final = ("binary", "fraction", "ordinal")
# Why a metric has no adjusted p of its own.
TOO_FEW: Final = "too few moved"
NOT_TESTED: Final = "not tested"
# The squares of larger values have no sum in a double.
LARGEST_TESTED: Final = 1e150
SPREAD_UNKNOWN: Final = "too few earlier runs of one configuration"

Groups = Sequence[str | None] | None


@dataclass(frozen=True)
class Compared:
    """A metric with its formula and both runs' values; identical where both were computed from the same bytes.

    `unscored` are the answers of a, and of b, that need a score and lack one; None if there are none.
    """

    metric: str
    formula: Definition
    pairs: MetricPairs
    is_identical: bool = False
    unscored: tuple[BoolArray, BoolArray] | None = None

    @property
    def scale(self) -> str:
        return self.formula.header.scale

    def extremes(self) -> list[Compared]:
        """The metric with the lowest scores for what b lacks and the highest for what a lacks, and the opposite.

        Empty if no score is missing, or if the range of the scores is unknown.
        """
        low, high = self.formula.header.value_range
        if self.unscored is None or low is None or high is None:
            return []
        filled = (self.pairs.filled(self.unscored, *ends) for ends in ((high, low), (low, high)))
        return [dataclasses.replace(self, pairs=pairs, unscored=None) for pairs in filled]

    def coverage(self, within: IntArray | None = None) -> PairCoverage | None:
        """How many answers (of a slice: `within`) have the score that they need; None if all have it."""
        inside = slice(None) if within is None else within
        if self.unscored is None or not any(unscored[inside].any() for unscored in self.unscored):
            return None
        pairs = self.pairs
        a, b = (
            ScoreCoverage(
                scored=int(scored[inside].sum()), needed=int(scored[inside].sum() + unscored[inside].sum())
            )
            for scored, unscored in zip((pairs.defined_a, pairs.defined_b), self.unscored, strict=True)
        )
        changes = [compare_metric(extreme, groups=None, within=within).delta for extreme in self.extremes()]
        low, high = changes or (None, None)
        return PairCoverage(a=a, b=b, change_low=rounded(low), change_high=rounded(high))


@dataclass(frozen=True)
class Question:
    """What a key asks: with which family, and through which key, where that is another one."""

    family: str
    asked_by: str | None = None
    is_asked: bool = True
    direction: str = "higher"

    @property
    def why_not(self) -> str:
        """Why it asks nothing by itself."""
        return f"part of {self.asked_by}" if self.asked_by else NOT_ASKED


MACRO_F1: Final = "extraction.macro_f1"
MICRO_F1: Final = "extraction.micro_f1"
# What is asked of whole runs.
WHOLE_RUN_QUESTIONS: Final = {
    MEAN_TIME: Question("latency", direction="lower"),
    MACRO_F1: Question("extraction"),
    MICRO_F1: Question("extraction", MACRO_F1, is_asked=False),
}


def questions_of(registry: Registry, *, by_span: bool = False) -> dict[str, Question]:
    """Return key → question; `by_span` also tests the variants of the headlines by characters."""
    keys = registry.keys()
    variants = {f"{key}{SPAN}" for key, one in keys.items() if key in one.headline} if by_span else set()
    return {
        key: Question(
            one.family,
            registry.headline_of(one),
            is_asked=key in one.headline or key in variants,
            direction=one.header.direction,
        )
        for key, one in keys.items()
    }


def _verdict_of(delta: float | None, p_adjusted: float | None, direction: str, *, in_band: bool) -> str:
    """Better or worse, where the test says so after the adjustment and it is more than what moves by itself."""
    is_shown = delta and p_adjusted is not None and p_adjusted < SIGNIFICANT and not in_band
    if not is_shown or delta is None or direction == "none":
        return UNCLEAR
    return BETTER if (delta > 0) == (direction == "higher") else WORSE


def results_of(
    compared: Sequence[Compared],
    metrics: Sequence[str],
    *,
    groups: Groups,
    untestable: Collection[str] = (),
) -> dict[str, PairedResult]:
    """A result for every metric; `untestable` ones show their difference and no test."""
    results = {one.metric: compare_metric(one, groups=groups) for one in compared}
    shown = {metric: results.get(metric, PairedResult(n=0)) for metric in metrics}
    return {
        metric: PairedResult(n=result.n, a=result.a, b=result.b, delta=result.delta)
        if metric in untestable
        else result
        for metric, result in shown.items()
    }


def entries_of(
    results: Mapping[str, PairedResult],
    questions: Mapping[str, Question],
    *,
    bands: Mapping[str, NoiseBand | None] | None = None,
    doubted: Collection[str] = (),
) -> dict[str, Tested]:
    """The results as the document shows them: Simes inside a family, Benjamini–Hochberg over families.

    Imported scores are adjusted among themselves, because their number says nothing about other metrics; times are a
    question apart from quality. A difference inside its band is no verdict, and `doubted` metrics have none.
    """
    silent = {metric: _why_not_adjusted(result, questions[metric]) for metric, result in results.items()}
    adjusted: dict[str, float | None] = {}
    for kind in (PREFIX, MEAN_TIME, ""):
        asked = [metric for metric in results if metric not in adjusted and metric.startswith(kind)]
        chances = [None if silent[metric] else _chance_of(results[metric]) for metric in asked]
        families = [questions[metric].family for metric in asked]
        adjusted |= zip(asked, adjust_by_family(chances, families), strict=True)
    entries = {
        metric: _entry(result, questions[metric], adjusted[metric], silent[metric])
        for metric, result in results.items()
    }
    known = bands or {}
    return {
        metric: entry
        if metric in doubted
        else replace(entry, verdict=_verdict(entry, questions[metric], known.get(metric)))
        for metric, entry in entries.items()
    }


def _verdict(entry: Tested, question: Question, band: NoiseBand | None) -> str | None:
    """None where nothing was asked of the key itself, or where neither direction is better."""
    is_answered = entry.p_adjusted is not None or (entry.n and entry.adjusted_as in (TOO_FEW, IDENTICAL))
    if not (question.is_asked and is_answered) or question.direction == "none":
        return None
    in_band = band is not None and entry.delta is not None and band.holds(entry.delta)
    return _verdict_of(entry.delta, entry.p_adjusted, question.direction, in_band=in_band)


def _why_not_adjusted(result: PairedResult, question: Question) -> str | None:
    if result.p_value is None:
        return result.reason or NOT_TESTED
    if result.test == IDENTICAL:
        return IDENTICAL
    if not question.is_asked:
        return question.why_not
    return TOO_FEW if (result.moved or 0) < fewest_moved_units() else None


def _chance_of(result: PairedResult) -> float | None:
    """Of times by their ratio: a mean of milliseconds is that of its slowest queries."""
    return result.p_value if result.ratio_p is None else result.ratio_p


def _entry(
    result: PairedResult, question: Question, p_adjusted: float | None, adjusted_as: str | None
) -> Tested:
    is_ratio = result.ratio is not None
    a, b, delta, decimals = _printed_means(result.a, result.b)
    return Tested(
        a=a,
        b=b,
        delta=delta,
        ci_low=rounded(result.ci_low, decimals),
        ci_high=rounded(result.ci_high, decimals),
        p_value=_short(result.p_value),
        p_adjusted=_short(p_adjusted),
        test=result.test,
        n=result.n,
        mde=rounded(result.mde, decimals),
        family=question.family,
        adjusted_as=adjusted_as,
        is_identical=result.test == IDENTICAL,
        ratio=rounded(result.ratio) if is_ratio else UNSET,
        ratio_low=rounded(result.ratio_low) if is_ratio else UNSET,
        ratio_high=rounded(result.ratio_high) if is_ratio else UNSET,
        ratio_p=_short(result.ratio_p) if is_ratio else UNSET,
    )


def compare_metric(
    compared: Compared,
    *,
    groups: Groups,
    within: IntArray | None = None,
    alternative: Alternative = "two-sided",
) -> PairedResult:
    """The paired comparison over the queries on which both runs define the metric, or over those `within` a slice."""
    pairs = compared.pairs
    wanted = np.flatnonzero(pairs.on_both)
    if within is not None:
        wanted = np.intersect1d(wanted, within)
    a, b = pairs.a[wanted], pairs.b[wanted]
    if np.any(np.abs([a, b]) > LARGEST_TESTED):
        return PairedResult(n=int(wanted.size), reason=f"values above {LARGEST_TESTED:g} cannot be tested")
    scale = _scale_for(compared.scale, a, b)
    return compare_paired(
        a,
        b,
        scale=scale,
        groups=None if groups is None else [groups[place] for place in wanted.tolist()],
        alternative=alternative,
        reach=_width_of(compared.formula, scale),
        identical=compared.is_identical and np.array_equal(a, b),
    )


def between_runs(times: PairedResult, spread: RunSpread | None) -> PairedResult:
    """Test times by the spread between runs: the load of a machine affects all queries of a run alike."""
    if times.test == IDENTICAL:
        return times
    bare = PairedResult(n=times.n, a=times.a, b=times.b, delta=times.delta, ratio=times.ratio)
    if spread is None or times.ratio is None:
        return dataclasses.replace(bare, reason=SPREAD_UNKNOWN)
    error = spread.deviation * math.sqrt(2)
    p_value = min(1.0, 2 * student_tail(abs(math.log(times.ratio)) / error, spread.degrees))
    factor = math.exp(student_quantile(0.025, spread.degrees) * error)
    return dataclasses.replace(
        bare,
        p_value=p_value,
        ratio_p=p_value,
        ratio_low=times.ratio / factor,
        ratio_high=times.ratio * factor,
        test=BETWEEN_RUNS,
        moved=times.moved,
    )


def _scale_for(scale: str, a: FloatArray, b: FloatArray) -> Scale:
    """The formula's own, unless a formula called binary yields something between 0 and 1."""
    if scale == "binary" and not np.all(np.isin(np.concatenate([a, b]), (0.0, 1.0))):
        return "fraction"
    return cast(Scale, scale)


def _width_of(formula: Definition, scale: Scale) -> float | None:
    """Of the range that the header declares, else of the scale."""
    low, high = formula.header.value_range
    return float(high - low) if low is not None and high is not None and high > low else REACH[scale]


def _printed_means(a: float | None, b: float | None) -> tuple[float | None, float | None, float | None, int]:
    """Return both means rounded alike, the difference of the rounded means, and the number of decimals."""
    decimals = decimals_of(a, b)
    a, b = rounded(a, decimals), rounded(b, decimals)
    return a, b, None if a is None or b is None else rounded(b - a, decimals), decimals


def _short(p_value: float | None) -> float | None:
    """Six digits: more say nothing, fewer would make a small one 0."""
    return None if p_value is None else float(f"{p_value:.6g}")


def moved_slices(
    compared: Sequence[Compared], slices: Mapping[tuple[str, str], IntArray], *, groups: Groups
) -> list[SliceMoved]:
    """The slices that moved most, each with the metric that says so most surely; none that holds every query.

    One test fits all scales: were ups and downs tossed with a fair coin, how often would they be as lopsided? Queries
    of one group count once, by the sign of their sum. Adjusted for every slice and metric in which enough moved for the
    test to say anything at all.
    """
    clusters = None if groups is None else cluster_numbers(groups, len(groups))
    found = [
        entry
        for one in compared
        if one.scale in SLICED_SCALES and one.formula.header.slices
        for entry in _slices_of(one, slices, clusters)
    ]
    adjusted = benjamini_hochberg([movement.p_value for movement in found])
    ranked = sorted(zip(found, adjusted, strict=True), key=lambda pair: _surest_first(*pair))
    every_query = max((one.pairs.on_both.size for one in compared), default=0)
    strongest: dict[tuple[str, str], SliceMoved] = {}
    for movement, p_adjusted in ranked:
        if movement.delta and movement.n >= SMALLEST_SLICE and movement.n_queries < every_query:
            strongest.setdefault((movement.slice, movement.slice_value), movement.entry(p_adjusted))
    return list(strongest.values())[:SHOWN_SLICES]


@dataclass(frozen=True)
class SliceMovement:
    """One metric in one slice; `reach` is the width of its scale, so that movements can be ranked."""

    slice: str
    slice_value: str
    metric: str
    n_queries: int
    n: int
    delta: float
    reach: float
    p_value: float | None

    def entry(self, p_adjusted: float | None) -> SliceMoved:
        """As the document shows it."""
        return SliceMoved(
            slice=self.slice,
            slice_value=self.slice_value,
            metric=self.metric,
            n_queries=self.n_queries,
            n=self.n,
            delta=rounded(self.delta),
            p_value=_short(self.p_value),
            p_adjusted=_short(p_adjusted),
            test=None if self.p_value is None else SIGN_TEST,
        )


def _surest_first(movement: SliceMovement, p_adjusted: float | None) -> tuple[float, float, str, str, str]:
    sure = 2.0 if p_adjusted is None else p_adjusted
    return (
        sure,
        -abs(movement.delta) / movement.reach,
        movement.slice,
        movement.slice_value,
        movement.metric,
    )


def _slices_of(
    one: Compared, slices: Mapping[tuple[str, str], IntArray], clusters: IntArray | None
) -> list[SliceMovement]:
    on_both = one.pairs.on_both
    moves = np.where(on_both, one.pairs.b - one.pairs.a, 0.0)
    differences = on_exact_grid(moves, terms=max(1, moves.size))
    reach = _width_of(one.formula, cast(Scale, one.scale)) or 1.0
    found = []
    for (name, value), places in slices.items():
        n = int(np.count_nonzero(on_both[places]))
        if n == 0:
            continue
        own = differences[places]
        p_value = _sign_test(own if clusters is None else _summed(moves[places], clusters[places]))
        delta = float(own.sum()) / n
        found.append(SliceMovement(name, value, one.metric, int(places.size), n, delta, reach, p_value))
    return found


def _sign_test(differences: FloatArray) -> float | None:
    """None where too few moved for any p-value below 5 %."""
    ups, downs = int(np.count_nonzero(differences > 0)), int(np.count_nonzero(differences < 0))
    return sign_test(ups, downs) if ups + downs >= fewest_moved_units() else None


def _summed(differences: FloatArray, clusters: IntArray) -> FloatArray:
    _, numbers = np.unique(clusters, return_inverse=True)
    return cluster_sums(differences, numbers)


def _mean_of_values(values: Sequence[float] | FloatArray) -> float | None:
    """The unrounded mean, whatever the order of the values; None over nothing."""
    numbers = [float(value) for value in values]
    return math.fsum(numbers) / len(numbers) if numbers else None
