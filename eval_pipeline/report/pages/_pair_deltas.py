"""The differences of two runs, with how sure they are and what moves by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from eval_pipeline.comparing.documents import BETTER, UNCLEAR, WORSE, CompareReport, Counts, SliceMoved
from eval_pipeline.report.comparison_rows import QUERIES, TITLES, Row, _defined_metrics, rows_of, short_names
from eval_pipeline.report.numbers import NOTHING, change, interval, p_value
from eval_pipeline.report.pages._pair_charts import Difference, forest_chart
from eval_pipeline.report.pages._widgets import Column, Group, badge, data_table, metric_name
from eval_pipeline.report.pages.figures import _figure
from eval_pipeline.report.pages.html import Child, Html, _data_text, _join, tag
from eval_pipeline.report.pages.material import MetricFacts, PairMaterial
from eval_pipeline.words import count

ADJUSTMENTS: Final = {"benjamini_hochberg": "Benjamini–Hochberg"}
EXTRACTION: Final = "extraction."


def forest(material: PairMaterial) -> list[Child]:
    """The pictures of what is asked, worse first, beside what the gate lets pass."""
    document = material.document
    facts = {one.key: one for one in material.metrics}
    drawn: list[Child] = []
    has_gate = False
    for name, title, is_wanted in (
        ("forest", "Differences, worse first", is_share),
        ("forest-scores", "Differences of scores, worse first", is_score),
    ):
        rows = [row for row in rows_of(document) if row.is_asked and is_wanted(row, facts.get(row.key))]
        shown = [found for row in rows if (found := difference_of(material, row)) is not None]
        has_gate = has_gate or any(one.allowed for one in shown)
        if shown:
            drawn.append(_figure(forest_chart(shown, name=name, title=title)))
    if drawn:
        band = " Shaded: how far identical runs differ." if any(document.noise.values()) else ""
        # Without a verdict nobody has said how far an open margin grows with what the queries do not resolve.
        at_least = "" if material.gate else " at the least"
        gate = f" Dashed: the loss that the gate lets pass{at_least}." if has_gate else ""
        drawn.append(tag("p", f"▼ worse, ▲ better, ● no significant change.{band}{gate}", class_="note"))
    return drawn


def deltas_section(material: PairMaterial) -> list[Child]:
    """The table of everything, worse first."""
    document = material.document
    _, undefined = _defined_metrics(document)
    rows = rows_of(document)
    return [
        _table(document, rows),
        _caveats(document),
        _reading(document),
        tag("p", "Undefined in both runs: ", _data_text(", ".join(undefined)), ".", class_="note")
        if undefined and document.asks_queries
        else None,
    ]


def is_share(row: Row, facts: MetricFacts | None) -> bool:
    """Whether it lies between 0 and 1."""
    return row.key.startswith(EXTRACTION) or (facts is not None and tuple(facts.value_range) == (0, 1))


def is_score(row: Row, facts: MetricFacts | None) -> bool:
    """Whether it is a grade that a judge gave."""
    return facts is not None and facts.scale == "ordinal"


def difference_of(material: PairMaterial, row: Row) -> Difference | None:
    """What is drawn of a metric; nothing without a difference over the queries of both runs."""
    tested = row.tested
    if tested.delta is None:
        return None
    band = material.document.noise.get(row.key) if row.part == QUERIES else None
    return Difference(
        metric=row.name,
        delta=tested.delta,
        low=tested.ci_low,
        high=tested.ci_high,
        band=(band.low, band.high) if band else None,
        verdict=row.verdict or UNCLEAR,
        allowed=_allowed(material, row),
    )


def _allowed(material: PairMaterial, row: Row) -> tuple[float, float] | None:
    """From no difference to the margin that was used, or would be, towards the worse."""
    margins = dict(material.margins)
    for rule in material.gate.rules if material.gate else ():
        if rule.kind == "change" and rule.slice is None and rule.margin is not None:
            margins[rule.metric] = rule.margin
    margin = margins.get(row.key)
    if margin is None:
        return None
    facts = next((one for one in material.metrics if one.key == row.key), None)
    return (0.0, margin) if facts is not None and facts.direction == "lower" else (-margin, 0.0)


def _table(document: CompareReport, rows: Sequence[Row]) -> Html:
    has_bands = any(document.noise.values())
    groups = [
        Group(title, [_row(document, row, has_bands=has_bands) for row in own])
        for title, own in _by_family(rows).items()
    ]
    before = [*short_names(document.run_a, document.run_b), "change"]
    behind = ["95 % interval", "p adjusted", "n", "could show", *(["noise band"] if has_bands else [])]
    columns = [
        Column("metric"),
        *(Column(title, is_number=True) for title in before),
        Column("verdict", style="short"),
        *(Column(title, is_number=True) for title in behind),
    ]
    return data_table("deltas", _caption(document), columns, groups)


def _by_family(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Title → its rows; families in the order of their first row, measures of whole runs without one last."""
    found: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.tested.family is None):
        family = row.tested.family
        title = "The runs as a whole" if family is None else TITLES.get(family, family)
        found.setdefault(title, []).append(row)
    return found


def _caption(document: CompareReport) -> str:
    adjusted = ADJUSTMENTS.get(document.adjustment, document.adjustment)
    return (
        "Values, change, interval, p and n are over the queries, or cases, that both runs define; "
        f"p adjusted by Simes inside a family of metrics and by {adjusted} over the families. Of times the interval is "
        "of the factor (×)."
    )


def _row(document: CompareReport, row: Row, *, has_bands: bool) -> list[Child]:
    return [
        metric_name(row.name),
        row.a,
        row.b,
        row.change,
        _verdict_cell(row),
        row.interval,
        tag("span", row.p_adjusted, class_="reason") if row.tested.p_adjusted is None else row.p_adjusted,
        row.n,
        NOTHING if row.tested.mde is None else f"±{row.could_show}",
        *([_band(document, row)] if has_bands else []),
    ]


def _band(document: CompareReport, row: Row) -> str:
    band = document.noise.get(row.key) if row.part == QUERIES else None
    return interval(band.low, band.high) if band else NOTHING


def _verdict_cell(row: Row) -> Child:
    if row.caveat:
        return badge("not comparable")
    if row.verdict in (BETTER, WORSE):
        return badge(row.verdict, "good" if row.verdict == BETTER else "bad")
    return "within noise" if row.is_noise else ""


def _caveats(document: CompareReport) -> Html | None:
    reasons = sorted(set(document.caveats.values()))
    return tag("p", f"Not comparable: {'; '.join(reasons)}.", class_="note") if reasons else None


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


def fallback_section(document: CompareReport) -> list[Child]:
    """Why ids are not compared, and what is compared instead."""
    metrics, thresholds = document.fallback_metrics, document.sensitivity
    if metrics is None:
        return []
    return [
        tag(
            "p",
            "The runs are not known to be chunked alike, so ids of chunks say nothing: labels name the chunks of one "
            "chunker. Here a hit counts in both runs when it is of an expected document and shares enough characters "
            "with an expected chunk: by default half of the shorter of the two. Verdicts and ranks on this page are by "
            f"this criterion, over {count(metrics.n_queries, 'query', plural='queries')} whose spans are known.",
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
    columns += [Column(title, is_number=True) for title in ("queries", "n", "change", "p adjusted")]
    caption = "Sign tests, adjusted over every slice and metric in which enough moved to be tested."
    return data_table("moved-slices", caption, columns, rows)
