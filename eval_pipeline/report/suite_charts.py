"""The courses of metrics over the nights of a suite."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from eval_pipeline.report.figures import Chart, altair, specification_of
from eval_pipeline.report.run_charts import label_of
from eval_pipeline.report.svg import COLOURS

COLUMNS: Final = 3
# Panels are laid out by their axes alone, so what stands around the outermost needs room of its own.
TRIM: Final = {"right": 12, "top": 34, "bottom": 26}


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


@dataclass(frozen=True)
class Trend:
    """One metric over the nights; `gate` is the value beyond which a night is too bad."""

    metric: str
    points: Sequence[TrendPoint]
    value_range: tuple[float | None, float | None]
    gate: float | None = None


def trend_chart(trends: Sequence[Trend], *, name: str, title: str) -> Chart:
    """Small panels with a common time axis."""
    alt = altair()

    panels = [_panel(one, alt) for one in trends]
    chart = alt.concat(
        *panels,
        columns=COLUMNS,
        spacing={"row": 64, "column": 48},
        bounds="flush",
        padding={"left": 30, **TRIM},
    )
    return Chart(name, title, " ".join(_said(one) for one in trends), specification_of(chart))


def _panel(trend: Trend, alt: Any) -> Any:
    rows = [
        {
            "night": point.night.isoformat(),
            "value": point.value,
            "complete": point.is_complete,
            "definition": point.definition_changed,
            "chunker": point.chunker_changed,
            "beyond": point.is_beyond_gate,
            "failed": point.failed_gate,
            "segment": point.segment,
        }
        for point in trend.points
    ]
    axis = {"format": "%-d %b", "tickCount": 4, "grid": False, "labelOverlap": True}
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("night:T", title=None, scale={"type": "utc"}, axis=axis)
    )
    known = base.transform_filter("isValid(datum.value)").encode(y=_value_axis(trend, alt))
    layers = [
        base.transform_filter("datum.chunker").mark_rule(color=COLOURS["muted"], strokeDash=[1, 3]),
        base.transform_filter("datum.definition").mark_rule(color=COLOURS["ink"], strokeDash=[6, 3]),
    ]
    if trend.gate is not None:
        gate = alt.Chart(alt.Data(values=[{"gate": trend.gate}]))
        layers.append(gate.mark_rule(color=COLOURS["worse"], strokeWidth=1).encode(y="gate:Q"))
    layers.append(known.mark_line(color=COLOURS["accent"], strokeWidth=2).encode(detail="segment:N"))
    if any(point.failed_gate for point in trend.points):
        failed = known.transform_filter("datum.failed")
        layers.append(
            failed.mark_point(shape="square", color=COLOURS["worse"], size=140, strokeWidth=1.5, opacity=1)
        )
    return alt.layer(*layers, *_points(known)).properties(width=250, height=90, title=label_of(trend.metric))


def _value_axis(trend: Trend, alt: Any) -> Any:
    """As wide as the metric's range, where it has one."""
    low, high = trend.value_range
    if low is None or high is None:
        return alt.Y("value:Q", title=None, axis={"tickCount": 3, "format": ".3~s"})
    axis = {"values": [low, (low + high) / 2, high], "format": ".2~g"}
    return alt.Y("value:Q", title=None, scale={"domain": [low, high]}, axis=axis)


def _points(known: Any) -> list[Any]:
    """Beyond the gate in the second colour, hollow where the night is not complete."""
    return [
        known.transform_filter(f"datum.beyond == {beyond} && datum.complete == {complete}").mark_point(
            color=COLOURS[colour], fill=COLOURS[colour if complete == "true" else "paper"], size=36, opacity=1
        )
        for beyond, colour in (("false", "accent"), ("true", "worse"))
        for complete in ("true", "false")
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
