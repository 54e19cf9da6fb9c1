"""What of a comparison is worth reading first: families, headlines, moved queries, rules."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from eval_pipeline.comparing.documents import (
    BETTER,
    WORSE,
    CompareReport,
    GateReport,
    GateRule,
    QueryVerdict,
    SliceMoved,
    Tested,
)
from eval_pipeline.comparing.options import SIGNIFICANT
from eval_pipeline.documents import UNSET
from eval_pipeline.report.numbers import (
    NOTHING,
    _adjusted_p,
    _amount_change,
    amount,
    change,
    interval,
    p_value,
    value,
)
from eval_pipeline.report.pages.material import MetricFacts
from eval_pipeline.words import count, decimals_of

# The formula whose keys are the names that others gave their scores; so many of them are drawn, tables hold all.
SCORES: Final = "scores"
MOST_SCORES: Final = 40
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
    SCORES: "Scores of others",
}
OTHERS: Final = "Other formulas"
# Of a family these stand first, and the rest as in the catalogue.
FIRST: Final = ("hit_at_k", "reciprocal_rank", "answer_strings", "refusal_correctness")
PREFERRED_K: Final = "@5"
BY_SPAN: Final = "by document and span"
MOST_OF_NAME: Final = 8
_JOINTS: Final = re.compile(r"[-_.:@+]")
# What a row is measured over.
QUERIES, SPANS, WHOLE = "queries", "spans", "whole"
_UNTESTED: Final = Tested(ci_low=None, ci_high=None, p_value=None, p_adjusted=None, test=None, n=0, mde=None)
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
        if keys[0].formula == SCORES:
            found += keys[:MOST_SCORES]
        else:
            found += keys if keys[0].scale == "ordinal" else (preferred or keys)[:1]
    return found


def _is_share(one: MetricFacts) -> bool:
    """Whether it lies between 0 and 1."""
    return tuple(one.value_range) == (0, 1)


def _chosen(wanted: Sequence[str], available: Iterable[str], *, most: int) -> list[str]:
    """The first few of what is wanted that are there."""
    known = set(available)
    return [key for key in wanted if key in known][:most]


@dataclass(frozen=True)
class Row:
    """One measure of two runs as every table, page and message shows it.

    `numbers` are the value of a, the value of b, and b − a, over the queries or cases that both runs define.
    """

    key: str
    name: str
    part: str
    numbers: tuple[float | None, float | None, float | None]
    a: str
    b: str
    change: str
    interval: str
    tested: Tested
    is_noise: bool = False
    caveat: str | None = None

    @property
    def is_asked(self) -> bool:
        """Whether it is a question of its own, whose answer counts."""
        return self.verdict is not None

    @property
    def is_same(self) -> bool:
        """Whether it cannot differ, because both were computed from the same results."""
        return self.tested.is_identical and not self.numbers[2]

    @property
    def verdict(self) -> str | None:
        """better, worse or not shown; None where it asks nothing itself."""
        return self.tested.verdict

    @property
    def family(self) -> str:
        """What it is asked with."""
        return self.tested.family or self.key

    @property
    def factor(self) -> str:
        """The factor of a typical query: a few slow queries may move the mean by more; empty if it is unknown."""
        ratio = self.tested.ratio
        return "" if ratio is UNSET or ratio is None else f"per query ×{ratio:.2f}"

    @property
    def p_value(self) -> str:
        return p_value(self.tested.p_value)

    @property
    def p_adjusted(self) -> str:
        """Or why it has none of its own."""
        return _adjusted_p(self.tested)

    @property
    def n(self) -> str:
        return f"{self.tested.n:,}" if self.tested.n or self.part != WHOLE else NOTHING

    @property
    def could_show(self) -> str:
        """The smallest difference that so many queries reveal."""
        return amount(self.tested.mde)


def rows_of(report: CompareReport) -> list[Row]:
    """Everything that has a value in one of the runs: what is worse first, then what is better, then the rest."""
    rows = [
        *_span_rows(report),
        *(_metric_row(report, metric) for metric in _defined_metrics(report)[0] if report.asks_queries),
        *_whole_rows(report),
    ]
    return sorted(rows, key=_worst_rows_first)


def _worst_rows_first(row: Row) -> tuple[int, float]:
    """Questions before their parts, what cannot be compared last; equals stay in the order of the catalogue."""
    if row.verdict in (WORSE, BETTER):
        chance = row.tested.p_adjusted
        return (WORSE, BETTER).index(row.verdict), 1.0 if chance is None else chance
    return (4 if row.caveat else 2 if row.is_asked else 3), 0.0


def _metric_row(report: CompareReport, metric: str) -> Row:
    tested = report.significance[metric]
    own = report.aggregate_a[metric], report.aggregate_b[metric], report.delta_of(metric)
    numbers = own if tested.a is None or tested.b is None else (tested.a, tested.b, tested.delta)
    decimals = decimals_of(*numbers[:2])
    return Row(
        key=metric,
        name=metric,
        part=QUERIES,
        numbers=numbers,
        a=value(numbers[0], decimals),
        b=value(numbers[1], decimals),
        change=change(numbers[2], decimals),
        interval=interval(tested.ci_low, tested.ci_high, decimals),
        tested=tested,
        is_noise=bool(numbers[2] and within_noise(report, metric)),
        caveat=report.caveats.get(metric),
    )


def _span_rows(report: CompareReport) -> Iterator[Row]:
    """The same of both runs by one criterion, where ids of chunks cannot be compared."""
    metrics, by_span = report.fallback_metrics, report.fallback_significance or {}
    if metrics is None:
        return
    for metric, delta in metrics.deltas.items():
        a, b, tested = metrics.a[metric], metrics.b[metric], by_span[metric]
        yield Row(
            key=metric,
            name=f"{metric} {BY_SPAN}",
            part=SPANS,
            numbers=(a, b, delta),
            a=value(a),
            b=value(b),
            change=change(delta),
            interval=interval(tested.ci_low, tested.ci_high),
            tested=tested,
        )


def _whole_rows(report: CompareReport) -> Iterator[Row]:
    """What the runs measured as a whole, where they differ or were tested."""
    for name, entry in report.parts.items():
        tested = entry.tested
        if entry.a == entry.b and tested is None:
            continue
        a, b, delta = entry.a, entry.b, entry.delta
        if tested and tested.a is not None:
            a, b, delta = tested.a, tested.b, tested.delta
        yield Row(
            key=name,
            name=name,
            part=WHOLE,
            numbers=(a, b, delta),
            a=amount(a),
            b=amount(b),
            change=_amount_change(a, b),
            interval=_part_interval(tested) if tested else NOTHING,
            tested=tested or _UNTESTED,
        )


def short_names(a: str, b: str, *, most: int = MOST_OF_NAME) -> tuple[str, str]:
    """What tells two run ids apart, from a joint of theirs on: `09-15` and `09-18`."""
    pairs = enumerate(zip(a, b, strict=False))
    alike = next((place for place, (one, other) in pairs if one != other), min(len(a), len(b)))
    joints = [0, *(found.end() for found in _JOINTS.finditer(a[:alike]))]
    fitting = [place for place in joints if max(len(a), len(b)) - place <= most]
    start = fitting[0] if fitting else joints[-1]
    shown = _clipped(a[start:] or a, most), _clipped(b[start:] or b, most)
    if shown[0] == shown[1] and a != b:
        return _clipped(f"…{a[alike:]}", most), _clipped(f"…{b[alike:]}", most)
    return shown


def _clipped(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _note_of(report: CompareReport, entry: QueryVerdict, *, is_short: bool = False) -> str:
    """What is said of the query alone: errors by the names of the runs; what holds for all queries stands above."""
    a, b = short_names(report.run_a, report.run_b) if is_short else (report.run_a, report.run_b)
    runs = {"error in a": f"error in {a}", "error in b": f"error in {b}"}
    said = [one for one in (entry.note or "").split("; ") if one and one not in report.causes]
    return "; ".join(runs.get(one, one) for one in said)


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
    """The metric whose difference is least likely to be chance, if any is better or worse."""
    found = [
        (1.0 if entry.p_adjusted is None else entry.p_adjusted, -abs(entry.delta or 0), metric)
        for metric, entry in report.significance.items()
        if entry.verdict in (BETTER, WORSE)
    ]
    return min(found)[2] if found else None


def is_sure(entry: SliceMoved) -> bool:
    """Whether the slice moved by more than chance moves one of so many."""
    return entry.p_adjusted is not None and entry.p_adjusted < SIGNIFICANT


def within_noise(report: CompareReport, metric: str) -> bool | None:
    """Whether the difference is no larger than identical runs differ; None if that is unknown."""
    band, tested = report.noise.get(metric), report.significance.get(metric)
    delta = report.delta_of(metric) if tested is None or tested.delta is None else tested.delta
    return None if band is None or delta is None else band.holds(delta)


def _defined_metrics(report: CompareReport) -> tuple[list[str], list[str]]:
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


def _part_interval(tested: Tested) -> str:
    """Of times by which factor, which is what their verdict rests on; else of the difference."""
    if tested.ratio is UNSET or tested.ratio_low is None or tested.ratio_high is None:
        return interval(tested.ci_low, tested.ci_high)
    return f"×{tested.ratio_low:.2f} to ×{tested.ratio_high:.2f}"
