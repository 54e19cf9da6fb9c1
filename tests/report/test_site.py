"""A site: every page can be reached, every link leads somewhere, and nobody else is asked for anything."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from eval_pipeline.cli.main import cli
from eval_pipeline.errors import UnknownName, UsageError
from eval_pipeline.report.pages.collect import run_page
from eval_pipeline.report.site.collect import formula_page, question_page
from eval_pipeline.report.site.writing import MARK, Site, write_site
from tests.bundle_files import hits, load, settings_in, write_golden, write_run
from tests.few_definitions import OF_EVERY_KIND
from tests.projects import project_of
from tests.report.hostile_world import World, query_id_of
from tests.report.page_reader import PageReader

SHIPS = OF_EVERY_KIND

# Addresses that the page's own script follows.
FILTERS = ("kind=", "slice=", "metric=")
NIGHTS = {"run-a": 0, "run-b": 1, "run-d": 1}


@pytest.fixture(scope="session")
def site(
    report_world: World, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Site, Mapping[str, PageReader]]:
    """The site of the last two nights, and its pages by their files."""
    folder = tmp_path_factory.mktemp("site") / "pages"
    found = write_site(project_of(report_world.settings, report_world.registry), folder, last=2)
    return found, {
        path.relative_to(folder).as_posix(): PageReader(path.read_text("utf-8"))
        for path in sorted(folder.rglob("*.html"))
    }


def links_of(place: str, page: PageReader) -> list[tuple[str, str]]:
    """(file, fragment) of every link, seen from the page's place."""
    found = []
    for one in page.named("a"):
        address = urlsplit(str(one.attributes["href"]))
        assert (address.scheme, address.netloc, address.query) == ("", "", "")
        path = PurePosixPath(place).parent / address.path if address.path else PurePosixPath(place)
        parts: list[str] = []
        for part in path.parts:
            parts = parts[:-1] if part == ".." else [*parts, part]
        found.append(("/".join(parts), address.fragment))
    return found


@pytest.mark.slow
def test_every_link_of_the_site_leads_to_a_page_and_to_a_place_in_it(site) -> None:
    _, pages = site
    ids = {
        place: {str(one.attributes["id"]) for one in page.elements if "id" in one.attributes}
        for place, page in pages.items()
    }
    lost = [
        (place, path, fragment)
        for place, page in pages.items()
        for path, fragment in links_of(place, page)
        if path not in pages or (fragment and fragment not in ids[path] and not fragment.startswith(FILTERS))
    ]
    assert lost == []


def test_every_page_of_the_site_is_reached_from_its_index(site) -> None:
    _, pages = site
    seen, waiting = {"index.html"}, ["index.html"]
    while waiting:
        place = waiting.pop()
        new = {path for path, _ in links_of(place, pages[place])} - seen
        seen |= new
        waiting += new
    assert seen == set(pages)
    kinds = {place.split("/")[0] for place in pages}
    assert kinds == {"index.html", "runs", "pairs", "suites", "questions", "formulas"}


def test_a_run_leads_to_its_comparisons_and_to_what_they_found(site) -> None:
    _, pages = site
    links = links_of("runs/run-d.html", pages["runs/run-d.html"])
    compared = {fragment for path, fragment in links if path == "pairs/run-c..run-d.html"}
    assert "" in compared
    assert any(fragment.startswith("kind=") for fragment in compared)


def test_no_page_of_the_site_asks_anybody_for_anything(site) -> None:
    _, pages = site
    for page in pages.values():
        assert not [one for one in page.elements if "src" in one.attributes]
        assert {one.attributes["href"] for one in page.named("link")} == {"data:,"}
        policy = next(
            one.attributes["content"] for one in page.named("meta") if "http-equiv" in one.attributes
        )
        assert str(policy).startswith("default-src 'none'")
        assert [one for one, _ in page.scripts if one.get("type") != "application/json"] == [{}, {}]


def test_a_title_names_what_its_page_is_about(site) -> None:
    found, pages = site
    titles = {
        place: re.search("<title>(.*?)</title>", (found.index.parent / place).read_text("utf-8"))
        for place in pages
    }
    assert all(titles.values())
    named = {place: title[1] for place, title in titles.items() if title}
    assert named["runs/run-d.html"].startswith("run-d ")
    assert named["pairs/run-c..run-d.html"].startswith("run-c → run-d")
    assert named["formulas/reciprocal_rank.html"].startswith("reciprocal_rank ")
    assert len(set(named.values())) == len(named)


def test_only_so_many_nights_are_in_the_site_and_the_rest_is_not_linked(site) -> None:
    found, pages = site
    runs = {place for place in pages if place.startswith("runs/")}
    assert runs == {f"runs/{name}.html" for name in ("run-c", "run-d", "run-d-broken")}
    assert "2 older runs are left out" in pages["index.html"].text
    mark = json.loads((found.index.parent / MARK).read_text("utf-8"))
    assert mark["pages"] == found.pages == len(pages)


def rank_in(run_id: str, number: int) -> str:
    """By the rule that the world's hits are made by: the expected chunk stands behind a few others, or nowhere."""
    shift = NIGHTS[run_id]
    return str((number * (1 + shift)) % 5 + 1) if (number + shift) % 5 else "—"


@pytest.mark.parametrize("number", [1, 4, 7])
def test_a_question_has_its_rank_in_every_night(report_world: World, number: int) -> None:
    project = project_of(report_world.settings, report_world.registry)
    page = PageReader(question_page(project, "attic", query_id_of(number)))
    rows = {row[1].split()[0]: row for row in page.tables["nights-table"][1:]}
    assert {run_id: rows[run_id][3] for run_id in NIGHTS} == {
        run_id: rank_in(run_id, number) for run_id in NIGHTS
    }
    nights = [row[0] for row in page.tables["nights-table"][1:]]
    assert nights == sorted(nights, reverse=True)
    assert f"c{number}" in page.text


def test_without_texts_a_question_shows_ids_alone(report_world: World) -> None:
    project = project_of(report_world.settings, report_world.registry)
    page = PageReader(question_page(project, "attic", query_id_of(1), with_text=False))
    assert "question 1" not in page.text
    assert "archived" not in page.text
    assert "yes" not in page.text
    assert "c1" in page.text


def test_what_changed_in_the_labels_of_a_question_stands_on_its_page(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    bundle = tmp_path / "bundle"
    write_run(bundle, "one", [{"query_id": "q", "hits_top_k": hits("d/1")}])
    for on, expected in enumerate((["d/1"], ["d/1"], ["d/2"]), start=1):
        other = {"query_id": "other", "query": f"asked on day {on}?"}
        write_golden(bundle, [{"query_id": "q", "query": "why?", "expected_chunk_ids": expected}, other])
        load(settings, bundle, on=on)
    page = PageReader(question_page(project_of(settings), "kb", "q"))
    changed = [row for row in page.tables["labels-table"] if row[1] == "expected chunks"]
    assert [row[2:] for row in changed] == [["d/1", "d/2"], ["—", "d/1"]]
    with pytest.raises(UnknownName, match="did you mean other"):
        question_page(project_of(settings), "kb", "othr")


def test_a_formula_shows_its_text_its_examples_and_its_last_values(report_world: World) -> None:
    project = project_of(report_world.settings, report_world.registry)
    one = report_world.registry.get("reciprocal_rank")
    page = PageReader(formula_page(project, "mrr"))
    assert one.body.strip() in page.text
    assert all(example.line in page.text for example in one.header.examples)
    assert one.fingerprint in page.text
    assert [row[1] for row in page.tables["values-table"][1:]] == ["run-d"]
    assert str(report_world.folder) not in page.text


def test_a_site_replaces_a_site_and_nothing_else(report_world: World, tmp_path: Path) -> None:
    project = project_of(report_world.settings, report_world.registry)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "index.html").write_text("mine")
    with pytest.raises(UsageError, match="no site that this program wrote"):
        write_site(project, foreign)
    assert [(path.name, path.read_text()) for path in foreign.iterdir()] == [("index.html", "mine")]
    old = tmp_path / "old"
    old.mkdir()
    for name, text in (("index.html", "old"), (MARK, "{}")):
        (old / name).write_text(text)
    with pytest.raises(UnknownName):
        write_site(project, old, suite="of no such name")
    assert (old / "index.html").read_text() == "old"
    (old / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"holds notes\.txt"):
        write_site(project, old)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["foreign", "old"]


def test_a_site_that_was_being_exchanged_is_put_back(report_world: World, tmp_path: Path) -> None:
    left = tmp_path / ".pages.old"
    left.mkdir()
    (left / MARK).write_text("{}")
    with pytest.raises(UnknownName):
        write_site(
            project_of(report_world.settings, report_world.registry),
            tmp_path / "pages",
            suite="of no such name",
        )
    assert [path.name for path in tmp_path.iterdir()] == ["pages"]


def test_runs_that_cannot_be_compared_have_no_page_and_why_is_said(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    for night in ("2026-09-01", "2026-09-02"):
        answers = [{"query_id": "q", "hits_top_k": hits("d/1")}]
        write_run(tmp_path / "bundle", f"run-{night}", answers, suite="nights", night=night)
    write_golden(tmp_path / "bundle", [{"query_id": "q", "expected_chunk_ids": ["d/1"]}])
    load(settings, tmp_path / "bundle")
    found = write_site(project_of(settings), tmp_path / "pages")
    assert len(found.left_out) == 1
    assert "has not been computed yet" in found.left_out[0]
    pages = list((tmp_path / "pages").rglob("*.html"))
    assert len(pages) == found.pages
    assert not (tmp_path / "pages" / "pairs").exists()
    assert not [path for path in pages if "pairs/" in path.read_text("utf-8")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run-a", "--site", "x"], "--site is of all runs"),
        (["--site", "x", "--output", "y.html"], "--site is of all runs"),
        (["run-a", "--last", "3"], "--last goes with --site"),
    ],
)
def test_options_that_do_not_go_together_are_named(report_world: World, words: list[str], said: str) -> None:
    called = CliRunner().invoke(cli, ["report", *words, "--db", str(report_world.settings.db)])
    assert called.exit_code == 2
    assert said in called.output


def test_a_page_is_opened_in_the_browser_when_that_is_asked(
    report_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    words = [
        "report",
        "run-a",
        "--output",
        str(tmp_path / "page.html"),
        "--db",
        str(report_world.settings.db),
    ]
    assert CliRunner().invoke(cli, words).exit_code == 0
    assert opened == []
    assert CliRunner().invoke(cli, [*words, "--open"]).exit_code == 0
    assert opened == [(tmp_path / "page.html").as_uri()]


def test_what_another_chunker_cannot_find_has_no_value_and_counts_nowhere(
    report_world: World, readers: Mapping[str, PageReader]
) -> None:
    project = project_of(report_world.settings, report_world.registry)
    for name in ("index", "suite"):
        assert "0.0000*" not in readers[name].text
        assert "artefact" not in readers[name].text
    run = PageReader(run_page(project, "run-c")).text
    assert "labels name chunks of v1; this run has another chunker" in run
    # Gold spans say what the run found, whichever chunker cut it.
    assert "mrr_span" in run
    assert "by document or path alone: labels name the chunks of another chunker" in run
    question = PageReader(question_page(project, "attic", query_id_of(4))).text
    # The run of the other chunker counts by the characters of its hits.
    assert "an expected chunk found in 2 of 4" in question
