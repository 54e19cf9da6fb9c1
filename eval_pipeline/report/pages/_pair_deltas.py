"""The differences of two runs, with how sure they are and what moves by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from eval_pipeline.comparing.documents import CompareReport, Counts, FallbackMetrics, SliceMoved
from eval_pipeline.comparing.significance import BETTER, UNCLEAR, verdict_of
from eval_pipeline.report.comparison_rows import (
    OF_FEWER,
    OF_FEWER_SAID,
    _by_family,
    _is_share,
    _marked_change,
    _representatives,
    defined_metrics,
    has_fewer,
    is_of_fewer,
    paired_delta,
    part_cells,
    within_noise,
)
from eval_pipeline.report.numbers import NOTHING, adjusted_p, change, interval, p_value, value
from eval_pipeline.report.pages._pair_charts import Difference, forest_chart
from eval_pipeline.report.pages._widgets import Column, Group, badge, data_table, metric_name
from eval_pipeline.report.pages.figures import _figure
from eval_pipeline.report.pages.html import Child, Html, _data_text, _join, tag
from eval_pipeline.report.pages.material import MetricFacts, PairMaterial
from eval_pipeline.words import count

ADJUSTMENTS: Final = {"benjamini_hochberg": "Benjamini–Hochberg"}


def deltas_section(material: PairMaterial) -> list[Child]:
    """The picture of one metric per formula, and the table of all."""
    document = material.document
    defined, undefined = defined_metrics(document)
    facts = {one.key: one for one in material.metrics}
    shown = [facts[key] for key in defined if key in facts]
    return [
        *_pictures(document, [one for one in shown if one.key not in document.caveats]),
        _table(document, shown),
        _caveats(document),
        fewer_said(any(is_of_fewer(document, metric) for metric in defined)),
        _reading(document),
        tag("p", "Undefined in both runs: ", _data_text(", ".join(undefined)), ".", class_="note")
        if undefined
        else None,
    ]


def _pictures(document: CompareReport, metrics: Sequence[MetricFacts]) -> list[Html]:
    drawn = []
    for name, title, is_wanted in (
        ("forest", "Differences, one metric per formula", _is_share),
        ("forest-scores", "Differences of scores from 0 to 5", lambda one: one.scale == "ordinal"),
    ):
        differences = [
            found
            for one in _representatives(metrics)
            if is_wanted(one) and (found := difference_of(document, one)) is not None
        ]
        if differences:
            drawn.append(_figure(forest_chart(differences, name=name, title=title)))
    return drawn


def difference_of(document: CompareReport, one: MetricFacts) -> Difference | None:
    """What is drawn of a metric; nothing without a difference over the queries of both runs."""
    tested = document.significance[one.key]
    if tested.delta is None:
        return None
    band = document.noise.get(one.key)
    return Difference(
        metric=one.key,
        delta=tested.delta,
        low=tested.ci_low,
        high=tested.ci_high,
        band=(band.low, band.high) if band else None,
        verdict=_verdict(document, one),
    )


def _verdict(document: CompareReport, one: MetricFacts) -> str:
    tested = document.significance[one.key]
    return verdict_of(tested.delta, tested.p_adjusted, one.direction, in_band=within_noise(document, one.key))


def _table(document: CompareReport, metrics: Sequence[MetricFacts]) -> Html:
    has_bands = any(document.noise.values())
    groups = [
        Group(family, [_row(document, one, has_bands=has_bands) for one in entries])
        for family, entries in _by_family(metrics).items()
    ]
    titles = ["a", "b", "b − a", "95 % interval", "p adjusted", "n", "could show"]
    numbers = [Column(title, is_number=True) for title in [*titles, *(["noise band"] if has_bands else [])]]
    return data_table("deltas", _caption(document), [Column("metric"), *numbers, Column("verdict")], groups)


def _caption(document: CompareReport) -> str:
    adjusted = ADJUSTMENTS.get(document.adjustment, document.adjustment)
    return (
        "a and b are each run's own aggregates. b − a, interval, p and n are of the queries that both runs define; p "
        f"adjusted by Simes inside a family of metrics and by {adjusted} over the families."
    )


def _row(document: CompareReport, one: MetricFacts, *, has_bands: bool) -> list[Child]:
    tested = document.significance[one.key]
    return [
        metric_name(one.key),
        value(document.aggregate_a[one.key]),
        value(document.aggregate_b[one.key]),
        _marked_change(document, one.key),
        interval(tested.ci_low, tested.ci_high),
        adjusted_p(tested),
        f"{tested.n:,}",
        NOTHING if tested.mde is None else f"±{tested.mde:.3f}",
        *([_band(document, one.key)] if has_bands else []),
        _verdict_cell(document, one),
    ]


def _band(document: CompareReport, metric: str) -> str:
    band = document.noise.get(metric)
    return interval(band.low, band.high) if band else NOTHING


def _verdict_cell(document: CompareReport, one: MetricFacts) -> Child:
    caveat = document.caveats.get(one.key)
    if caveat:
        return badge("not comparable")
    verdict = _verdict(document, one)
    if verdict == UNCLEAR:
        return "within noise" if within_noise(document, one.key) and paired_delta(document, one.key) else ""
    return badge(verdict, "good" if verdict == BETTER else "bad")


def _caveats(document: CompareReport) -> Html | None:
    reasons = sorted(set(document.caveats.values()))
    return tag("p", f"Not comparable: {'; '.join(reasons)}.", class_="note") if reasons else None


def fewer_said(is_marked: bool) -> Html | None:
    """What the mark of a difference means, where there is one."""
    return tag("p", f"{OF_FEWER} {OF_FEWER_SAID}.", class_="note") if is_marked else None


def _reading(document: CompareReport) -> Html:
    pairs = document.identical_pairs
    noise = (
        "Noise band: how far runs of one commit and configuration differ from each other."
        if any(document.noise.values())
        else f"The noise band is not known yet: it takes {pairs.needed:,} pairs of identical runs, and so far there "
        f"{'is' if pairs.n == 1 else 'are'} {pairs.n:,}."
    )
    return tag(
        "p",
        "A verdict is given where p adjusted is below 0.05 and the difference is outside the noise band. “Could show” "
        "is the smallest difference that so many queries would have shown in four of five cases. ",
        noise,
        class_="note",
    )


def fallback_section(document: CompareReport, metrics: FallbackMetrics) -> list[Child]:
    """Why ids are not compared, and what is compared instead."""
    tested = document.fallback_significance or {}
    thresholds = document.sensitivity
    rows: list[list[Child]] = [
        [
            metric_name(metric),
            value(metrics.a[metric]),
            value(metrics.b[metric]),
            change(metrics.deltas[metric]),
            interval(tested[metric].ci_low, tested[metric].ci_high),
            adjusted_p(tested[metric]),
            f"{tested[metric].n:,}",
        ]
        for metric in metrics.deltas
    ]
    titles = ("a", "b", "b − a", "95 % interval", "p adjusted", "n")
    columns = [Column("metric"), *(Column(title, is_number=True) for title in titles)]
    n = count(metrics.n_queries, "query", plural="queries")
    return [
        tag(
            "p",
            "The runs are not known to be chunked alike, so ids of chunks say nothing: labels name the chunks of one "
            "chunker. "
            "Here a hit counts in both runs when it is of an expected document and shares enough characters with an "
            "expected chunk: by default half of the shorter of the two. Verdicts and ranks on this page are by this "
            "criterion.",
        ),
        data_table(
            "fallback", f"Both runs by the same criterion, over {n} whose spans are known.", columns, rows
        ),
        _join(tag("h3", "If more, or less, had to be shared"), _sensitivity(thresholds))
        if thresholds
        else None,
    ]


def _sensitivity(thresholds: Mapping[str, Counts]) -> Html:
    kinds = Counts.__struct_fields__
    rows: list[list[Child]] = [
        [f"{float(share):.0%}", *(f"{n:,}" for n in counts.by_kind().values())]
        for share, counts in thresholds.items()
    ]
    columns = [Column("shared"), *(Column(kind.replace("_", " "), is_number=True) for kind in kinds)]
    return data_table("sensitivity", "Verdicts by the share of characters that is asked for.", columns, rows)


def parts_table(document: CompareReport) -> Html | None:
    """Extraction, speed, cost and indexing of the runs as a whole; None where nothing of it differs."""
    rows: list[list[Child]] = [[metric_name(name), *cells] for name, cells in part_cells(document)]
    columns = [Column("measure")]
    titles = ("a", "b", "b − a", "95 % interval", "p adjusted", "n")
    columns += [Column(title, is_number=True) for title in titles]
    caption = (
        "Measured over a whole run. Extraction is tested over the cases of both runs, the mean time over their "
        "queries, by the factor (×) that its interval is of; percentiles are not tested."
    )
    if not rows:
        return None
    is_marked = any(has_fewer(cells) for _, cells in part_cells(document))
    return _join(data_table("run-parts", caption, columns, rows), fewer_said(is_marked))


def moved_slices_table(slices: Sequence[SliceMoved]) -> Html:
    """The slices with the surest movement, each by the metric that says so."""
    rows: list[list[Child]] = [
        [
            _join(_data_text(entry.slice), " = ", _data_text(entry.slice_value, most=80)),
            metric_name(entry.metric),
            f"{entry.n_queries:,}",
            f"{entry.n:,}",
            change(entry.delta),
            p_value(entry.p_adjusted),
        ]
        for entry in slices
    ]
    columns = [Column("slice"), Column("metric")]
    columns += [Column(title, is_number=True) for title in ("queries", "n", "b − a", "p adjusted")]
    caption = "Sign tests, adjusted over every slice and metric in which enough moved to be tested."
    return data_table("moved-slices", caption, columns, rows)
