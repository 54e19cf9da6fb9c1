"""A project: what it works on is read when it is needed, and one opening of its store is one moment."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from itertools import count

import pytest

from eval_pipeline.errors import DefinitionError
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.store.project import at_one_time, project_of
from tests.bundle_files import ask, hits, load, settings_in, write_archive, write_golden, write_run
from tests.called import call


@pytest.fixture
def settings(tmp_path):
    return settings_in(tmp_path)


@pytest.fixture
def bundle(tmp_path):
    folder = tmp_path / "bundle"
    write_golden(folder, [{"query_id": "q", "expected_doc_ids": ["d"]}])
    write_archive(folder, "v1", [{"chunk_id": "d/1", "doc_id": "d"}])
    write_run(folder, "run-1", [{"query_id": "q", "hits_top_k": hits("d/1")}])
    return folder


def write_broken(folder):
    """A definition of one's own, where a command that works in this folder finds it."""
    path = folder / "sql" / "metrics" / "mine.sql"
    path.parent.mkdir(parents=True)
    path.write_text("-- keys: {mine: x}\nselect nothing of all this")
    return path


def ticking():
    """Every look at this clock is a day later."""
    days = count(1)
    return lambda: dt.datetime(2026, 1, 1) + dt.timedelta(days=next(days))


def test_one_opening_is_one_moment_and_the_next_one_is_later(settings):
    project = project_of(settings, clock=ticking())
    with project.write() as store:
        first = store.clock()
        assert store.clock() == first
    with project.read() as store:
        assert store.clock() > first


def test_a_command_that_opens_the_store_often_writes_one_time(settings, bundle):
    load_bundles([bundle], project_of(settings, clock=ticking()))
    times = "select delivered_at from ledger.deliveries union select loaded_at from labels.golden_sets"
    assert len(ask(settings, times)) == 1
    project = at_one_time(project_of(settings, clock=ticking()))
    assert project.clock() == project.clock()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["load", "bundle"], 0),
        (["doctor"], 1),
        (["backup", "copy"], 0),
        (["quarantine"], 0),
        (["compact"], 0),
        (["forget", "run-1", "--yes"], 0),
        (["query", "from runs"], 0),
        (["show", "run-1"], 0),
    ],
)
def test_what_needs_no_definition_works_although_one_is_broken(settings, bundle, tmp_path, words, code):
    load(settings, bundle)
    write_broken(tmp_path)
    assert call([*words, "--db", str(settings.db)], tmp_path)[0] == code


@pytest.mark.parametrize("words", [["status"], ["plan"], ["forget", "run-1", "--text", "--yes"]])
def test_a_broken_definition_is_named_and_the_store_is_not(settings, bundle, tmp_path, words):
    load(settings, bundle)
    path = write_broken(tmp_path)
    before = ask(settings, "from ledger.tombstones")
    code, _, said = call([*words, "--db", str(settings.db)], tmp_path, apart=True)
    assert code == DefinitionError.exit_code
    assert path.name in said
    assert settings.db.name not in said
    assert ask(settings, "from ledger.tombstones") == before


def test_a_definition_without_the_right_to_read_it_is_no_fault_of_the_store_that_is_open(
    settings, monkeypatch
):
    def unreadable(_settings):
        raise DefinitionError("mine.sql: cannot be read") from PermissionError(13, "Permission denied")

    monkeypatch.setattr("eval_pipeline.formulas.registry.load_registry", unreadable)
    with pytest.raises(DefinitionError, match=r"mine\.sql"), project_of(settings).write() as store:
        store.definitions()


def test_definitions_are_read_once_and_only_when_somebody_asks(settings, tmp_path):
    path = write_broken(tmp_path)
    project = project_of(replace(settings, own_sql=path.parents[1]))
    with project.write() as store, pytest.raises(DefinitionError):
        store.definitions()
    path.unlink()
    assert project.definitions() is project.definitions()
