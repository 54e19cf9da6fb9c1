"""The page of one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from eval_pipeline.report.about_runs import (
    footer_line,
    formula_table,
    run_facts,
    stale_callout,
    state_badge,
)
from eval_pipeline.report.families import HEADLINES, by_family, chosen
from eval_pipeline.report.figures import figure
from eval_pipeline.report.markup import Child, Html, data_text, join, tag
from eval_pipeline.report.material import MetricFacts, RunMaterial
from eval_pipeline.report.numbers import value
from eval_pipeline.report.page import Page, Section, render_page, size_of
from eval_pipeline.report.parts import (
    Column,
    Group,
    breakable_name,
    callout,
    data_table,
    facts_list,
    metric_name,
    named_ids,
    tiles,
)
from eval_pipeline.report.queries import PAGE_BYTES
from eval_pipeline.report.run_blocks import (
    extraction_section,
    indexing_section,
    judge_section,
    latency_section,
)
from eval_pipeline.report.run_charts import curve_chart
from eval_pipeline.report.run_queries import run_query_table
from eval_pipeline.report.run_slices import slices_section
from eval_pipeline.words import count

LOWER: Final = "lower is better"


def render_run_page(material: RunMaterial) -> str:
    """The whole page as text."""
    document = material.document
    run_id = document["run_id"]
    return render_page(
        Page(
            kind="Evaluation run",
            title=f"{run_id} · evaluation run",
            heading=data_text(run_id),
            lead=[_lead(material), facts_list(run_facts(material.facts)), _warnings(material)],
            sections=_sections(material),
            footer=[footer_line(document["format"])],
        )
    )


def _lead(material: RunMaterial) -> Html:
    document = material.document
    total, failed = document["total_queries"], document["failed_queries"]
    missing, unknown = len(document["missing_query_ids"]), len(document["unknown_query_ids"])
    said = [
        f"{count(total, 'query', plural='queries')} answered",
        f"{failed:,} of them failed" if failed else "none failed",
    ]
    if missing:
        said.append(f"{missing:,} without a result")
    if unknown:
        said.append(f"{unknown:,} results that no golden query knows")
    return tag("p", ", ".join(said) + ".", class_="lead")


def _warnings(material: RunMaterial) -> Html:
    problems = material.document["judge_config_problems"]
    judge = (
        callout(
            tag(
                "p", "The judge's scores cannot be compared over time: ", data_text("; ".join(problems)), "."
            ),
            is_warning=True,
        )
        if problems
        else None
    )
    return join(stale_callout(material.states), judge)


def _sections(material: RunMaterial) -> list[Section]:
    """The queries get what room the other parts leave."""
    document = material.document
    parts = list(_parts(material))
    formulas = Section("formulas", "Formulas", [formula_table([material.states], [""])])
    room = PAGE_BYTES - size_of([*parts, formulas])
    queries = Section("queries", "Queries", [run_query_table(material, room=room), *_left_out(document)])
    return [*parts, queries, formulas]


def _parts(material: RunMaterial) -> Iterator[Section]:
    document = material.document
    yield Section("headlines", "Headlines", [_headlines(material)])
    yield Section("metrics", "All metrics", [_curves(material), _metric_table(material)])
    yield from slices_section(material)
    if document["extraction"] is not None:
        content = extraction_section(document["extraction"], material.field_errors)
        yield Section("extraction", "Extraction", content)
    yield from latency_section(document["performance"], material.latencies)
    yield from judge_section(document)
    if document["indexing"] is not None:
        yield Section("indexing", "Indexing", indexing_section(document["indexing"]))


def _headlines(material: RunMaterial) -> Html:
    metrics = material.document["metrics"]
    facts = {one.key: one for one in material.metrics}
    keys = chosen(HEADLINES, [key for key, entry in metrics.items() if entry["n"]], most=len(HEADLINES))
    if not keys:
        return tag("p", "No headline metric is defined for this run.")
    entries: list[tuple[Child, Child, Child]] = [
        (
            breakable_name(key),
            value(metrics[key]["value"]),
            join(f"n {metrics[key]['n']:,} ", state_badge(material.states.get(facts[key].formula))),
        )
        for key in keys
    ]
    extraction = material.document["extraction"]
    if extraction is not None and extraction["eval_count"]:
        met = "met" if extraction["target_met"] else "not met"
        entries.append(
            (
                "extraction macro F1",
                value(extraction["macro"]["f1"]),
                f"target {extraction['target']:.2f} {met}",
            )
        )
    return tiles(entries)


def _curves(material: RunMaterial) -> Html | None:
    ordered = [one.key for entries in by_family(material.metrics).values() for one in entries]
    chart = curve_chart(material.document["metrics"], ordered)
    return figure(chart) if chart else None


def _metric_table(material: RunMaterial) -> Html:
    metrics = material.document["metrics"]
    defined = [one for one in material.metrics if metrics[one.key]["n"]]
    undefined = [one for one in material.metrics if not metrics[one.key]["n"]]
    groups = [
        Group(family, [_metric_row(one, material) for one in entries])
        for family, entries in by_family(defined).items()
    ]
    columns = [
        Column("metric"),
        Column("value", is_number=True),
        Column("n", is_number=True),
        Column("what it says", style="meaning"),
    ]
    return join(
        data_table("metrics", "Mean over the queries that each metric applies to.", columns, groups),
        _undefined(undefined) if undefined else None,
    )


def _metric_row(one: MetricFacts, material: RunMaterial) -> Sequence[Child]:
    entry = material.document["metrics"][one.key]
    remark = f"; {LOWER}" if one.direction == "lower" else ""
    return [
        join(metric_name(one.key), " ", state_badge(material.states.get(one.formula))),
        value(entry["value"]),
        f"{entry['n']:,}",
        f"{one.meaning}{remark}",
    ]


def _undefined(metrics: Sequence[MetricFacts]) -> Html:
    rows = [
        [
            metric_name(one.key),
            join("applies where ", tag("code", " ".join(one.applies.split())))
            if one.applies
            else "needs recorded values",
            one.undefined or "",
        ]
        for one in metrics
    ]
    columns = [Column("metric"), Column("and no query here does"), Column("edge cases", style="meaning")]
    return join(
        tag("h3", "Undefined here"),
        tag("p", "These are null, not 0: nothing in this run is what they ask about."),
        data_table("undefined", "Metrics without a query to apply to.", columns, rows),
    )


def _left_out(document: Mapping[str, Any]) -> Iterator[Html]:
    for name, title, remark in (
        ("missing_query_ids", "Missing", "Golden queries without a result; they count nowhere."),
        ("unknown_query_ids", "Unknown", "Results that no golden query knows; they are ignored."),
    ):
        ids = document[name]
        if ids:
            yield join(tag("h3", f"{title} ({len(ids):,})"), tag("p", remark), named_ids(ids))
