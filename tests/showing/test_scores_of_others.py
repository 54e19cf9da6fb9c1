"""Scores of others are metrics under their own names: per query, per run and slice, whatever they are called."""

from __future__ import annotations

import json
import math

import pytest

from eval_pipeline.cli.main import main
from eval_pipeline.errors import InvalidConfig
from eval_pipeline.loading.context import LoadOptions
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.planning.plan import find_plan
from eval_pipeline.showing.show import show_queries, show_run
from eval_pipeline.upkeep.forget import Request, forget
from tests.bundle_files import ask, compute, day, load, settings_in, write_golden, write_run
from tests.projects import project_of

OF_SCORES = ("metrics.scores", "aggregates.run_metrics:metrics.scores")
HOSTILE = "x\"; drop table raw.runs; --\n\x1b[31m'$key ${k} %s {0}"
LONG = "n" * 1000
SECRET = "swordfish"
LABELS = "[scores.match]\nlabels = {C = 1, P = 0.5, I = 0, N = 0}\nrange = [0, 1]\n"


def run_of(folder, of_queries, *, run_id="a", **run):
    """A bundle of one run, a query per entry; every other one is of category even."""
    rows = [{"query_id": f"q{number}", "scores": one} for number, one in enumerate(of_queries)]
    categories = ("even", "odd")
    write_golden(
        folder,
        [{"query_id": one["query_id"], "category": categories[n % 2]} for n, one in enumerate(rows)],
    )
    write_run(folder, run_id, rows, **run)
    return folder


def taken(tmp_path, of_queries, **run):
    settings = settings_in(tmp_path)
    load(settings, run_of(tmp_path / "bundle", of_queries, **run))
    compute(settings, definitions=OF_SCORES)
    return settings


def metrics_of(settings, run_id="a"):
    metrics = show_run(project_of(settings), run_id).metrics
    return {key: (one.value, one.n) for key, one in metrics.items() if key.startswith("scores.")}


def per_query(settings, run_id="a"):
    return {
        row["query_id"]: {key: value for key, value in row["metrics"].items() if key.startswith("scores.")}
        for row in show_queries(project_of(settings), run_id)
    }


def test_a_score_is_a_metric_per_query_per_run_and_per_slice(tmp_path):
    numbers = [0.25, 4.5, 3, 1]
    settings = taken(tmp_path, [{"style": one} for one in numbers])
    assert metrics_of(settings) == {"scores.style": (math.fsum(numbers) / 4, 4)}
    assert [row["scores.style"] for row in per_query(settings).values()] == numbers
    slices = show_run(project_of(settings), "a").slices["category"]
    assert slices["even"].metrics["scores.style"].value == (0.25 + 3) / 2
    assert slices["odd"].metrics["scores.style"].n == 2


def test_true_is_one_and_false_is_zero_and_what_is_no_number_is_unscored_and_never_zero(tmp_path):
    scores = [
        {"passed": True, "odd": math.nan},
        {"passed": False, "odd": None},
        {"passed": {"value": True, "reason": "fine", "source": "judge"}, "odd": "graderError"},
        {"passed": {"value": None}, "odd": {"value": 0.5}},
    ]
    settings = taken(tmp_path, scores)
    assert metrics_of(settings) == {"scores.odd": (0.5, 1), "scores.passed": (round(2 / 3, 4), 3)}
    assert [row["scores.odd"] for row in per_query(settings).values()] == [None, None, None, 0.5]
    assert show_run(project_of(settings), "a").unscored == {"scores.odd": 3, "scores.passed": 1}


def test_a_score_without_any_number_says_why_it_has_no_value(tmp_path):
    report = show_run(project_of(taken(tmp_path, [{"tone": "friendly"}, {"tone": "curt"}])), "a")
    assert report.metrics["scores.tone"].n == 0
    assert "number" in report.undefined["scores.tone"]


def test_a_score_of_the_whole_run_is_its_value_unless_queries_have_that_score(tmp_path):
    said = {"overall": {"value": 0.7, "reason": "of 100"}, "style": 5}
    settings = taken(tmp_path, [{"style": 1}, {"style": 2}], scores=said)
    assert metrics_of(settings) == {"scores.overall": (0.7, 1), "scores.style": (1.5, 2)}


def test_names_are_data(tmp_path):
    settings = taken(tmp_path, [{HOSTILE: 0.5, LONG: 2, "Style": 1, "style": 0, "ß ü": 3}] * 2)
    expected = {
        f"scores.{HOSTILE}": 0.5,
        f"scores.{LONG}": 2,
        "scores.Style": 1,
        "scores.style": 0,
        "scores.ß ü": 3,
    }
    assert {key: value for key, (value, _) in metrics_of(settings).items()} == expected
    assert per_query(settings)["q1"] == expected
    views = ask(settings, "select metric, value from run_metrics where slice = '' and metric like 'scores.%'")
    assert dict(views) == expected
    listed = ask(
        settings,
        "select metric, value from per_query_metrics where query_id = 'q0' and metric like 'scores.%'",
    )
    assert dict(listed) == expected


def test_a_name_stays_in_its_cell_on_the_terminal(tmp_path, capsys):
    odd = "line\nbreak\ttab \x1b[31m\u202e"
    settings = taken(tmp_path, [{odd: 0.5, "b": 1}] * 2)
    with pytest.raises(SystemExit):
        main(["show", "a", "--no-slices", "--db", str(settings.db)])
    rows = [line.rsplit(maxsplit=2) for line in capsys.readouterr().out.splitlines() if "scores." in line]
    assert rows == [["scores.b", "1.0000", "2"], ["scores.line↵break␉tab ␛[31m⟨U+202E⟩", "0.5000", "2"]]


def test_a_thousand_names_are_no_columns(tmp_path):
    names = {f"name {number}": number for number in range(1000)}
    settings = taken(tmp_path, [names, names])
    assert metrics_of(settings) == {f"scores.{name}": (float(value), 2) for name, value in names.items()}
    assert len(ask(settings, "describe metrics.scores")) == 4


@pytest.mark.parametrize("odd", [[1, 2], {"a": 1}])
def test_a_value_of_another_kind_is_kept_as_it_came_and_unscored(tmp_path, odd):
    settings = taken(tmp_path, [{"shape": odd}])
    assert metrics_of(settings) == {"scores.shape": (None, 0)}
    assert [json.loads(label) for (label,) in ask(settings, "select label from raw.scores")] == [odd]


def test_a_source_that_is_none_of_the_three_is_refused_with_its_place(tmp_path):
    settings = settings_in(tmp_path)
    report = load(
        settings, run_of(tmp_path / "bundle", [{"style": {"value": 1, "source": "oracle"}}, {"style": 1}])
    )
    (problem,) = report.problems
    assert "source" in (problem.field or "")
    assert "judge" in problem.reason


def test_labels_stand_for_the_numbers_that_the_configuration_gives_them(tmp_path):
    settings = taken(tmp_path, [{"match": "C"}, {"match": "P"}, {"match": "I"}, {"match": "??"}])
    assert metrics_of(settings)["scores.match"] == (None, 0)
    settings.config.write_text(LABELS)
    compute(settings, reasons=None, definitions=OF_SCORES, on=3)
    assert metrics_of(settings)["scores.match"] == (0.5, 3)


def test_a_number_with_a_label_beside_it_is_read_as_the_configuration_reads_the_label(tmp_path):
    settings = taken(tmp_path, [{"match": {"value": 0.5, "label": "P"}}])
    assert metrics_of(settings)["scores.match"] == (0.5, 1)
    settings.config.write_text("[scores.match]\nlabels = {P = 0.75}\n")
    compute(settings, reasons=None, definitions=OF_SCORES, on=3)
    assert metrics_of(settings)["scores.match"] == (0.75, 1)


def test_other_labels_make_stale_what_runs_have_of_scores_with_that_name_alone(tmp_path):
    settings = taken(tmp_path, [{"match": "C"}])
    for run_id, name in (("b", "other"), ("c", "match")):
        load(settings, run_of(tmp_path / run_id, [{name: "C"}], run_id=run_id))
    compute(settings, definitions=OF_SCORES)
    settings.config.write_text(LABELS)
    project = project_of(settings)
    due = {one["name"]: one["reasons"] for one in find_plan(project)["assets"] if "formula" in one["reasons"]}
    assert due == {"metrics.scores": {"formula": 2}}
    compute(settings, reasons=None, definitions=OF_SCORES, on=3)
    assert all("formula" not in one["reasons"] for one in find_plan(project)["assets"])
    settings.config.write_text(
        LABELS + "[scores.nobody]\nlabels = {x = 1}\n[scores.other]\nunit = 'points'\n"
    )
    assert all("formula" not in one["reasons"] for one in find_plan(project_of(settings))["assets"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[scores.a]\ndirection = 'up'\n", "higher"),
        ("[scores.a]\nrange = [1, 0]\n", "lowest"),
        ("[scores.a]\nlabels = {good = 'yes'}\n", "numbers"),
        ("[scores.a]\ncolour = 1\n", "there is: direction"),
        ("[scores]\na = 1\n", "table of its own"),
    ],
)
def test_what_cannot_be_meant_of_a_score_is_said_with_what_is_allowed(tmp_path, text, said):
    settings = settings_in(tmp_path)
    settings.config.write_text(text)
    with pytest.raises(InvalidConfig, match=said):
        project_of(settings).definitions()


WORDS = {"value": 0.5, "reason": f"since {SECRET}"}


def secrets(settings):
    """Where the word still stands: in the store's columns of text, and in the kept files."""
    places = ["raw.texts.text", "raw.scores.label", "raw.run_scores.label", "raw.runs.document"]
    found = []
    for place in places:
        table, column = place.rsplit(".", 1)
        ((n,),) = ask(settings, f"select count(*) from {table} where contains({column}, '{SECRET}')")
        found += [place] if n else []
    return found


def bundle_with_words(tmp_path):
    scores = [{"style": WORDS, "tone": f"a {SECRET}"}, {"style": 1, "tone": "curt"}]
    return run_of(tmp_path / "bundle", scores, scores={"overall": WORDS})


def test_without_texts_neither_reasons_nor_words_come_along_and_the_numbers_do(tmp_path):
    settings = settings_in(tmp_path)
    project = project_of(settings, now=day(1))
    load_bundles([bundle_with_words(tmp_path)], project, options=LoadOptions(no_text=True))
    compute(settings, definitions=OF_SCORES)
    assert secrets(settings) == []
    kept = [path for path in (tmp_path / "e.duckdb.deliveries").rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in path.read_bytes() for path in kept)
    assert metrics_of(settings) == {
        "scores.overall": (0.5, 1),
        "scores.style": (0.75, 2),
        "scores.tone": (None, 0),
    }
    assert ("curt",) in ask(settings, "select label from raw.scores")


def test_forgotten_texts_leave_the_numbers(tmp_path):
    settings = settings_in(tmp_path)
    load(settings, bundle_with_words(tmp_path))
    compute(settings, definitions=OF_SCORES)
    before = metrics_of(settings)
    assert len(secrets(settings)) == 3
    forget(project_of(settings, now=day(3)), Request(kind="run", name="a", text=True))
    assert secrets(settings) == []
    assert metrics_of(settings) == before
