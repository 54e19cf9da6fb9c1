"""The first page, and the list of a dataset's questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from eval_pipeline.formulas.catalogue import CORE, CORE_BY_SPAN
from eval_pipeline.report.numbers import NOTHING, value
from eval_pipeline.report.pages._about_runs import footer_line
from eval_pipeline.report.pages._page import Page, Section, render_page
from eval_pipeline.report.pages._queries import ID_LENGTH, QUESTION_LENGTH
from eval_pipeline.report.pages._widgets import Column, badge, data_table, linked
from eval_pipeline.report.pages.html import Child, Html, _data_text, _join, clipped, tag
from eval_pipeline.report.site._forms import pair_form, search_form
from eval_pipeline.report.site._material import IndexMaterial, IndexRun, IndexSuite, QuestionsMaterial
from eval_pipeline.report.site._style import site_style
from eval_pipeline.words import count

GATE_MOODS: Final = {"pass": "good", "fail": "bad"}


def render_index_page(material: IndexMaterial) -> str:
    """The whole page as text."""
    runs = sum(one.n_runs for one in material.suites)
    lead = (
        f"{count(runs, 'run')} in {count(len(material.suites), 'suite')}." if runs else "There is no run yet."
    )
    return render_page(
        Page(
            kind="Evaluation",
            title="All runs · evaluation",
            heading="All runs",
            lead=[tag("p", lead, class_="lead"), *_forms(material)],
            sections=list(_sections(material)),
            footer=[footer_line(1)],
            style=site_style(),
            asks=bool(material.links.forms()),
        )
    )


def _forms(material: IndexMaterial) -> Iterator[Html | None]:
    forms = material.links.forms()
    runs = [one.run.run_id for suite in material.suites for one in suite.runs]
    if "search" in forms:
        yield search_form(forms["search"])
    if "pair" in forms and len(runs) > 1:
        yield pair_form(forms["pair"], runs)
    if "sql" in forms:
        yield tag("p", tag("a", "Ask the store in SQL", href=forms["sql"]))


def _sections(material: IndexMaterial) -> Iterator[Section]:
    if material.suites:
        yield Section("suites", "Suites", [_suite_table(material)])
    for place, suite in enumerate(material.suites):
        name = f"runs-{place + 1}"
        yield Section(name, f"Runs: {_name(suite)}", [_run_table(suite, material, name)])
    if material.datasets:
        yield Section("questions", "Questions", [_dataset_table(material)])
    yield Section("formulas", "Formulas", [_formula_table(material)])


def _name(suite: IndexSuite) -> str:
    return f"{suite.suite or 'no suite'} on {suite.dataset}"


def _suite_table(material: IndexMaterial) -> Html:
    rows: list[list[Child]] = [
        [
            linked(_data_text(_name(suite)), material.links.suite(suite.suite, suite.dataset)),
            max(one.run.night for one in suite.runs).isoformat(),
            _verdict(suite, material),
        ]
        for suite in material.suites
    ]
    columns = [Column("suite"), Column("newest night", style="short"), Column("its verdict", style="meaning")]
    caption = "The newest complete night of each suite against the one before."
    return data_table("suites", caption, columns, rows)


def _verdict(suite: IndexSuite, material: IndexMaterial) -> Child:
    if suite.verdict_pair is None:
        return "no two complete nights to compare"
    before, run = suite.verdict_pair
    address = material.links.pair(before, run)
    names = linked(_join(_data_text(run), " against ", _data_text(before)), address)
    if suite.verdict is None:
        return _join(names, ": not compared by the nightly run yet" if address is None else None)
    mood = suite.verdict.mood
    head = badge(suite.verdict.word, mood)
    return _join(head, " ", names, ". ", _data_text(suite.verdict.sentence, most=400))


def _run_table(suite: IndexSuite, material: IndexMaterial, name: str) -> Html:
    keys = [*CORE, *(key for key in CORE_BY_SPAN if any(key in one.values for one in suite.runs))]
    columns = [
        Column("night", style="short"),
        Column("run"),
        Column("state", style="short"),
        *(Column(key, is_number=True) for key in keys),
        Column("failed", is_number=True),
        Column("compared with", style="short"),
        Column("gate"),
    ]
    left_out = suite.n_runs - len(suite.runs)
    caption = "The newest first." + (f" {left_out:,} older runs are left out." if left_out else "")
    return data_table(name, caption, columns, [_run_row(one, material, keys) for one in suite.runs])


def _run_row(one: IndexRun, material: IndexMaterial, keys: Sequence[str]) -> list[Child]:
    run = one.run
    return [
        run.night.isoformat(),
        tag("span", linked(_data_text(run.run_id), material.links.run(run.run_id)), class_="id"),
        _state(one),
        *(value(one.values.get(key, (None, 0))[0]) for key in keys),
        f"{run.n_failed:,}" if run.n_failed else "·",
        _pairs(one, material),
        badge(one.gate, GATE_MOODS.get(one.gate)) if one.gate else NOTHING,
    ]


def _state(one: IndexRun) -> Html:
    if not one.is_judged:
        return badge("implausible: nothing knows its ids", "bad")
    if not one.run.is_complete:
        return badge("incomplete", "bad")
    if one.run.is_last_complete:
        return badge("complete", "good")
    return badge("replaced" if one.run.superseded_by else "not its night's answer")


def _pairs(one: IndexRun, material: IndexMaterial) -> Child:
    """The night before and the baseline, as far as there are pages."""
    found = dict.fromkeys(other for other in (one.before, one.baseline) if other)
    names = {one.before: "night before", one.baseline: "baseline"}
    if one.before == one.baseline:
        names = {one.before: "night before, the baseline"}
    pieces: list[Child] = []
    for other in found:
        address = material.links.pair(other, one.run.run_id)
        if address is not None:
            pieces += [" · " if pieces else None, tag("a", names[other], href=address)]
    return _join(pieces) if pieces else NOTHING


def _dataset_table(material: IndexMaterial) -> Html:
    rows: list[list[Child]] = [
        [linked(_data_text(dataset), material.links.questions(dataset)), f"{n:,}"]
        for dataset, n in material.datasets
    ]
    columns = [Column("dataset"), Column("questions", is_number=True)]
    return data_table("datasets", "Each question with its history over all nights.", columns, rows)


def _formula_table(material: IndexMaterial) -> Html:
    rows: list[list[Child]] = [
        [tag("span", linked(_data_text(name), material.links.formula(name)), class_="id"), keys, meaning]
        for name, keys, meaning in material.formulas
    ]
    columns = [Column("formula"), Column("metrics"), Column("what it says", style="meaning")]
    return data_table("formulas", "What every number is computed by.", columns, rows)


def render_questions_page(material: QuestionsMaterial) -> str:
    """The list as a page."""
    return render_page(
        Page(
            kind="Questions",
            title=f"{material.dataset} · questions",
            heading=_data_text(f"Questions of {material.dataset}"),
            lead=[tag("p", f"{count(len(material.questions), 'question')}.", class_="lead")],
            sections=[Section("questions", "Questions", [_question_table(material)])],
            footer=[footer_line(1)],
            crumbs=[("all runs", material.links.home())],
            style=site_style(),
        )
    )


def _question_table(material: QuestionsMaterial) -> Html:
    rows: list[Sequence[Child]] = []
    for query_id, text in material.questions:
        name = linked(
            _data_text(query_id, most=ID_LENGTH), material.links.question(material.dataset, query_id)
        )
        asked = tag("span", clipped(text, QUESTION_LENGTH), dir="auto") if text else NOTHING
        rows.append([tag("span", name, class_="id"), asked])
    return data_table(
        "questions", "In the order of the golden set.", [Column("id"), Column("question")], rows
    )
