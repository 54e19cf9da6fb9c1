"""Grades and model answers of a golden set: how they arrive, what a change of them makes stale, and how they go."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from eval_pipeline.bundle.golden import read_golden_set
from eval_pipeline.computing.states import states_of_cells
from eval_pipeline.errors import InvalidConfig
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.loading.context import LoadOptions
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.settings import Settings
from eval_pipeline.upkeep.forget import Request, forget
from tests.bundle_files import ask, compute, day, load, settings_in, write_golden, write_lines, write_run
from tests.few_definitions import shipping, write_few
from tests.projects import project_of

ROW = {
    "query_id": "q1",
    "query": "who?",
    "expected_chunk_ids": ["a"],
    "reference": "It was the secret gardener.",
}
GRADES = {"a": 2, "b": 0, "c": -1, "d": 1}
RESULT = {"query_id": "q1", "hits_top_k": ["d", "x", "a"]}
FEW = ("metrics.ndcg", "metrics.hit_at_k", "metrics.average_precision")


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """The command line with few definitions as the shipped ones."""
    with shipping(write_few(tmp_path_factory.mktemp("few"), *FEW)):
        yield


@pytest.fixture
def settings(tmp_path: Path, few: None) -> Settings:
    write_golden(tmp_path / "bundle", [{**ROW, "grades": GRADES}])
    write_run(tmp_path / "bundle", "run-1", [RESULT])
    settings = settings_in(tmp_path)
    assert load(settings, tmp_path / "bundle").problems == []
    return settings


def computed(settings: Settings) -> dict[str, float | None]:
    compute(settings, load_registry(settings), reasons=None)
    return dict(ask(settings, "select metric, value from per_query_metrics"))


def stale(settings: Settings) -> dict[str, str]:
    project = project_of(settings)
    with project.read() as store, states_of_cells(store) as states:
        return {definition: reason for definition, _, reason, _ in states.stale()}


def test_grades_of_any_sign_arrive_as_they_were_given(settings):
    rows = ask(settings, "select chunk_id, grade from labels.grades join raw.chunk_ids using (chunk_key)")
    assert dict(rows) == GRADES


def test_a_change_of_grades_makes_stale_what_reads_grades_and_nothing_else(settings, tmp_path):
    computed(settings)
    write_golden(tmp_path / "again", [{**ROW, "grades": {**GRADES, "x": 1}}])
    load(settings, tmp_path / "again")
    found = stale(settings)
    assert {"facts.graded_ranks", "metrics.ndcg", "metrics.average_precision"} <= set(found)
    assert set(found.values()) == {"labels"}
    assert not {"facts.chunk_ranks", "metrics.hit_at_k"} & set(found)


def test_grades_that_go_again_leave_the_labels_as_they_were_before_there_were_any(settings, tmp_path, few):
    write_golden(tmp_path / "never", [ROW])
    write_golden(tmp_path / "gone", [ROW, {"query_id": "q2"}])
    write_golden(tmp_path / "gone-too", [ROW])
    other = settings_in(tmp_path / "other")
    (tmp_path / "other").mkdir()
    load(other, tmp_path / "never")
    for delivery in ("gone", "gone-too"):
        load(settings, tmp_path / delivery)
    hashes = "select family, hash from labels.family_hashes where golden_key = (select max(golden_key) from labels.golden_sets)"
    assert dict(ask(settings, hashes)) == dict(ask(other, hashes))
    assert not {"grades", "grade_counts"} & dict(ask(other, hashes)).keys()


def test_what_is_relevant_is_set_for_a_dataset_and_makes_only_its_own_runs_stale(settings, tmp_path):
    write_golden(tmp_path / "second", [{**ROW, "grades": GRADES}], dataset="other")
    write_run(tmp_path / "second", "run-2", [RESULT], dataset="other")
    load(settings, tmp_path / "second")
    compute(settings, load_registry(settings), reasons=None)
    values = "select run_id, value from per_query_metrics where metric = 'ap@10'"
    # Of the relevant ids `a` and `d` one stands at 1, one at 3.
    assert dict(ask(settings, values)) == pytest.approx(dict.fromkeys(("run-1", "run-2"), (1 + 2 / 3) / 2))
    settings.config.write_text("[datasets.kb]\nrelevant_from = 2\n", "utf-8")
    with project_of(settings).read() as store, states_of_cells(store) as states:
        due = {(name, run) for name, run in states.rows("definition, run_id", "reason = 'labels'")}
    assert {run for _, run in due} == {"run-1"}
    assert {"metrics.ndcg", "metrics.average_precision"} <= {name for name, _ in due}
    assert not {"metrics.hit_at_k", "facts.chunk_ranks"} & {name for name, _ in due}
    compute(settings, load_registry(settings), reasons=None)
    assert dict(ask(settings, values)) == pytest.approx({"run-1": 1 / 3, "run-2": (1 + 2 / 3) / 2})
    assert stale(settings) == {}


def test_a_dataset_that_says_what_holds_without_a_word_makes_nothing_stale(settings):
    computed(settings)
    settings.config.write_text("[datasets.kb]\nrelevant_from = 1\n", "utf-8")
    assert stale(settings) == {}


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("relevant_from = 0", "the lowest grade of what is relevant, from 1"),
        ("relevant_from = true", "the lowest grade"),
        ('labels = "some"', '"complete" .* or "judged"'),
        ("relevant = 1", "there is: formulas, extraction_cases, relevant_from, labels"),
    ],
)
def test_a_setting_of_labels_that_cannot_be_is_refused_with_what_can(tmp_path, toml, message):
    settings = settings_in(tmp_path)
    settings.config.write_text(f"[datasets.kb]\n{toml}\n", "utf-8")
    with pytest.raises(InvalidConfig, match=message):
        load_registry(settings)


@pytest.mark.parametrize(
    ("grades", "field"),
    [
        ({"a": 1.5}, "grades"),
        ({"a": True}, "grades"),
        ({"a": "high"}, "grades"),
        ({"a": 10**9}, "grades.a"),
        ({"": 1}, "grades"),
        ([1], "grades"),
    ],
)
def test_a_grade_that_is_no_whole_number_refuses_its_row_alone(tmp_path, grades, field):
    path = write_lines(
        tmp_path / "queries.jsonl", [{"query_id": "bad", "grades": grades}, {"query_id": "good"}]
    )
    found = read_golden_set(path)
    assert [row.query_id for row in found.rows] == ["good"]
    assert found.problems[0].field.startswith(field)


def test_a_grade_may_be_written_with_a_point_and_one_of_null_is_none(tmp_path):
    path = write_lines(tmp_path / "queries.jsonl", [{"query_id": "q", "grades": {"a": 2.0, "b": None}}])
    assert [row.grades for row in read_golden_set(path).rows] == [{"a": 2}]


# ------------------------------------------------------------------ model answers


def texts(settings: Settings) -> list[str]:
    return [text for (text,) in ask(settings, "select text from raw.texts")]


def test_a_model_answer_is_shown_beside_its_question(settings):
    assert ask(settings, "select query, reference from queries") == [("who?", ROW["reference"])]


def test_a_model_answer_is_left_out_without_texts_and_every_number_stays(settings, tmp_path, few):
    with_texts = computed(settings)
    shutil.copytree(tmp_path / "bundle", tmp_path / "other" / "bundle")
    other = settings_in(tmp_path / "other")
    load_bundles(
        [tmp_path / "other" / "bundle"], project_of(other, now=day(1)), options=LoadOptions(no_text=True)
    )
    assert ROW["reference"] not in texts(other)
    assert computed(other) == with_texts


def test_model_answers_are_forgotten_with_the_texts_of_their_dataset(settings):
    forget(project_of(settings, now=day(3)), Request("dataset", "kb", text=True))
    assert ROW["reference"] not in texts(settings)
    assert ask(settings, "select reference from queries") == [(None,)]
