"""The page of a suite: its newest night first, the gate's word on every night, what changed, questions by nights."""

from __future__ import annotations

import datetime as dt
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from eval_pipeline.comparing.compare import compare
from eval_pipeline.comparing.pair_states import PAIR_FACTS
from eval_pipeline.report.links import Links, SiteLinks
from eval_pipeline.report.pages.collect import read_suites, suite_page
from eval_pipeline.report.pages.material import Night, QuestionRanks, RankMatrix, SuiteMaterial
from eval_pipeline.report.pages.suite_page import render_suite_page
from eval_pipeline.report.verdict import verdict_on
from eval_pipeline.settings import Settings
from tests.comparing.pairs_of_runs import answered, expecting_one, ranked, store_of
from tests.projects import project_of
from tests.report.hostile_world import World
from tests.report.page_reader import PageReader
from tests.report.test_page_suite_trends import FIRST, a_run, a_suite

LIMIT = 2_000_000


class Everything(Links):
    """As of a server that makes every page."""

    def run(self, run_id: str) -> str | None:
        return f"/runs/{run_id}"

    def any_pair(self) -> str | None:
        return "/pairs/{a}/{b}"


def read(*suites: SuiteMaterial) -> PageReader:
    return PageReader(render_suite_page(suites))


def a_night(day: int, verdict: str, name: str | None = None) -> Night:
    return Night(name or f"night-{day}", FIRST + dt.timedelta(days=day), verdict)


def test_the_newest_night_is_judged_in_the_words_of_its_comparisons(
    report_world: World, readers: dict[str, PageReader]
) -> None:
    project = project_of(report_world.settings, report_world.registry)
    before = verdict_on(compare(project, "run-c", "run-d"))
    assert before.sentence in readers["suite"].text
    assert f"Trust: {before.trust}" in readers["suite"].text
    assert "Against the night before, run-c" in readers["suite"].text
    assert "No baseline is named" in readers["suite"].text


def test_the_newest_night_is_held_against_the_baseline_too(ranked_nights: Settings, tmp_path: Path) -> None:
    config = tmp_path / "eval-pipeline.toml"
    config.write_text('[baselines]\nnightly = "n1"\n', "utf-8")
    project = project_of(replace(ranked_nights, config=config))
    said = verdict_on(compare(project, "n1", "n3")).sentence
    page = PageReader(suite_page(project)).text
    assert "5 September has no complete run" in page
    assert f"Against the baseline, n1. {said}" in page
    assert "Against the night before, other." in page


def test_a_first_night_and_a_night_without_an_answer_are_called_what_they_are() -> None:
    alone = read(a_suite(a_run("one", 0, is_answer=True), nights=[a_night(0, "not judged", "one")]))
    assert "It is the first night" in alone.text
    late = a_suite(
        a_run("one", 0, is_answer=True),
        a_run("two", 1, n_results=3),
        nights=[a_night(0, "not judged", "one"), a_night(1, "incomplete", "two")],
    )
    assert "2 September has no complete run" in read(late).text
    assert "nothing to judge" in read(a_suite(a_run("two", 1, n_results=3))).text


def test_several_suites_stand_below_each_other_each_with_its_own_newest_night() -> None:
    one = a_suite(a_run("one", 0, is_answer=True), nights=[a_night(0, "pass", "one")])
    page = read(one, replace(one, suite="weekly", nights=[a_night(0, "fail", "one")]))
    ids = [one.attributes["id"] for one in page.elements if "id" in one.attributes]
    assert len(ids) == len(set(ids))
    assert {"suite-1-newest", "suite-2-newest", "suite-2-nights"} <= set(ids)
    assert "2 runs in 2 nights" in page.text


def test_each_night_has_a_cell_and_its_verdict_in_words() -> None:
    verdicts = ["pass", "fail", "pass", "inconclusive", "incomplete", "pass"]
    nights = [a_night(day, verdict) for day, verdict in enumerate(verdicts)]
    page = read(a_suite(a_run("one", 0), nights=nights))
    assert "6 nights: 1 fail, 1 inconclusive, 1 incomplete, 3 pass." in page.text
    assert "fail 2 · inconclusive 4 · incomplete 5 · pass the other 3 nights" in page.text
    titles = [str(one.attributes["title"]) for one in page.named("span") if "title" in one.attributes]
    assert titles == [
        f"{one.night.isoformat()} {one.verdict}: {one.run_id}"
        for one in sorted(nights, key=lambda one: one.night)
    ]


def test_every_page_that_there_is_can_be_reached_and_no_other() -> None:
    site = SiteLinks(frozenset(["index.html", "runs/one.html", "pairs/one..two.html", "questions/d/q1.html"]))
    ranks = RankMatrix([a_night(0, "pass", "one")], [QuestionRanks("q1", "Why?", 0, "1")], 1, 1, 1)
    suite = a_suite(
        a_run("one", 0),
        a_run("two", 1),
        nights=[a_night(0, "pass", "one"), a_night(1, "fail", "two")],
        ranks=ranks,
        links=site,
    )
    page = read(suite)
    leads = {str(one.attributes["href"]) for one in page.named("a")} - {""}
    assert {one for one in leads if not one.startswith("#")} == {
        "../index.html",
        "../runs/one.html",
        "../questions/d/q1.html",
    }
    (known,) = [json.loads(text) for attributes, text in page.scripts if attributes.get("id") == "pairs"]
    # By their places in the table, which begins with the newest.
    assert known == {"known": {"1 0": "../pairs/one..two.html"}}


def test_where_any_two_runs_have_a_page_the_form_knows_how_it_is_addressed() -> None:
    page = read(a_suite(a_run("one", 0), links=Everything()))
    (known,) = [json.loads(text) for attributes, text in page.scripts if attributes.get("id") == "pairs"]
    assert known == {"any": "/pairs/{a}/{b}"}


@pytest.fixture(scope="module")
def ranked_nights(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Four nights and, in between, one of another chunker, which finds nothing."""
    far = ranked(*(f"doc/{place}" for place in range(2, 13)), "doc/1")
    nights = {
        "n1": {"q0000": answered(True), "q0001": answered(True), "q0002": answered(True)},
        "n2": {"q0000": answered(False), "q0001": ranked("doc/x", "doc/1"), "q0002": answered(True)},
        "other": {"q0000": answered(False), "q0001": answered(False), "q0002": answered(False)},
        "n3": {"q0000": answered(True), "q0001": far, "q0002": answered(True)},
        "n4": {"q0000": answered(False, error="late"), "q0001": answered(True)},
    }
    golden = [{**row, "query": f"Question {row['query_id']}?"} for row in expecting_one(3)]
    return store_of(
        tmp_path_factory.mktemp("ranked"),
        golden,
        nights,
        config={"other": {"chunker_version": "v2"}},
        definitions=PAIR_FACTS,
    )


def suite_of(settings: Settings) -> SuiteMaterial:
    (suite,) = read_suites(project_of(settings))
    return suite


def test_questions_stand_by_their_flips_with_the_newest_night_first(ranked_nights: Settings) -> None:
    page = read(suite_of(ranked_nights))
    rows = {name.split()[-1]: cells for name, cells in page.rows("questions-table").items()}
    assert list(rows)[1:] == ["q0000", "q0001", "q0002"]
    # An incomplete night stands in its place: that it did not ask a question is no flip.
    assert rows["q0000"] == ["3", "failed", "!1·–1"]
    assert rows["q0001"] == ["0", "1", "1+·21"]
    assert rows["q0002"] == ["0", "no result", "·1·11"]
    assert "3 of 3 questions that expect a chunk" in page.text


def test_questions_can_be_left_out_of_the_page(ranked_nights: Settings) -> None:
    assert "Question q0000?" in read(suite_of(ranked_nights)).text
    assert "Question" not in read(replace(suite_of(ranked_nights), with_text=False)).text.replace(
        "Questions", ""
    )


def test_another_golden_set_and_other_labels_are_changes_with_a_number() -> None:
    one = replace(a_run("one", 0), golden="version 1 (9 questions)", labels={"hit_at_k": "x", "other": "x"})
    two = replace(a_run("two", 1), golden="version 2 (10 questions)", labels={"hit_at_k": "y", "other": "x"})
    page = read(a_suite(one, two, a_run("three", 2, chunker="v2")))
    assert page.tables["changes-table"][1:] == [
        ["2", "2026-09-03", "three", "chunker", "v1 → v2"],
        ["1", "2026-09-02", "two", "labels behind the values", "hit_at_k"],
        [
            "1",
            "2026-09-02",
            "two",
            "golden set",
            "version 1 (9 questions) → version 2 (10 questions)",
        ],
    ]


def test_the_axis_of_a_chart_is_fitted_to_what_is_drawn() -> None:
    values = [0.90, 0.91, 0.92]
    runs = [
        replace(a_run(f"run-{day}", day), values={"hit@5": (value, 2_000)})
        for day, value in enumerate(values)
    ]
    page = render_suite_page([a_suite(*runs)])
    ticks = [float(text) for text in re.findall(r"<text[^>]*>(0?\.\d+|[01])</text>", page)]
    assert ticks
    assert all(0.85 < tick < 0.95 for tick in ticks)


def test_thousands_of_nights_stay_below_two_megabytes_and_are_counted_as_what_they_are() -> None:
    runs = [
        replace(a_run(f"run-{day:05}", day, 0.5 + day % 7 / 100), golden=f"version {day // 9}")
        for day in range(2_600, 3_000)
    ]
    nights = [a_night(day, "fail" if day % 9 == 0 else "pass", f"run-{day:05}") for day in range(3_000)]
    ranks = RankMatrix(
        nights[:-121:-1],
        [QuestionRanks(f"q{n}", "語" * 200, 500 - n, "1–" * 60) for n in range(400)],
        n_nights=3_000,
        n_questions=500,
        n_counted=1_000,
    )
    page = render_suite_page([a_suite(*runs, n_left_out=2_600, nights=nights, ranks=ranks)])
    reader = PageReader(page)
    assert len(page.encode()) < LIMIT
    assert "3,000 runs in 3,000 nights" in reader.text
    assert "The newest 400 of 3,000 nights" in reader.text
    assert "400 of 3,000 runs; 2,600 older ones are left out" in reader.text
    rows = [name for table in ("questions", "questions-more") for name in reader.rows(f"{table}-table")]
    shown = len(rows) - 2
    assert 100 < shown < 400
    assert f"{shown:,} of 500 questions that expect a chunk" in reader.text
    assert "120 of 3,000 nights, the newest at the left" in reader.text
    assert "over the newest 1,000 nights" in reader.text
    assert sum("title" in one.attributes for one in reader.named("span")) == 3_000


def test_nights_with_long_names_and_addresses_stay_below_two_megabytes_too() -> None:
    names = [f"{'long-' * 40}{day:05}" for day in range(4_000)]
    nights = [a_night(day, "pass", name) for day, name in enumerate(names)]
    runs = [replace(a_run(name, day), is_shown=False) for day, name in enumerate(names)][-400:]
    page = render_suite_page([a_suite(*runs, n_left_out=3_600, nights=nights, links=Everything())])
    assert len(page.encode()) < LIMIT
    shown = sum(one.attributes.get("class") == "pass" for one in PageReader(page).named("a"))
    assert 1_000 < shown < 4_000
    assert f"{4_000 - shown:,} older nights are not drawn" in page
