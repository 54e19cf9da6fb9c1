"""The page of one question over all its nights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final

from eval_pipeline.report.numbers import NOTHING, rank, value
from eval_pipeline.report.pages._about_runs import footer_line
from eval_pipeline.report.pages._page import Page, Section, render_page
from eval_pipeline.report.pages._queries import ID_LENGTH, LONG_TEXT, address_of, labelled_text
from eval_pipeline.report.pages._widgets import Column, badge, breakable_name, data_table, linked
from eval_pipeline.report.pages.html import Child, Html, _data_text, _join, clipped, tag
from eval_pipeline.report.site._material import Asked, LabelState, QuestionMaterial
from eval_pipeline.report.site._rank_chart import rank_figure
from eval_pipeline.report.site._style import site_style
from eval_pipeline.words import count

ANSWERS_SHOWN: Final = 30
CHART_SUITES: Final = 3
TITLE_LENGTH: Final = 80


def render_question_page(material: QuestionMaterial) -> str:
    """The whole page as text."""
    links = material.links
    return render_page(
        Page(
            kind=f"Question of {material.dataset}",
            title=f"{clipped(material.query_id, TITLE_LENGTH)} · question",
            heading=tag("span", clipped(material.question, LONG_TEXT), dir="auto")
            if material.question
            else _data_text(material.query_id, most=ID_LENGTH),
            lead=[tag("p", _data_text(material.query_id, most=ID_LENGTH), class_="id"), _lead(material)],
            sections=list(_sections(material)),
            footer=[footer_line(1)],
            crumbs=[
                ("all runs", links.home()),
                (f"questions of {material.dataset}", links.questions(material.dataset)),
            ],
            style=site_style(),
        )
    )


def _lead(material: QuestionMaterial) -> Html:
    return tag("p", f"{_in_words(material.asked)}.", class_="lead")


def _in_words(asked: Sequence[Asked]) -> str:
    scored = [one for one in asked if one.is_scored and one.run.is_last_complete]
    if not asked:
        return "No run that is shown answered it"
    if not scored:
        return f"Answered by {count(len(asked), 'run')}, in no night that is complete and scored by labels"
    said = [f"Asked in {count(len(scored), 'complete night')}"]
    labelled = [one for one in scored if one.is_ranked]
    if labelled:
        places = [one.first_rank for one in labelled if one.first_rank is not None]
        said.append(f"an expected chunk found in {len(places):,} of {len(labelled):,}{_between(places)}")
    failed = sum(bool(one.is_failed) for one in scored)
    said.append(f"failed in {failed:,}" if failed else "never failed")
    flips = sum((a.first_rank is None) != (b.first_rank is None) for a, b in pairwise(labelled))
    if flips:
        said.append(f"{count(flips, 'change')} between found and not found")
    return ", ".join(said)


def _between(places: Sequence[int]) -> str:
    if not places:
        return ""
    low, high = min(places), max(places)
    return f" (rank {low})" if low == high else f" (rank {low} to {high})"


def _sections(material: QuestionMaterial) -> Iterator[Section]:
    if material.asked:
        yield Section("nights", "Nights", [*_charts(material), _night_table(material)])
    yield Section("expected", "Expected", [_expected(material)])
    if material.with_text and any(one.answer or one.error for one in material.asked):
        yield Section("answers", "Answers", list(_answers(material)))
    if material.labels:
        yield Section("labels", "Labels over time", [_label_table(material.labels)])


def _charts(material: QuestionMaterial) -> Iterator[Html]:
    """One per suite: what is compared from night to night."""
    shown = [one for one in material.asked if one.run.is_last_complete and one.is_ranked]
    suites = list(dict.fromkeys(one.run.suite for one in shown))
    for place, suite in enumerate(suites[:CHART_SUITES]):
        nights = [one for one in shown if one.run.suite == suite][::-1]
        if len(nights) > 1:
            yield rank_figure(nights, name=f"rank-{place + 1}", suite=suite)


def _night_table(material: QuestionMaterial) -> Html:
    columns = [
        Column("night", style="short"),
        Column("run"),
        Column("what became of it", style="short"),
        Column("rank", is_number=True),
        *(
            Column(linked(breakable_name(key), material.links.formula(formula)), is_number=True)
            for key, formula in material.metrics.items()
        ),
        Column("against the night before"),
    ]
    rows = [_night_row(one, material) for one in material.asked]
    caption = "The newest first. Rank: where the first expected chunk stands."
    if any(not one.run.is_last_complete for one in material.asked):
        caption += " Runs that are not their night's answer are marked."
    return data_table("nights", caption, columns, rows)


def _night_row(one: Asked, material: QuestionMaterial) -> list[Child]:
    place = f"#{address_of(material.query_id)}"
    run = material.links.run(one.run.run_id)
    anchor = place if one.is_failed is not None else ""
    return [
        one.run.night.isoformat(),
        _join(
            tag("span", linked(_data_text(one.run.run_id), run and run + anchor), class_="id"),
            None if one.run.is_last_complete else _join(" ", badge("not its night's answer")),
        ),
        _became(one),
        rank(one.first_rank) if one.is_ranked else NOTHING,
        *(value(one.values.get(key)) for key in material.metrics),
        _before(one, material, place),
    ]


def _became(one: Asked) -> Html:
    if one.is_failed is None:
        return badge("not asked by the labels in force")
    if one.is_failed:
        return badge("failed", "bad")
    if not one.is_judged:
        return badge("not judged: nothing knows the run's ids")
    if not one.n_expected:
        return badge("no expected chunk")
    return badge("not found", "bad") if one.first_rank is None else badge("found", "good")


def _before(one: Asked, material: QuestionMaterial, place: str) -> Child:
    """The pair's page, at this question where both runs were asked it."""
    if one.before is None:
        return NOTHING
    address = material.links.pair(one.before, one.run.run_id)
    scored = {other.run.run_id for other in material.asked if other.is_failed is not None}
    anchor = place if {one.before, one.run.run_id} <= scored else ""
    return tag("span", linked(_data_text(one.before), address and address + anchor), class_="id")


def _expected(material: QuestionMaterial) -> Html:
    if not material.expected:
        return tag("p", "The labels in force expect no chunk.")
    items = [
        tag(
            "li",
            tag("span", _data_text(one.chunk_id, most=ID_LENGTH), class_="id"),
            tag("span", clipped(one.text, LONG_TEXT), class_="text", dir="auto")
            if material.with_text and one.text
            else None,
        )
        for one in material.expected
    ]
    return tag("div", tag("ul", items), class_="sides")


def _answers(material: QuestionMaterial) -> Iterator[Html]:
    """Runs one after the other that said the same stand together."""
    groups = [list(same) for _, same in groupby(material.asked, key=lambda one: (one.answer, one.error))]
    for same in groups[:ANSWERS_SHOWN]:
        newest, oldest = same[0].run, same[-1].run
        nights = str(newest.night) if len(same) == 1 else f"{newest.night} back to {oldest.night}"
        yield tag(
            "div",
            tag("p", f"{nights}, {count(len(same), 'run')}", class_="heading"),
            labelled_text("Error", same[0].error),
            tag("p", clipped(same[0].answer, LONG_TEXT), dir="auto", class_="answer")
            if same[0].answer
            else tag("p", "no answer", class_="note"),
            class_="sides",
        )
    if len(groups) > ANSWERS_SHOWN:
        yield tag("p", f"{len(groups) - ANSWERS_SHOWN:,} older answers are left out.", class_="note")


def _label_table(states: Sequence[LabelState]) -> Html:
    """What each golden set changed, the newest first; the oldest says all that it had."""
    rows: list[list[Child]] = []
    for new, old in zip(states, [*states[1:], None], strict=True):
        before = old.labels if old else {}
        changed = [name for name in {**before, **new.labels} if before.get(name) != new.labels.get(name)]
        for name in changed:
            sides = (before.get(name), new.labels.get(name))
            rows.append([f"{new.loaded_at:%Y-%m-%d %H:%M}", name, *(_label(one) for one in sides)])
    columns = [
        Column("loaded (UTC)", style="short"),
        Column("label"),
        Column("before"),
        Column("from then on"),
    ]
    return data_table("labels", "What golden sets said of it, and what changed with each.", columns, rows)


def _label(text: str | None) -> Child:
    return NOTHING if text is None else _data_text(text, most=LONG_TEXT)
