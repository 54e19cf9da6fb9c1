"""The pictures of one run."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from eval_pipeline.report.pages.figures import COLOURS, Chart, _altair, _specification_of
from eval_pipeline.report.pages.html import clipped, visible
from eval_pipeline.showing.run_report import FieldAccuracy, Latency, Metric
from eval_pipeline.words import count

BINS: Final = 30
MOST_BARS: Final = 12
MOST_FIELDS: Final = 25
LABEL: Final = 40
_AT_K: Final = re.compile(r"(?P<start>[^@]+)@(?P<k>\d+)(?P<end>.*)")

Metrics = Mapping[str, Metric]


@dataclass(frozen=True)
class Bar:
    """One value of a slice in one metric."""

    metric: str
    label: str
    value: float
    n: int


def _label_of(text: str) -> str:
    """A name from the data as it stands in a chart."""
    return clipped(visible(text), LABEL)


def labels_of(texts: Sequence[str]) -> dict[str, str]:
    """Each of these names as it stands in a chart; names that would look alike are counted."""
    found: dict[str, str] = {}
    for text in texts:
        label, n = _label_of(text), 1
        while label in found.values() and text not in found:
            n += 1
            label = f"{_label_of(text)} ({n})"
        found.setdefault(text, label)
    return found


def _curve_points(metrics: Metrics, order: Sequence[str]) -> list[tuple[str, int, float]]:
    """(family, k, value) of every metric that is told at several k, in this order of keys."""
    found: dict[str, list[tuple[str, int, float]]] = {}
    for key in order:
        entry = metrics[key]
        match = _AT_K.fullmatch(key)
        if match and entry.value is not None:
            name = f"{match['start']}@k{match['end']}"
            found.setdefault(name, []).append((name, int(match["k"]), entry.value))
    return [point for points in found.values() if len(points) > 1 for point in sorted(points)]


def _curve_chart(metrics: Metrics, order: Sequence[str]) -> Chart | None:
    """How the rank metrics grow with the number of hits that are looked at."""
    points = _curve_points(metrics, order)
    if not points:
        return None
    alt = _altair()

    families = list(dict.fromkeys(name for name, _, _ in points))
    rows = [{"family": _label_of(name), "k": k, "value": value} for name, k, value in points]
    base = alt.Chart().encode(
        x=alt.X("k:O", title="first k hits", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("value:Q", title=None, scale=alt.Scale(domain=[0, 1.2]), axis=alt.Axis(values=[0, 0.5, 1])),
    )
    layers = alt.layer(
        base.mark_line(color=COLOURS["accent"], strokeWidth=2),
        base.mark_circle(color=COLOURS["accent"], size=36, opacity=1),
        base.mark_text(dy=-11, fontSize=11).encode(text=alt.Text("value:Q", format=".2f")),
        data=alt.Data(values=rows),
    ).properties(width=140, height=116)
    faceted = layers.facet(
        facet=alt.Facet("family:N", title=None, sort=[_label_of(name) for name in families]),
        columns=5,
        spacing=28,
    )
    said = [
        f"{name} {', '.join(f'{value:.2f} at {k}' for family, k, value in points if family == name)}"
        for name in families
    ]
    return Chart("curves", "What more hits bring", "; ".join(said) + ".", _specification_of(faceted))


def _slice_chart(
    dimension: str, bars: Sequence[Bar], whole: Mapping[str, float], metrics: Sequence[str]
) -> Chart:
    """One small panel per metric; the thin line is the whole run."""
    alt = _altair()
    labels = labels_of([bar.label for bar in bars])
    rows = [
        {
            "metric": bar.metric,
            "label": labels[bar.label],
            "value": bar.value,
            "whole": whole[bar.metric],
            "text": f"{bar.value:.2f}",
        }
        for bar in bars
    ]
    rule = alt.Chart().mark_rule(color=COLOURS["ink"], strokeWidth=1, strokeDash=[3, 2])
    bars_of, texts = _share_bars(alt, alt.Chart(), labels.values(), text_at=1.06, most=1.3)
    layers = alt.layer(bars_of, texts, rule.encode(x="mean(whole):Q"), data=alt.Data(values=rows))
    faceted = layers.properties(width=150, height={"step": 22}).facet(
        column=alt.Column("metric:N", title=None, sort=list(metrics), header=alt.Header(labelAnchor="start")),
        spacing=20,
    )
    first = metrics[0]
    said = ", ".join(f"{bar.label} {bar.value:.2f} (n {bar.n:,})" for bar in bars if bar.metric == first)
    words = f"{first}: {said}; the whole run {whole[first]:.2f}."
    return Chart(f"slice-{dimension}", f"By {dimension}", words, _specification_of(faceted))


def _share_bars(
    alt: Any, chart: Any, order: Iterable[str], *, text_at: float, most: float
) -> tuple[Any, Any]:
    """Bars of shares with their numbers in a column at the right."""
    base = chart.encode(
        y=alt.Y("label:N", title=None, sort=list(order), axis={"labelColor": COLOURS["ink"], "grid": False}),
        x=alt.X("value:Q", title=None, scale={"domain": [0, most]}, axis={"values": [0, 0.5, 1]}),
    )
    numbers = base.mark_text(align="left", fontSize=11).encode(text="text:N", x=alt.datum(text_at))
    return base.mark_bar(color=COLOURS["accent"], height=9), numbers


def latency_chart(values: Sequence[float], p50: float, p95: float) -> Chart:
    """How the queries' total times are distributed."""
    alt = _altair()

    bins = _bins(values)
    rows = [{"from": start, "to": end, "n": n} for start, end, n in bins]
    bars = (
        alt.Chart(alt.Data(values=rows))
        .mark_bar(color=COLOURS["accent"], binSpacing=1)
        .encode(
            x=alt.X(
                "from:Q",
                bin="binned",
                title="total time of a query, ms",
                axis=alt.Axis(grid=False, tickCount=8),
            ),
            x2="to:Q",
            y=alt.Y("n:Q", title="queries", axis=alt.Axis(tickCount=4)),
        )
    )
    marks = alt.Chart(
        alt.Data(values=[{"at": p50, "text": f"p50 {p50:,.0f}"}, {"at": p95, "text": f"p95 {p95:,.0f}"}])
    )
    rules = marks.mark_rule(color=COLOURS["ink"], strokeDash=[3, 2]).encode(x="at:Q")
    texts = marks.mark_text(align="left", dx=4, baseline="top", y=0).encode(x="at:Q", text="text:N")
    chart = (bars + rules + texts).properties(width=560, height=150)
    return Chart(
        "latency",
        "Total time of a query",
        f"Half of {count(len(values), 'query', plural='queries')} took at most {p50:,.0f} ms, 95 of 100 at most "
        f"{p95:,.0f} ms; the slowest took {max(values):,.0f} ms.",
        _specification_of(chart),
    )


def _bins(values: Sequence[float]) -> list[tuple[float, float, int]]:
    """Bins with a round width, from the smallest value to the largest."""
    low, high = min(values), max(values)
    width = _round_step((high - low) / BINS) if high > low else 1.0
    first = math.floor(low / width)
    counts: dict[int, int] = {}
    for value in values:
        place = math.floor(value / width)
        counts[place] = counts.get(place, 0) + 1
    return [
        (place * width, (place + 1) * width, counts.get(place, 0))
        for place in range(first, math.floor(high / width) + 1)
    ]


def _round_step(step: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50, …"""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * (1 - 1e-9))


def _stage_chart(stages: Mapping[str, Latency]) -> Chart | None:
    """Median and 95th percentile of the recorded stages."""
    recorded = {name: entry for name, entry in stages.items() if entry.n}
    if not recorded:
        return None
    alt = _altair()

    rows = [
        {"stage": name.replace("_", " "), "p50": entry.p50, "p95": entry.p95}
        for name, entry in recorded.items()
    ]
    order = [row["stage"] for row in rows]
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("stage:N", title=None, sort=order, axis=alt.Axis(labelColor=COLOURS["ink"], grid=False))
    )
    spread = base.mark_bar(color=COLOURS["soft"], height=9).encode(
        x=alt.X(
            "p50:Q",
            title="ms; dot: half of the queries, end of the band: 95 of 100",
            axis=alt.Axis(tickCount=6),
        ),
        x2="p95:Q",
    )
    median = base.mark_circle(color=COLOURS["accent"], size=60, opacity=1).encode(x="p50:Q")
    chart = (spread + median).properties(width=480, height={"step": 24})
    said = "; ".join(f"{row['stage']} {row['p50']:,.0f} ms, 95 of 100 {row['p95']:,.0f} ms" for row in rows)
    return Chart("stages", "Time by stage", f"Half of the queries at most: {said}.", _specification_of(chart))


def _field_chart(fields: Mapping[str, FieldAccuracy]) -> Chart | None:
    """The fields with the lowest accuracy first."""
    known = [(name, entry) for name, entry in fields.items() if entry.accuracy is not None]
    known.sort(key=lambda item: (item[1].accuracy, item[0]))
    if not known:
        return None
    alt = _altair()
    labels = labels_of([name for name, _ in known[:MOST_FIELDS]])
    rows = [
        {
            "label": labels[name],
            "value": entry.accuracy,
            "text": f"{entry.accuracy:.2f} of {entry.n:,}",
        }
        for name, entry in known[:MOST_FIELDS]
    ]
    bars, texts = _share_bars(alt, alt.Chart(alt.Data(values=rows)), labels.values(), text_at=1.03, most=1.25)
    chart = (bars + texts).properties(width=420, height={"step": 22})
    name, entry = known[0]
    return Chart(
        "fields",
        "Accuracy of the weakest fields" if len(known) > MOST_FIELDS else "Accuracy of each field",
        f"The weakest of {len(known):,} fields is {name} with {entry.accuracy:.2f} over {entry.n:,} cases.",
        _specification_of(chart),
    )
