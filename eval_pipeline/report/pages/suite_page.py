"""The page of a suite: how its metrics went from night to night."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from eval_pipeline.report.comparison_rows import _by_family, _representatives
from eval_pipeline.report.numbers import NOTHING, value
from eval_pipeline.report.pages._about_runs import changed_settings, footer_line
from eval_pipeline.report.pages._page import Page, Section, render_page
from eval_pipeline.report.pages._widgets import Column, badge, data_table, more
from eval_pipeline.report.pages.figures import COLOURS, Chart, _altair, _figure, _specification_of
from eval_pipeline.report.pages.html import Child, Html, _data_text, _join, clipped, tag
from eval_pipeline.report.pages.material import GateMark, MetricFacts, SuiteMaterial, SuiteRun
from eval_pipeline.report.pages.run_charts import _label_of
from eval_pipeline.showing.headlines import HEADLINES
from eval_pipeline.words import count

COLUMNS: Final = 3
# Panels are laid out by their axes alone, so what stands around the outermost needs room of its own.
TRIM: Final = {"right": 12, "top": 34, "bottom": 26}
HEADLINE_PANELS: Final = 12
NO_SUITE: Final = "runs without a suite"
CHANGES_SHOWN: Final = 200
VALUE_SHOWN: Final = 100


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
    return alt.layer(*layers, *_points(known)).properties(width=250, height=90, title=_label_of(trend.metric))


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


def render_suite_page(suites: Sequence[SuiteMaterial]) -> str:
    """The whole page as text; several suites stand one below the other."""
    title = _name(suites[0]) if len(suites) == 1 else "All suites"
    return render_page(
        Page(
            kind="Evaluation over time",
            title=f"{title} · evaluation over time",
            heading=_data_text(title),
            lead=[_lead(suites)],
            sections=[
                section
                for place, one in enumerate(suites)
                for section in _sections(one, place, alone=len(suites) == 1)
            ],
            footer=[footer_line(format_number=1)],
        )
    )


def _name(suite: SuiteMaterial) -> str:
    return suite.suite if suite.suite is not None else NO_SUITE


def _lead(suites: Sequence[SuiteMaterial]) -> Html:
    runs = [run for one in suites for run in one.runs]
    nights = {(one.suite, one.dataset, run.night) for one in suites for run in one.runs}
    incomplete = sum(not run.is_complete for run in runs)
    said = f"{count(len(runs), 'run')} in {count(len(nights), 'night')}"
    said += f"; {count(incomplete, 'run')} incomplete" if incomplete else ""
    return tag("p", f"{said}.", class_="lead")


def _sections(suite: SuiteMaterial, place: int, *, alone: bool) -> Iterator[Section]:
    prefix = "" if alone else f"suite-{place + 1}-"
    of = "" if alone else f": {_name(suite)} on {suite.dataset}"
    trends = trends_of(suite)
    if trends:
        yield Section(f"{prefix}trends", f"Trends{of}", _trends(suite, trends, prefix))
    changes = list(_changes(suite))
    if changes:
        yield Section(f"{prefix}changes", f"Changes{of}", [_change_table(changes, prefix)])
    yield Section(f"{prefix}runs", f"Runs{of}", [_run_table(suite, prefix)])


def _shown_runs(suite: SuiteMaterial) -> list[SuiteRun]:
    """The last complete attempt of every night."""
    return [run for run in suite.runs if run.is_shown]


def trends_of(suite: SuiteMaterial) -> list[Trend]:
    """Every headline, then one key of every other formula, of what was ever defined."""
    runs = _shown_runs(suite)
    known = [one for one in suite.metrics if any(_value(run, one.key) is not None for run in runs)]
    headlines = [one for one in known if one.key in HEADLINES]
    covered = {one.formula for one in headlines}
    others = [one for one in _representatives(known) if one.formula not in covered]
    ordered = sorted(headlines, key=lambda one: HEADLINES.index(one.key)) + others
    return [_trend(one, runs, suite) for one in ordered]


def _value(run: SuiteRun, key: str) -> float | None:
    return run.values.get(key, (None, 0))[0]


def _trend(one: MetricFacts, runs: Sequence[SuiteRun], suite: SuiteMaterial) -> Trend:
    gate = suite.gate.get(one.key)
    baseline = next((run for run in suite.runs if run.facts.run_id == suite.baseline), None)
    points: list[TrendPoint] = []
    before: SuiteRun | None = None
    for run in runs:
        reference = baseline or before
        is_alike = reference is not None and not (one.is_chunk_level and _chunker(reference) != _chunker(run))
        limit = _bound(gate, _value(reference, one.key) if reference is not None and is_alike else None)
        definition_changed = before is not None and _definition_changed(before, run, one.formula)
        chunker_changed = before is not None and _chunker(before) != _chunker(run)
        is_broken = definition_changed or (chunker_changed and one.is_chunk_level)
        points.append(
            TrendPoint(
                night=run.night,
                run_id=run.facts.run_id,
                value=_value(run, one.key),
                n=run.values.get(one.key, (None, 0))[1],
                is_complete=run.is_complete,
                definition_changed=definition_changed,
                chunker_changed=chunker_changed,
                failed_gate=run.gate is not None and run.gate.metrics.get(one.key) == "fail",
                is_beyond_gate=_is_beyond(_value(run, one.key), limit, gate),
                segment=(points[-1].segment if points else 0) + is_broken,
            )
        )
        before = run
    bound = _bound(gate, _value(baseline, one.key) if baseline else None)
    return Trend(one.key, points, one.value_range, gate=bound)


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


def _definition_changed(before: SuiteRun, run: SuiteRun, formula: str) -> bool:
    old, new = before.fingerprints.get(formula), run.fingerprints.get(formula)
    return old is not None and new is not None and old != new


def _chunker(run: SuiteRun) -> str | None:
    version = run.facts.config.get("chunker_version")
    return None if version is None else str(version)


def _trends(suite: SuiteMaterial, trends: Sequence[Trend], prefix: str) -> list[Child]:
    headlines, others = trends[:HEADLINE_PANELS], trends[HEADLINE_PANELS:]
    return [
        tag("p", _legend(suite, trends)),
        _figure(_trend_chart(headlines, name=f"{prefix}trend", title="From night to night")),
        more(
            f"{len(others):,} more metrics",
            _figure(_trend_chart(others, name=f"{prefix}trend-more", title="The other metrics")),
        )
        if others
        else None,
        more("All numbers", _number_table(suite, prefix)),
    ]


def _legend(suite: SuiteMaterial, trends: Sequence[Trend]) -> str:
    points = [point for one in trends for point in one.points]
    said = ["Each night shows its last complete attempt."]
    if any(not point.is_complete for point in points):
        said.append("A hollow point is a night without a complete one.")
    if any(point.chunker_changed for point in points):
        said.append(
            "Dotted: the chunker changed; labels name the chunks of one, so metrics of expected chunks start anew."
        )
    if any(point.definition_changed for point in points):
        said.append("Dashed: the values before and after rest on different definitions.")
    if any(point.is_beyond_gate for point in points):
        against = f"the baseline {suite.baseline}" if suite.baseline else "the night before"
        said.append(
            f"An orange point is worse than {against} by more than the gate's margin, or misses its target; whether "
            "that can be chance is for the gate itself to say."
        )
    if any(point.failed_gate for point in points):
        said.append("A square around a point: the gate judged that night and failed it by this metric.")
    return " ".join(said)


def _number_table(suite: SuiteMaterial, prefix: str) -> Html:
    runs = _shown_runs(suite)
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
            tag("span", _data_text(run.facts.run_id), class_="id"),
            *(value(_value(run, one.key)) for one in ordered),
        ]
        for run in reversed(runs)
    ]
    return data_table(f"{prefix}numbers", "The newest night first.", columns, rows)


def _changes(suite: SuiteMaterial) -> Iterator[tuple[SuiteRun, str, list[str]]]:
    """(run, what changed, names) for every change from one shown night to the next, the newest first."""
    runs = _shown_runs(suite)
    formulas = sorted({one.formula for one in suite.metrics})
    for before, run in reversed(list(pairwise(runs))):
        for name, values in changed_settings(before.facts, run.facts).items():
            yield run, name, [" → ".join(clipped(one, VALUE_SHOWN) for one in values)]
        changed = [formula for formula in formulas if _definition_changed(before, run, formula)]
        if changed:
            yield run, "definitions behind the values", changed


def _change_table(changes: Sequence[tuple[SuiteRun, str, list[str]]], prefix: str) -> Html:
    rows: list[list[Child]] = [
        [
            run.night.isoformat(),
            tag("span", _data_text(run.facts.run_id), class_="id"),
            _data_text(what, most=VALUE_SHOWN),
            _data_text(", ".join(names), most=300),
        ]
        for run, what, names in changes[:CHANGES_SHOWN]
    ]
    columns = [
        Column("night", style="short"),
        Column("run"),
        Column("what changed", style="short"),
        Column("which", style="short"),
    ]
    caption = (
        "What changed since the night before, and may be why values moved. Under another definition they are not of "
        "one kind; nor are metrics of expected chunks under another chunker, or judge scores under another judge."
    )
    if len(changes) > CHANGES_SHOWN:
        caption += f" {len(changes) - CHANGES_SHOWN:,} older changes are left out."
    return data_table(f"{prefix}changes", caption, columns, rows)


def _run_table(suite: SuiteMaterial, prefix: str) -> Html:
    numbers = ("results", "missing", "failed", "in quarantine")
    columns = [
        Column("night", style="short"),
        Column("run"),
        Column("attempt", is_number=True),
        Column("state"),
    ]
    columns += [Column(name, is_number=True) for name in numbers]
    columns += [Column(name, style="short") for name in ("chunker", "commit")]
    rows = [_run_row(run) for run in reversed(suite.runs)]
    if any(run.gate for run in suite.runs):
        columns.append(Column("gate", style="short"))
        rows = [[*row, _gate(run)] for row, run in zip(rows, reversed(suite.runs), strict=True)]
    caption = f"The newest first, on {suite.dataset}." + (
        f" {suite.n_left_out:,} older runs are left out." if suite.n_left_out else ""
    )
    return data_table(f"{prefix}runs", caption, columns, rows)


def _run_row(run: SuiteRun) -> list[Child]:
    facts = run.facts
    commit = facts.commit_hash
    return [
        run.night.isoformat(),
        tag("span", _data_text(facts.run_id), class_="id"),
        NOTHING if facts.attempt is None else str(facts.attempt),
        _state(run),
        f"{run.n_results:,} of {run.n_golden:,}",
        f"{run.n_missing:,}" if run.n_missing else "·",
        f"{run.n_failed:,}" if run.n_failed else "·",
        f"{run.n_quarantined:,}" if run.n_quarantined else "·",
        _data_text(_chunker(run) or NOTHING, most=60),
        tag("span", _data_text(commit[:12]), class_="id") if commit else NOTHING,
    ]


def _gate(run: SuiteRun) -> Child:
    if run.gate is None:
        return NOTHING
    kind = {"pass": "good", "fail": "bad"}.get(run.gate.verdict)
    mark = badge(run.gate.verdict, kind) if kind else badge(run.gate.verdict)
    return _join(mark, " against ", tag("span", _data_text(run.gate.baseline), class_="id"))


def _state(run: SuiteRun) -> Html:
    badges = []
    if run.is_complete:
        badges.append(badge("complete", "good"))
    elif run.n_golden == 0:
        badges.append(badge("waits for its golden set", "bad"))
    else:
        badges.append(badge("incomplete", "bad"))
    if run.replaced_by is not None:
        badges.append(badge("replaced"))
    elif not run.is_shown:
        badges.append(badge("not the last attempt"))
    if run.n_stale:
        badges.append(badge(f"{run.n_stale:,} stale", "bad"))
    return _join(*(piece for one in badges for piece in (one, " ")))
