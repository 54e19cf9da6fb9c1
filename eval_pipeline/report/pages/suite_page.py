"""The page of a suite: how its metrics went from night to night."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from eval_pipeline.report.nights._changes import change_table, changes_of
from eval_pipeline.report.nights._chosen import runs_section
from eval_pipeline.report.nights._matrix import question_section
from eval_pipeline.report.nights._newest import newest_night
from eval_pipeline.report.nights._strip import nights_section
from eval_pipeline.report.nights.trends import _trend_section, trends_of
from eval_pipeline.report.pages._about_runs import footer_line
from eval_pipeline.report.pages._page import Page, Section, render_page
from eval_pipeline.report.pages.html import Html, _data_text, tag
from eval_pipeline.report.pages.material import SuiteMaterial
from eval_pipeline.words import count

NO_SUITE: Final = "runs without a suite"


def render_suite_page(suites: Sequence[SuiteMaterial]) -> str:
    """The whole page as text; several suites stand one below the other."""
    alone = len(suites) == 1
    title = _name(suites[0]) if alone else "All suites"
    return render_page(
        Page(
            kind="Evaluation over time",
            title=f"{title} · evaluation over time",
            heading=_data_text(title),
            lead=[_lead(suites), *(newest_night(suites[0]) if alone else [])],
            sections=[
                section
                for place, one in enumerate(suites)
                for section in _sections(one, place, alone=alone)
                if section.content
            ],
            footer=[footer_line(format_number=1)],
            crumbs=[("all runs", suites[0].links.home())],
        )
    )


def _name(suite: SuiteMaterial) -> str:
    return suite.suite if suite.suite is not None else NO_SUITE


def _lead(suites: Sequence[SuiteMaterial]) -> Html:
    """Of everything in the store, however much of it is drawn below."""
    n_runs = sum(len(one.runs) + one.n_left_out for one in suites)
    n_nights = sum(len({night.night for night in one.nights}) for one in suites)
    incomplete = sum(one.n_incomplete for one in suites)
    said = f"{count(n_runs, 'run')} in {count(n_nights, 'night')}"
    said += f" on {suites[0].dataset}" if len(suites) == 1 else ""
    said += f"; {count(incomplete, 'run')} incomplete" if incomplete else ""
    return tag("p", _data_text(f"{said}."), class_="muted")


def _sections(suite: SuiteMaterial, place: int, *, alone: bool) -> Iterator[Section]:
    prefix = "" if alone else f"suite-{place + 1}-"
    of = "" if alone else f": {_name(suite)} on {suite.dataset}"
    if not alone:
        yield Section(f"{prefix}newest", f"The newest night{of}", newest_night(suite))
    yield Section(f"{prefix}nights", f"Nights{of}", nights_section(suite))
    changes = changes_of(suite)
    trends = trends_of(suite, changes)
    if trends:
        yield Section(f"{prefix}trends", f"Trends{of}", _trend_section(suite, trends, prefix))
    if changes:
        yield Section(f"{prefix}changes", f"What changed{of}", [change_table(suite, changes, prefix)])
    yield Section(f"{prefix}questions", f"Questions by nights{of}", question_section(suite, prefix))
    yield Section(f"{prefix}runs", f"Runs{of}", runs_section(suite, prefix))
