"""What of a comparison is worth reading first: families, headlines, moved queries, rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from eval_pipeline.comparing.documents import (
    CompareReport,
    GateReport,
    GateRule,
    PartCompared,
    QueryVerdict,
    Tested,
)
from eval_pipeline.comparing.options import SIGNIFICANT
from eval_pipeline.documents import UNSET
from eval_pipeline.report.numbers import NOTHING, _amount_change, adjusted_p, amount, change, interval
from eval_pipeline.report.pages.material import MetricFacts
from eval_pipeline.words import DECIMALS, count

# The family that a formula's header names: as what it is shown, in this order. Others keep their name and come behind.
TITLES: Final = {
    "retrieval": "Finding what was expected",
    "spans": "Covering expected passages",
    "scope": "Staying in scope",
    "answers": "Answering",
    "refusal": "Refusing",
    "failures": "Failing",
    "latency": "Running",
    "extraction": "Extracting fields",
}
OTHERS: Final = "Other formulas"
# Of a family these stand first, and the rest as in the catalogue.
FIRST: Final = ("hit_at_k", "reciprocal_rank", "answer_strings", "refusal_correctness")
PREFERRED_K: Final = "@5"
OF_FEWER: Final = "†"
OF_FEWER_SAID: Final = (
    "b − a is of what both runs define, as its interval is; a and b are also of what only one defines, and differ by "
    "another amount"
)
MOVED: Final = ("win", "loss", "rank_up", "rank_down", "regression")


def _by_family(metrics: Iterable[MetricFacts]) -> dict[str, list[MetricFacts]]:
    """Title of a family → its metrics; families without one are left out, those of one formula alone are others."""
    found: dict[str, list[MetricFacts]] = {title: [] for title in TITLES.values()}
    others: list[MetricFacts] = []
    for one in metrics:
        is_alone = one.family in ("", one.base) and one.family not in TITLES
        (others if is_alone else found.setdefault(TITLES.get(one.family, one.family), [])).append(one)
    return {
        title: sorted(entries, key=lambda one: FIRST.index(one.base) if one.base in FIRST else len(FIRST))
        for title, entries in (found | {OTHERS: others}).items()
        if entries
    }


def _representatives(metrics: Iterable[MetricFacts]) -> list[MetricFacts]:
    """One key per formula, at k = 5 where there are several; every key of a judge."""
    by_formula: dict[str, list[MetricFacts]] = {}
    for family in _by_family(metrics).values():
        for one in family:
            by_formula.setdefault(one.formula, []).append(one)
    found = []
    for keys in by_formula.values():
        preferred = [one for one in keys if PREFERRED_K in one.key]
        found += keys if keys[0].scale == "ordinal" else (preferred or keys)[:1]
    return found


def _is_share(one: MetricFacts) -> bool:
    """Whether it lies between 0 and 1."""
    return tuple(one.value_range) == (0, 1)


def _chosen(wanted: Sequence[str], available: Iterable[str], *, most: int) -> list[str]:
    """The first few of what is wanted that are there."""
    known = set(available)
    return [key for key in wanted if key in known][:most]


def asks_queries(report: Mapping[str, Any]) -> bool:
    """Whether the run was meant to answer queries; else nothing is said of queries."""
    return not report.get("is_without_results", False)


def moved_queries(report: CompareReport) -> list[QueryVerdict]:
    """Losses, then whatever else lost an expected chunk, wins, changes of rank; of each the farthest first."""
    entries = [entry for entry in report.per_query if entry.regression or entry.kind in MOVED]
    return sorted(entries, key=_worst_first)


def _worst_first(entry: QueryVerdict) -> tuple[int, float, float]:
    """A change of rank far up the list moves more than a loss far down, and matters less."""
    move, place = _move_of(entry), {"loss": 0, "regression": 1, "win": 2}
    return place.get(_outcome(entry), 3), -abs(move), move


def _outcome(entry: QueryVerdict) -> str:
    return "regression" if entry.regression and entry.kind != "loss" else entry.kind


def left_out(moved: Sequence[QueryVerdict], most: int) -> str:
    """How many there are of each outcome behind the first few."""
    outcomes = Counter(_outcome(entry) for entry in moved[most:])
    return ", ".join(f"{n:,} {outcome.replace('_', ' ')}" for outcome, n in outcomes.items())


def _move_of(entry: QueryVerdict) -> float:
    """By how much the reciprocal rank changed: what the reader of a list feels."""
    return _reciprocal(entry.b_hit_rank) - _reciprocal(entry.a_hit_rank)


def _reciprocal(rank: int | None) -> float:
    return 0.0 if rank is None else 1 / rank


def surest_metric(report: CompareReport) -> str | None:
    """The metric whose difference is least likely to be chance, if any is significant after the adjustment."""
    found = [
        (entry.p_adjusted, -abs(entry.delta), metric)
        for metric, entry in report.significance.items()
        if entry.p_adjusted is not None and entry.p_adjusted < SIGNIFICANT and entry.delta
    ]
    return min(found)[2] if found else None


def paired_delta(report: CompareReport, metric: str) -> float | None:
    """b − a of the queries that interval and p are of; of the runs' own values where an older store kept only these."""
    tested = report.significance.get(metric)
    if tested is None or (tested.delta is None and tested.n):
        return report.delta_of(metric)
    return tested.delta


def is_of_fewer(report: CompareReport, metric: str) -> bool:
    """Whether the runs' own values differ by another amount, because they have queries that the other lacks."""
    return _differ(report.delta_of(metric), paired_delta(report, metric))


def _differ(own: float | None, paired: float | None) -> bool:
    """By more than rounding: the difference of rounded values may be off by one in the last decimal."""
    return own is not None and paired is not None and abs(own - paired) > 1.5 * 10**-DECIMALS


def _marked_change(report: CompareReport, metric: str) -> str:
    """The difference of the compared queries, marked where a and b do not come to it."""
    return change(paired_delta(report, metric)) + (OF_FEWER if is_of_fewer(report, metric) else "")


def within_noise(report: CompareReport, metric: str) -> bool | None:
    """Whether the difference is no larger than identical runs differ; None where that is not known."""
    band, delta = report.noise.get(metric), paired_delta(report, metric)
    if band is None or delta is None:
        return None
    return bool(band.low <= delta <= band.high)


def defined_metrics(report: CompareReport) -> tuple[list[str], list[str]]:
    """Metrics with a value in at least one run, and those without any."""
    metrics = list(report.aggregate_a)
    defined = [
        metric
        for metric in metrics
        if report.aggregate_a[metric] is not None or report.aggregate_b[metric] is not None
    ]
    return defined, [metric for metric in metrics if metric not in defined]


def shown_first(names: Sequence[str], most: int) -> str:
    """The first few names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def rules_worth_showing(gate: GateReport) -> tuple[list[GateRule], str]:
    """The gate's rules without the trends that are none, and one sentence about these."""
    quiet = [rule for rule in gate.rules if rule.kind == "drift" and rule.verdict == "pass"]
    shown = [rule for rule in gate.rules if rule not in quiet]
    if not quiet:
        return shown, ""
    nights = max(rule.n for rule in quiet)
    return shown, f"No lasting decline over up to {count(nights, 'night')} in {count(len(quiet), 'metric')}."


def part_cells(report: CompareReport) -> Iterator[tuple[str, list[str]]]:
    """What the runs measured as a whole, where they differ or were tested: a, b, b − a, interval, p adjusted, cases."""
    for name, entry in report.parts.items():
        tested = entry.tested
        if entry.a == entry.b and tested is None:
            continue
        yield (
            name,
            [
                amount(entry.a),
                amount(entry.b),
                _part_change(entry),
                _part_interval(tested) if tested else NOTHING,
                adjusted_p(tested) if tested else NOTHING,
                f"{tested.n:,}" if tested else NOTHING,
            ],
        )


def _part_interval(tested: Tested) -> str:
    """Of times by which factor, which is what their verdict rests on; else of the difference."""
    if tested.ratio is UNSET or tested.ratio_low is None or tested.ratio_high is None:
        return interval(tested.ci_low, tested.ci_high)
    return f"×{tested.ratio_low:.2f} to ×{tested.ratio_high:.2f}"


def _part_change(entry: PartCompared) -> str:
    """Of the cases or queries of both where these are tested, marked where a and b differ by another amount."""
    paired = entry.tested.delta if entry.tested else None
    return _amount_change(entry.a, entry.b, paired) + (OF_FEWER if _differ(entry.delta, paired) else "")


def has_fewer(cells: Iterable[str]) -> bool:
    """Whether one of the differences is marked, so that the mark has to be explained."""
    return any(cell.endswith(OF_FEWER) for cell in cells)
