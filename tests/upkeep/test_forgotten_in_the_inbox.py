"""What was forgotten lies in the inbox and stays there, and whoever looks is told."""

from __future__ import annotations

import shutil

import pytest

from eval_pipeline.loading.inbox import (
    forgotten_in,
    look_into,
    take_in_runs,
    take_in_sources,
    waiting_runs,
    waiting_sources,
)
from eval_pipeline.upkeep.forget import Request, forget, lift_tombstones
from tests.bundle_files import ask, day, load, settings_in, write_archive, write_golden, write_run
from tests.projects import open_reader, project_of


def with_inbox(folder):
    return settings_in(folder, EVAL_PIPELINE_INBOX=str(folder / "inbox"))


@pytest.fixture(scope="module")
def loaded_once(tmp_path_factory):
    settings = with_inbox(tmp_path_factory.mktemp("loaded"))
    write_golden(settings.inbox, [{"query_id": "q", "query": "words"}])
    write_archive(settings.inbox, "v1", [{"chunk_id": "a", "doc_id": "d", "text": "words"}])
    write_run(settings.inbox, "told", [{"query_id": "q", "answer": {"text": "words"}}])
    write_run(settings.inbox, "kept", [{"query_id": "q"}])
    load(settings, settings.inbox)
    return settings.db.parent


@pytest.fixture
def settings(loaded_once, tmp_path):
    """Two loaded runs whose bundle lies in the inbox."""
    shutil.copytree(loaded_once, tmp_path, dirs_exist_ok=True)
    return with_inbox(tmp_path)


def waiting(settings):
    inbox = look_into(settings.inbox)
    with open_reader(settings.db) as con:
        sources = waiting_sources(con, inbox)
        return (
            [run.run_id for run in waiting_runs(con, inbox)],
            [*sources.datasets, *sources.chunker_versions],
            forgotten_in(con, inbox),
        )


def forget_it(settings, kind, name, *, text=False):
    forget(project_of(settings, now=day(3)), Request(kind, name, text))


def test_a_forgotten_run_does_not_wait_and_is_not_taken_in(settings):
    assert waiting(settings) == ([], [], [])
    forget_it(settings, "run", "told")
    assert waiting(settings) == ([], [], ["told"])
    assert take_in_runs(project_of(settings, now=day(4)), {"told", "kept"}).runs == []
    assert ask(settings, "select run_id from runs") == [("kept",)]


def test_a_forgotten_dataset_keeps_everything_of_it_in_the_inbox(settings):
    forget_it(settings, "dataset", "kb")
    write_run(settings.inbox, "new", [{"query_id": "q"}])
    assert waiting(settings) == ([], [], ["kb", "kept", "new", "told"])
    report = take_in_sources(project_of(settings, now=day(4)))
    assert report.golden_sets == [] and ask(settings, "select count(*) from runs") == [(0,)]


@pytest.mark.parametrize("text", [False, True])
def test_lifted_the_same_files_wait_again(settings, text):
    forget_it(settings, "dataset", "kb", text=text)
    lift_tombstones(project_of(settings, now=day(4)), "kb", kind=None)
    runs = ["kept", "told"] if not text else ["told"]
    assert waiting(settings) == (runs, ["kb", "v1"], [])
    assert sorted(take_in_runs(project_of(settings, now=day(5)), {"told", "kept"}).runs) == runs
    assert waiting(settings) == ([], [], [])
    assert ask(settings, "select query from queries") == [("words",)]


def test_texts_that_were_forgotten_are_not_brought_back_by_a_changed_file(settings):
    forget_it(settings, "run", "told", text=True)
    write_run(settings.inbox, "told", [{"query_id": "q", "answer": {"text": "other words"}}])
    assert waiting(settings) == ([], [], ["told"])
    take_in_runs(project_of(settings, now=day(4)), {"told"})
    assert ask(settings, "select text from raw.texts where contains(text, 'other')") == []
