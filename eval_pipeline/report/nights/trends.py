"""How metrics went from night to night."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, Final

from eval_pipeline.formulas.catalogue import HEADLINES
from eval_pipeline.report.comparison_rows import _by_family, _representatives
from eval_pipeline.report.nights._changes import Change, definition_changed
from eval_pipeline.report.numbers import value
from eval_pipeline.report.pages._widgets import Column, bullets, data_table, linked, more
from eval_pipeline.report.pages.figures import COLOURS, Chart, _altair, _figure, _specification_of
from eval_pipeline.report.pages.html import Child, Html, _data_text, tag
from eval_pipeline.report.pages.material import GateMark, MetricFacts, SuiteMaterial, SuiteRun
from eval_pipeline.report.pages.run_charts import _label_of
from eval_pipeline.showing.runs import PART_HEADLINES
from eval_pipeline.words import count

COLUMNS: Final = 3
# Panels are laid out by their axes alone, so what stands around the outermost needs room of its own.
TRIM: Final = {"right": 12, "top": 34, "bottom": 26}
HEADLINE_PANELS: Final = 12
# Of more nights only those are dots that somebody should look at.
DOTS_SHOWN: Final = 100
NUMBERED_CHANGES: Final = 12
NUMBERS_SHOWN: Final = 100
LONG_DAYS: Final = 300
NORMAL_95: Final = 1.959964
AROUND: Final = 0.08
LEAST_SPAN: Final = 0.02
# What is a mean of queries; what is measured over a run as a whole is none.
MEANS: Final = ("binary", "fraction")
PARTS: Final = frozenset(one.key for one in PART_HEADLINES)


@dataclass(frozen=True)
class TrendPoint:
    """One night's value; only points of one segment are of one kind, and joined by a line."""

    night: dt.date
    run_id: str
    value: float | None
    n: int
    is_complete: bool
    definition_changed: bool
    chunker_changed: bool
    is_beyond_gate: bool = False
    failed_gate: bool = False
    segment: int = 0
    interval: tuple[float, float] | None = None
    change: int | None = None


@dataclass(frozen=True)
class Trend:
    """One metric over the nights; `gate` is the value beyond which a night is too bad."""

    metric: str
    points: Sequence[TrendPoint]
    value_range: tuple[float | None, float | None]
    gate: float | None = None


def _trend_chart(trends: Sequence[Trend], *, name: str, title: str) -> Chart:
    """Small panels with a common time axis."""
    alt = _altair()

    panels = [_panel(one, alt) for one in trends]
    chart = alt.concat(
        *panels,
        columns=COLUMNS,
        spacing={"row": 64, "column": 48},
        bounds="flush",
        padding={"left": 30, **TRIM},
    )
    return Chart(name, title, " ".join(_said(one) for one in trends), _specification_of(chart))


def _panel(trend: Trend, alt: Any) -> Any:
    base = alt.Chart(alt.Data(values=[_row(point) for point in trend.points])).encode(
        x=alt.X("night:T", title=None, scale={"type": "utc"}, axis=_time_axis(trend))
    )
    known = base.transform_filter("isValid(datum.value)").encode(y=_value_axis(trend, alt))
    layers = [*_intervals(known, trend, alt), *_change_rules(base, trend)]
    if trend.gate is not None:
        gate = alt.Chart(alt.Data(values=[{"gate": trend.gate}]))
        layers.append(gate.mark_rule(color=COLOURS["worse"], strokeWidth=1).encode(y="gate:Q"))
    layers.append(known.mark_line(color=COLOURS["accent"], strokeWidth=2).encode(detail="segment:N"))
    if any(point.failed_gate for point in trend.points):
        failed = known.transform_filter("datum.failed")
        layers.append(
            failed.mark_point(shape="square", color=COLOURS["worse"], size=140, strokeWidth=1.5, opacity=1)
        )
    layers += _points(known, is_dense=_is_dense(trend))
    return alt.layer(*layers).properties(width=250, height=90, title=_label_of(trend.metric))


def _row(point: TrendPoint) -> dict[str, object]:
    low, high = point.interval or (None, None)
    return {
        "night": point.night.isoformat(),
        "value": point.value,
        "low": low,
        "high": high,
        "complete": point.is_complete,
        "definition": point.definition_changed,
        "changed": point.change is not None,
        "mark": "" if point.change is None else f"{point.change}",
        "beyond": point.is_beyond_gate,
        "failed": point.failed_gate,
        "segment": point.segment,
    }


def _is_dense(trend: Trend) -> bool:
    return len(trend.points) > DOTS_SHOWN


def _time_axis(trend: Trend) -> dict[str, object]:
    days = (trend.points[-1].night - trend.points[0].night).days
    shown = "%b %Y" if days > LONG_DAYS else "%-d %b"
    return {"format": shown, "tickCount": 4, "grid": False, "labelOverlap": True}


def _intervals(known: Any, trend: Trend, alt: Any) -> list[Any]:
    """A bar behind each dot, or one band where nights stand close."""
    if not any(point.interval for point in trend.points):
        return []
    with_interval = known.transform_filter("isValid(datum.low)").encode(
        y=_value_axis(trend, alt, field="low:Q"), y2="high:Q"
    )
    if _is_dense(trend):
        return [with_interval.mark_area(color=COLOURS["soft"], opacity=1).encode(detail="segment:N")]
    return [with_interval.mark_rule(color=COLOURS["soft"], strokeWidth=5)]


def _change_rules(base: Any, trend: Trend) -> list[Any]:
    """A line where anything changed, dashed where values before and after are of different kinds; few have numbers."""
    changes = sum(point.change is not None for point in trend.points)
    if not changes:
        return []
    rules = [
        base.transform_filter("datum.changed && !datum.definition").mark_rule(
            color=COLOURS["muted"], strokeDash=[1, 3]
        ),
        base.transform_filter("datum.definition").mark_rule(color=COLOURS["ink"], strokeDash=[6, 3]),
    ]
    if changes <= NUMBERED_CHANGES:
        numbers = base.transform_filter("datum.changed").mark_text(
            baseline="bottom", dy=-1, fontSize=10, color=COLOURS["muted"]
        )
        rules.append(numbers.encode(text="mark:N", y={"value": 0}))
    return rules


def _value_axis(trend: Trend, alt: Any, *, field: str = "value:Q") -> Any:
    """Fitted to the values and their intervals: movements of two points are to be seen."""
    low, high = _fitted(trend)
    axis = {"tickCount": 3, "format": ".3~s" if high >= 10 else ".3~f"}
    return alt.Y(field, title=None, scale={"domain": [low, high], "nice": False, "zero": False}, axis=axis)


def _fitted(trend: Trend) -> tuple[float, float]:
    """From the lowest to the highest that is drawn, with some room, inside of what the metric can be."""
    drawn = [point.value for point in trend.points if point.value is not None]
    drawn += [end for point in trend.points for end in point.interval or ()]
    drawn += [] if trend.gate is None else [trend.gate]
    low, high = min(drawn), max(drawn)
    room = max((high - low) * AROUND, LEAST_SPAN / 2 if high <= 1 else high * LEAST_SPAN / 2)
    least, most = trend.value_range
    low, high = low - room, high + room
    return (low if least is None else max(low, least), high if most is None else min(high, most))


def _points(known: Any, *, is_dense: bool) -> list[Any]:
    """Beyond the gate in the second colour, hollow where the night is not complete."""
    kinds = (("false", "accent"), ("true", "worse"))
    return [
        known.transform_filter(f"datum.beyond == {beyond} && datum.complete == {complete}").mark_point(
            color=COLOURS[colour],
            fill=COLOURS[colour if complete == "true" else "paper"],
            size=20 if is_dense else 36,
            opacity=1,
        )
        for beyond, colour in kinds
        for complete in ("true", "false")
        if not (is_dense and beyond == "false" and complete == "true")
    ]


def _said(trend: Trend) -> str:
    known = [point for point in trend.points if point.value is not None]
    if not known:
        return f"{trend.metric}: never defined."
    first, last = known[0], known[-1]
    values = [point.value for point in known if point.value is not None]
    return (
        f"{trend.metric}: {first.value:.3f} on {first.night}, {last.value:.3f} on {last.night}, between "
        f"{min(values):.3f} and {max(values):.3f}."
    )


def trends_of(suite: SuiteMaterial, changes: Sequence[Change] = ()) -> list[Trend]:
    """Every headline, then one key of every other formula, of what was ever defined."""
    runs = _shown_runs(suite)
    known = [one for one in suite.metrics if any(_value(run, one.key) is not None for run in runs)]
    headlines = [one for one in known if one.key in HEADLINES]
    covered = {one.formula for one in headlines}
    others = [one for one in _representatives(known) if one.formula not in covered]
    ordered = sorted(headlines, key=lambda one: HEADLINES.index(one.key)) + others
    numbers = {one.run.facts.run_id: one.number for one in changes}
    return [_trend(one, runs, suite, numbers) for one in ordered]


def _value(run: SuiteRun, key: str) -> float | None:
    return run.values.get(key, (None, 0))[0]


def _trend(
    one: MetricFacts, runs: Sequence[SuiteRun], suite: SuiteMaterial, changes: Mapping[str, int]
) -> Trend:
    gate = suite.gate.get(one.key)
    baseline = _baseline_of(suite)
    points: list[TrendPoint] = []
    before: SuiteRun | None = None
    for run in runs:
        reference = baseline or before
        is_alike = reference is not None and not (
            one.is_chunk_level and _chunker_of(reference) != _chunker_of(run)
        )
        limit = _bound(gate, _value(reference, one.key) if reference is not None and is_alike else None)
        is_redefined = before is not None and definition_changed(before, run, one.formula)
        chunker_changed = before is not None and _chunker_of(before) != _chunker_of(run)
        is_broken = is_redefined or (chunker_changed and one.is_chunk_level)
        points.append(
            TrendPoint(
                night=run.night,
                run_id=run.facts.run_id,
                value=_value(run, one.key),
                n=run.values.get(one.key, (None, 0))[1],
                is_complete=run.is_complete,
                definition_changed=is_redefined,
                chunker_changed=chunker_changed,
                failed_gate=run.gate is not None and run.gate.metrics.get(one.key) == "fail",
                is_beyond_gate=_is_beyond(_value(run, one.key), limit, gate),
                segment=(points[-1].segment if points else 0) + is_broken,
                interval=_interval(one, run),
                change=changes.get(run.facts.run_id),
            )
        )
        before = run
    bound = _bound(gate, _value(baseline, one.key) if baseline else None)
    return Trend(one.key, points, one.value_range, gate=bound)


def _baseline_of(suite: SuiteMaterial) -> SuiteRun | None:
    """Of this suite; a baseline of another is no night of it."""
    if suite.baseline_run is not None:
        return suite.baseline_run
    return next((run for run in suite.runs if run.facts.run_id == suite.baseline), None)


def _bound(gate: GateMark | None, reference: float | None) -> float | None:
    """The worst value that is let through."""
    if gate is None:
        return None
    if gate.target is not None:
        return gate.target
    if gate.margin is None or reference is None:
        return None
    return reference - gate.margin if gate.is_higher_better else reference + gate.margin


def _is_beyond(number: float | None, limit: float | None, gate: GateMark | None) -> bool:
    if number is None or limit is None or gate is None:
        return False
    # A value that is stored with four decimals is not beyond a limit by less than that.
    return number < limit - 5e-5 if gate.is_higher_better else number > limit + 5e-5


def _interval(one: MetricFacts, run: SuiteRun) -> tuple[float, float] | None:
    if one.key in PARTS:
        return None
    return _interval_of_mean(one, _value(run, one.key), run.values.get(one.key, (None, 0))[1])


def _interval_of_mean(one: MetricFacts, number: float | None, n: int) -> tuple[float, float] | None:
    """Wilson's for a share of so many queries; rather too wide for scores that lie between 0 and 1."""
    if number is None or not n or one.scale not in MEANS or tuple(one.value_range) != (0, 1):
        return None
    z = NORMAL_95
    middle = (number + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(max(number * (1 - number), 0) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def _chunker_of(run: SuiteRun) -> str | None:
    """The chunker version that the run recorded."""
    version = run.facts.config.get("chunker_version")
    return None if version is None else str(version)


def _shown_runs(suite: SuiteMaterial) -> list[SuiteRun]:
    """The last complete attempt of every night."""
    return [run for run in suite.runs if run.is_shown]


def _trend_section(suite: SuiteMaterial, trends: Sequence[Trend], prefix: str) -> list[Child]:
    """The headlines as charts, the rest folded behind them, and the numbers."""
    headlines, others = trends[:HEADLINE_PANELS], trends[HEADLINE_PANELS:]
    first, *rest = _legend(suite, trends)
    return [
        tag("p", first),
        more("How to read them", bullets(rest)) if rest else None,
        _figure(_trend_chart(headlines, name=f"{prefix}trend", title="From night to night")),
        more(
            count(len(others), "more metric"),
            _figure(_trend_chart(others, name=f"{prefix}trend-more", title="The other metrics")),
        )
        if others
        else None,
        more("All numbers", _number_table(suite, prefix)),
    ]


def _legend(suite: SuiteMaterial, trends: Sequence[Trend]) -> list[str]:
    points = [point for one in trends for point in one.points]
    nights = len(_shown_runs(suite))
    among = f" of {len(suite.nights):,}" if len(suite.nights) > nights else ""
    said = [
        f"{'The newest ' if among else ''}{nights:,}{among} nights, each by its last complete attempt. The axes are "
        "fitted to the values and need not begin at 0."
    ]
    if any(point.interval for point in points):
        said.append(
            "Grey: the 95 % interval of each night's mean by itself, Wilson's for so many queries; of scores between 0 "
            "and 1 it is rather too wide. Whether two nights differ, their comparison says more sharply."
        )
    if any(_is_dense(one) for one in trends):
        said.append("Dots stand only where a night is not complete or is worse than the gate allows.")
    if any(not point.is_complete for point in points):
        said.append("A hollow point is a night without a complete one.")
    if any(point.change is not None for point in points):
        said.append("Dotted: something changed that night; “What changed” names it.")
    if any(point.chunker_changed for point in points):
        said.append(
            "Where the chunker changed metrics of expected chunks start anew: labels name the chunks of one. Of nights "
            "of another they have no point."
        )
    if any(point.definition_changed for point in points):
        said.append("Dashed: the values before and after rest on different definitions or labels.")
    if any(point.is_beyond_gate for point in points):
        against = f"the baseline {suite.baseline}" if _baseline_of(suite) else "the night before"
        said.append(
            f"An orange point is worse than {against} by more than the gate's margin, or misses its target; whether "
            "that can be chance is for the gate itself to say."
        )
    if any(point.failed_gate for point in points):
        said.append("A square around a point: the gate judged that night and failed it by this metric.")
    return said


def _number_table(suite: SuiteMaterial, prefix: str) -> Html:
    runs = _shown_runs(suite)[-NUMBERS_SHOWN:]
    metrics = [one for one in suite.metrics if any(_value(run, one.key) is not None for run in runs)]
    ordered = [one for entries in _by_family(metrics).values() for one in entries]
    columns = [
        Column("night", style="short"),
        Column("run"),
        *(Column(one.key, is_number=True) for one in ordered),
    ]
    rows: list[list[Child]] = [
        [
            run.night.isoformat(),
            linked(tag("span", _data_text(run.facts.run_id), class_="id"), suite.links.run(run.facts.run_id)),
            *(value(_value(run, one.key)) for one in ordered),
        ]
        for run in reversed(runs)
    ]
    left_out = len(suite.nights) - len(runs)
    caption = "The newest night first." + (
        f" {left_out:,} older nights are left out." if left_out > 0 else ""
    )
    return data_table(f"{prefix}numbers", caption, columns, rows)
