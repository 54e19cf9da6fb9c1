"""The page of one run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from eval_pipeline.formulas.catalogue import HEADLINES, OF_QUERIES, SLICED
from eval_pipeline.report.comparison_rows import _by_family, _chosen, _is_share
from eval_pipeline.report.nights._compared import comparisons
from eval_pipeline.report.nights.trends import _interval_of_mean
from eval_pipeline.report.numbers import NOTHING, rank, value
from eval_pipeline.report.pages._about_runs import (
    footer_line,
    formula_table,
    run_facts,
    stale_callout,
    state_badge,
)
from eval_pipeline.report.pages._page import Page, Section, render_page, size_of
from eval_pipeline.report.pages._queries import (
    PAGE_BYTES,
    QueryEntry,
    QueryTable,
    found_ranks,
    labelled_text,
    query_table,
    sides,
)
from eval_pipeline.report.pages._run_blocks import (
    extraction_section,
    indexing_section,
    judge_section,
    latency_section,
)
from eval_pipeline.report.pages._widgets import (
    Column,
    Group,
    badge,
    breakable_name,
    callout,
    data_table,
    facts_list,
    linked,
    metric_name,
    more,
    named_ids,
    tiles,
)
from eval_pipeline.report.pages.figures import _figure
from eval_pipeline.report.pages.html import Child, Html, _data_text, _join, tag
from eval_pipeline.report.pages.material import MetricFacts, QueryRow, QueryTexts, RunMaterial
from eval_pipeline.report.pages.run_charts import MOST_BARS, Bar, _curve_chart, _slice_chart
from eval_pipeline.report.verdict import MOST_TILES
from eval_pipeline.showing.plausibility import IMPLAUSIBLE
from eval_pipeline.showing.run_report import Metric, RunReport, Slice
from eval_pipeline.showing.undefined import SPAN
from eval_pipeline.words import count, target_words

MOST_METRICS: Final = 5
ZERO_IS_BAD: Final = ("groundedness", "citation_coverage", "refusal_correctness", "abstention_accuracy")
LATE: Final = 5

FAILED, MISSED, LATE_HIT, ANSWER, FINE, UNLABELLED, UNJUDGED = (
    "failed",
    "not found",
    f"found after {LATE}",
    "answer to check",
    "found",
    "no expected chunk",
    "not judged",
)
TO_LOOK_AT: Final = (FAILED, MISSED, ANSWER, LATE_HIT)
SEVERAL: Final = {ANSWER: "answers to check"}
ORDER: Final = (FAILED, MISSED, ANSWER, LATE_HIT, UNLABELLED, UNJUDGED, FINE)
PANELS: Final = 4
LISTED: Final = 100
NO_LABEL: Final = "(none)"
ORDERED: Final = {"difficulty": ("easy", "medium", "hard")}
LOWER: Final = "lower is better"
FEW: Final = "†"

QueryValues = Mapping[str, float | None]
SliceValues = Mapping[str, Slice]


def _run_query_table(material: RunMaterial, *, room: int) -> Html:
    """The table, in so many bytes; `kind` says how the query went."""
    defined = [key for key, entry in material.document.metrics.items() if entry.n]
    metrics = _chosen(OF_QUERIES, defined, most=MOST_METRICS)
    entries = [_entry(row, material, metrics) for row in material.queries]
    entries.sort(key=lambda entry: ORDER.index(entry.kind))
    columns = [
        Column("question"),
        Column("kind"),
        Column("rank", is_number=True),
        *(Column(breakable_name(key), is_number=True) for key in metrics),
        Column("category"),
    ]
    return query_table(
        QueryTable(
            name="run-queries",
            caption="Queries with something to look at first. Rank: where the first expected chunk stands.",
            columns=columns,
            entries=entries,
            mark="failed only",
        ),
        room=room,
    )


def _kind_of(row: QueryRow, values: QueryValues, *, is_judged: bool) -> str:
    """How the query went, in a word."""
    if row.is_failed:
        return FAILED
    if not is_judged:
        return UNJUDGED
    if row.n_expected and row.first_rank is None:
        return MISSED
    if any(values.get(key) == 0 for key in ZERO_IS_BAD):
        return ANSWER
    if not row.n_expected:
        return UNLABELLED
    return LATE_HIT if row.first_rank is not None and row.first_rank > LATE else FINE


def _kind(row: QueryRow, material: RunMaterial) -> str:
    values = material.values.get(row.query_id, {})
    is_judged = material.document.state != IMPLAUSIBLE
    return _kind_of(row, values, is_judged=is_judged)


def _entry(row: QueryRow, material: RunMaterial, metrics: list[str]) -> QueryEntry:
    values = {key: _finite(value) for key, value in material.values.get(row.query_id, {}).items()}
    kind = _kind(row, material)
    mood = {FAILED: "bad", MISSED: "bad", FINE: "good"}.get(kind)
    cells: list[Child] = [
        badge(kind, mood),
        rank(row.first_rank),
        *(_number(values.get(key)) for key in metrics),
        _data_text(row.category, most=60) if row.category else None,
    ]
    keys: list[float | str | None] = [
        kind,
        row.first_rank,
        *(values.get(key) for key in metrics),
        row.category,
    ]
    return QueryEntry(
        query_id=row.query_id,
        question=row.question if material.with_text else None,
        kind=kind,
        is_marked=row.is_failed,
        cells=cells,
        keys=keys,
        detail=lambda with_text: _detail(row, material, with_text=with_text and material.with_text),
        address=material.links.question(material.facts.dataset, row.query_id),
    )


def _finite(value: float | None) -> float | None:
    """A formula of one's own may yield what is no number."""
    return value if value is not None and math.isfinite(value) else None


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"


def _detail(row: QueryRow, material: RunMaterial, *, with_text: bool) -> Html | None:
    texts = material.texts.get(row.query_id, QueryTexts(hits=[()]))
    below = [labelled_text("Error", row.error), labelled_text("Answer", row.answer)] if with_text else None
    return sides(
        texts,
        headings=["Retrieved"],
        matched=[found_ranks(row.first_rank)],
        with_text=with_text,
        below=below,
    )


def _slices_section(material: RunMaterial) -> Iterator[Section]:
    """Every dimension that says more than the whole run does."""
    metrics = material.document.metrics
    shares = [one.key for one in material.metrics if _is_share(one) and metrics[one.key].n]
    keys = _chosen(SLICED, shares, most=PANELS) or shares[:PANELS]
    content: list[Html] = []
    if keys:
        for dimension, values in material.document.slices.items():
            if set(values) - {NO_LABEL}:
                content.append(_dimension(dimension, values, material, keys))
    if content:
        yield Section(
            "slices",
            "Slices",
            [
                tag(
                    "p", "The dashed line is the whole run. A query can stand under several tags and vaults."
                ),
                *content,
            ],
        )


def _dimension(dimension: str, values: SliceValues, material: RunMaterial, keys: list[str]) -> Html:
    metrics = material.document.metrics
    ordered = _ordered(dimension, values)
    shown = ordered[:MOST_BARS]
    bars = [
        Bar(key, label, entry.value, entry.n)
        for label in shown
        for key in keys
        if (entry := values[label].metrics[key]).value is not None
    ]
    table = _numbers(dimension, values, material, ordered[:LISTED])
    left_out = f" The {len(shown)} largest of {len(ordered):,}." if len(ordered) > len(shown) else ""
    summary = f"All numbers by {dimension}" + (
        f" (the first {LISTED} of {len(ordered):,})" if len(ordered) > LISTED else ""
    )
    if not bars:
        return more(summary, table)
    whole = {key: entry.value for key in keys if (entry := metrics[key]).value is not None}
    drawn = [key for key in keys if any(bar.metric == key for bar in bars)]
    chart = _slice_chart(dimension, bars, whole, drawn)
    return _figure(chart, tag("p", left_out, class_="note") if left_out else None, more(summary, table))


def _ordered(dimension: str, values: SliceValues) -> list[str]:
    """In the order that the words have, else the largest first."""
    known = ORDERED.get(dimension, ())
    return sorted(
        values,
        key=lambda label: (
            label == NO_LABEL,
            known.index(label) if label in known else len(known),
            -values[label].n_queries,
            label,
        ),
    )


def _numbers(dimension: str, values: SliceValues, material: RunMaterial, labels: list[str]) -> Html:
    metrics = material.document.metrics
    keys = [one.key for one in material.metrics if metrics[one.key].n]
    columns = [
        Column(dimension),
        Column("queries", is_number=True),
        *(Column(key, is_number=True) for key in keys),
        *(Column(name, is_number=True) for name in ("p50 ms", "p95 ms", "judge cost")),
    ]
    rows: list[list[Child]] = [
        [
            _data_text(label, most=80),
            f"{values[label].n_queries:,}{FEW if values[label].is_small else ''}",
            *(_cell(values[label].metrics[key]) for key in keys),
            *(value(getattr(values[label].performance, name, None)) for name in _PERFORMANCE),
        ]
        for label in labels
    ]
    caption = f"Values by {dimension}, with n in brackets."
    if any(values[label].is_small for label in labels):
        caption += f" {FEW} few queries: a single one moves a value by more than a tenth."
    return data_table(f"slice-{dimension}-numbers", caption, columns, rows)


_PERFORMANCE = ("p50_ms", "p95_ms", "judge_cost")


def _cell(entry: Metric) -> str:
    return f"{value(entry.value)} ({entry.n:,})" if entry.n else "—"


def render_run_page(material: RunMaterial) -> str:
    """The whole page as text."""
    document = material.document
    run_id = document.run_id
    return render_page(
        Page(
            kind="Evaluation run",
            title=f"{run_id} · evaluation run",
            heading=_data_text(run_id),
            lead=[
                _lead(material),
                _standing(material),
                *comparisons(material.compared, material.links),
                _where(material),
                _warnings(material),
                facts_list(run_facts(material.facts)),
            ],
            sections=_sections(material),
            footer=[footer_line(document.format)],
            crumbs=[
                ("all runs", material.links.home()),
                (
                    material.facts.suite or material.facts.dataset,
                    material.links.suite(material.facts.suite, material.facts.dataset),
                ),
            ],
        )
    )


def _lead(material: RunMaterial) -> Html:
    document = material.document
    if document.is_without_results:
        return tag("p", "A run of extraction cases, without queries.", class_="lead")
    total, failed = document.total_queries, document.failed_queries
    missing, unknown = len(document.missing_query_ids), len(document.unknown_query_ids)
    said = [
        f"{count(total, 'query', plural='queries')} answered",
        f"{failed:,} of them failed" if failed else "none failed",
    ]
    if missing:
        said.append(f"{missing:,} without a result")
    if unknown:
        said.append(f"{unknown:,} results that no golden query knows")
    return tag("p", ", ".join(said) + ".", class_="lead")


def _standing(material: RunMaterial) -> Html | None:
    """What keeps the run from standing for its night."""
    night, quarantined = material.document.night, sum(material.document.quarantined.values())
    said: list[Child] = []
    if not night.is_complete:
        said.append("Incomplete: it does not stand for its night. ")
    if night.superseded_by is not None:
        run_id = tag("span", _data_text(night.superseded_by), class_="id")
        said += ["Replaced by ", linked(run_id, material.links.run(night.superseded_by)), ". "]
    if quarantined:
        said.append(f"In quarantine: {count(quarantined, 'row')}. ")
    return tag("p", said, class_="bad") if said else None


def _where(material: RunMaterial) -> Html | None:
    """The questions to look at, as links into the list of all."""
    kinds = Counter(_kind(row, material) for row in material.queries)
    places = [(kind, kinds[kind]) for kind in TO_LOOK_AT if kinds[kind]]
    if not places:
        return None
    links = [
        tag("li", tag("a", count(n, kind, plural=SEVERAL.get(kind, kind)), href=f"#kind={quote(kind)}"))
        for kind, n in places
    ]
    return tag(
        "nav",
        tag("p", "In this run", class_="muted"),
        tag("ul", links),
        class_="where",
        aria_label="Where to look in this run",
    )


def _warnings(material: RunMaterial) -> Html:
    problems, why = material.document.judge_config_problems, material.document.why_unlabelled
    labels = callout(tag("p", "Scored by what needs no label: ", _data_text(why), ".")) if why else None
    judge = (
        callout(
            tag(
                "p", "The judge's scores cannot be compared over time: ", _data_text("; ".join(problems)), "."
            ),
        )
        if problems
        else None
    )
    return _join(_plausibility(material), stale_callout(material.states), labels, judge)


def _plausibility(material: RunMaterial) -> Html | None:
    """What labels know of the run's ids; loud only where nothing knows them."""
    told = material.document.plausibility_in_words
    if told is None:
        return None
    if material.document.state == IMPLAUSIBLE:
        return callout(tag("p", tag("strong", "Implausible: "), _data_text(told, most=1_000), "."))
    return tag("p", _data_text(told, most=400), ".", class_="note")


def _sections(material: RunMaterial) -> list[Section]:
    """The queries get what room the other parts leave."""
    document = material.document
    parts = list(_parts(material))
    if document.is_without_results:
        return parts
    formulas = Section("formulas", "Formulas", [formula_table([material.states], [""], material.links)])
    room = PAGE_BYTES - size_of([*parts, formulas])
    queries = Section("queries", "Queries", [_run_query_table(material, room=room), *_left_out(document)])
    return [*parts, queries, formulas]


def _parts(material: RunMaterial) -> Iterator[Section]:
    document = material.document
    yield Section("headlines", "Headlines", [_headlines(material)])
    if not document.is_without_results:
        yield Section("metrics", "All metrics", [_curves(material), _metric_table(material)])
        yield from _slices_section(material)
    if document.extraction is not None:
        content = extraction_section(document.extraction, material.field_errors, material.guide_version)
        yield Section("extraction", "Extraction", content)
    yield from latency_section(document.performance, material.latencies)
    yield from judge_section(document)
    if document.indexing is not None:
        yield Section("indexing", "Indexing", indexing_section(document.indexing))


def _headlines(material: RunMaterial) -> Html:
    """A few numbers of several kinds; the table below has all."""
    metrics, extraction = material.document.metrics, material.document.extraction
    facts = {one.key: one for one in material.metrics}
    has_extraction = bool(extraction is not None and extraction.eval_count)
    known = [key for key, entry in metrics.items() if entry.n and not _has_value_by_ids(key, metrics)]
    keys = _chosen(HEADLINES, known, most=len(HEADLINES))
    entries = [_headline(facts[key], metrics[key], material) for key in _of_each_family(keys, facts)][
        : MOST_TILES - has_extraction
    ]
    if extraction is not None and has_extraction:
        entries.append(
            (
                "extraction macro F1",
                value(extraction.macro.f1),
                f"target {extraction.target:.2f} {target_words(extraction.target_met)}",
            )
        )
    return tiles(entries) if entries else tag("p", "No headline metric is defined for this run.")


def _has_value_by_ids(key: str, metrics: Mapping[str, Metric]) -> bool:
    """Whether the metric matches by characters, and its counterpart by ids has a value."""
    by_ids = metrics.get(key.removesuffix(SPAN)) if key.endswith(SPAN) else None
    return by_ids is not None and bool(by_ids.n)


def _of_each_family(keys: Sequence[str], facts: Mapping[str, MetricFacts]) -> list[str]:
    """The first of each family before a second of any."""
    firsts: dict[str, str] = {}
    for key in keys:
        firsts.setdefault(facts[key].family, key)
    return [*firsts.values(), *(key for key in keys if key not in firsts.values())]


def _headline(one: MetricFacts, entry: Metric, material: RunMaterial) -> tuple[Child, Child, Child]:
    ends = _interval_of_mean(one, entry.value, entry.n)
    said = f"[{ends[0]:.2f}, {ends[1]:.2f}] · " if ends else ""
    state = state_badge(material.states.get(one.formula))
    n = material.document.coverage_of(one.key) or f"{entry.n:,}"
    return breakable_name(one.key), value(entry.value), _join(f"{said}n {n} ", state)


def _curves(material: RunMaterial) -> Html | None:
    ordered = [one.key for entries in _by_family(material.metrics).values() for one in entries]
    chart = _curve_chart(material.document.metrics, ordered)
    return _figure(chart) if chart else None


def _metric_table(material: RunMaterial) -> Html:
    metrics = material.document.metrics
    defined = [one for one in material.metrics if metrics[one.key].n]
    empty = [one for one in material.metrics if not metrics[one.key].n]
    states = material.states
    failed = [one for one in empty if one.formula in states and states[one.formula].state == "failed"]
    undefined = [one for one in empty if one not in failed]
    groups = [
        Group(family, [_metric_row(one, material) for one in entries])
        for family, entries in _by_family(defined).items()
    ]
    columns = [
        Column("metric"),
        Column("value", is_number=True),
        Column("n", is_number=True),
        Column("what it says", style="meaning"),
    ]
    return _join(
        data_table("metrics", "Mean over the queries that each metric applies to.", columns, groups),
        _failed(failed, material) if failed else None,
        _undefined(undefined, material.document.why_not_by_ids) if undefined else None,
    )


def _metric_row(one: MetricFacts, material: RunMaterial) -> Sequence[Child]:
    entry = material.document.metrics[one.key]
    remark = f"; {LOWER}" if one.direction == "lower" else ""
    return [
        _join(
            linked(metric_name(one.key), material.links.formula(one.formula)),
            " ",
            state_badge(material.states.get(one.formula)),
        ),
        value(entry.value),
        material.document.coverage_of(one.key) or f"{entry.n:,}",
        f"{one.meaning}{remark}",
    ]


def _failed(metrics: Sequence[MetricFacts], material: RunMaterial) -> Html:
    rows = [
        [metric_name(one.key), _data_text(material.states[one.formula].reason or "", most=400)]
        for one in metrics
    ]
    columns = [Column("metric"), Column("why it has no value", style="meaning")]
    return _join(
        tag("h3", "Failed here"),
        data_table("failed", "Metrics whose formula could not be computed for this run.", columns, rows),
    )


def _undefined(metrics: Sequence[MetricFacts], why_not_by_ids: str | None) -> Html:
    rows = [
        [
            metric_name(one.key),
            _join("applies where ", tag("code", " ".join(one.applies.split())))
            if one.applies
            else "needs recorded values",
            one.undefined or "",
        ]
        for one in metrics
    ]
    columns = [Column("metric"), Column("and no query here does"), Column("edge cases", style="meaning")]
    return _join(
        tag("h3", "Undefined here"),
        tag("p", "These are null, not 0: nothing in this run is what they ask about."),
        tag("p", "Metrics of chunk ids: ", _data_text(why_not_by_ids), ".") if why_not_by_ids else None,
        data_table("undefined", "Metrics without a query to apply to.", columns, rows),
    )


def _left_out(document: RunReport) -> Iterator[Html]:
    missing, unknown = document.missing_query_ids, document.unknown_query_ids
    for ids, title, remark in (
        (missing, "Missing", "Golden queries without a result; they count nowhere."),
        (unknown, "Unknown", "Results that no golden query knows; they are ignored."),
    ):
        if ids:
            yield _join(tag("h3", f"{title} ({len(ids):,})"), tag("p", remark), named_ids(ids))
