"""A copy that is made beside running work, is whole, and is a store like any other."""

from __future__ import annotations

import shutil

import pytest

from eval_pipeline.cli.main import main
from tests.bundle_files import ask, hits, load, settings_in, write_golden, write_run
from tests.projects import open_writer

VIEWS = ("runs", "queries", "hits", "deliveries", "quarantine")


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("original")
    write_golden(folder / "bundle", [{"query_id": "q", "query": "who?"}])
    write_run(
        folder / "bundle", "run-1", [{"query_id": "q", "hits_top_k": hits("d/1"), "answer": {"text": "she"}}]
    )
    load(settings_in(folder), folder / "bundle")
    return folder


@pytest.fixture
def folder(original, tmp_path):
    return shutil.copytree(original, tmp_path / "project")


@pytest.fixture
def call(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)

    def ask_cli(*words):
        with pytest.raises(SystemExit) as left:
            main([*words])
        printed = capsys.readouterr()
        return left.value.code, printed.out + printed.err

    return ask_cli


def views(db):
    return {name: sorted(ask(settings_in(db.parent), f"from {name}"), key=repr) for name in VIEWS}


def below(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_copy_answers_as_the_store_does_and_can_be_written_to_and_rebuilt(folder, call):
    code, said = call("backup", "copy", "--db", "e.duckdb")
    assert code == 0, said
    assert "Writers had to wait for" in said
    copy = folder / "copy" / "e.duckdb"
    assert views(copy) == views(folder / "e.duckdb")
    assert below(folder / "copy" / "e.duckdb.deliveries") == below(folder / "e.duckdb.deliveries")
    write_run(folder / "late", "run-2", [{"query_id": "q"}])
    assert call("load", "late", "--db", str(copy))[0] == 0
    copy.unlink()
    assert call("rebuild", "--db", str(copy))[0] == 0
    assert ask(settings_in(copy.parent), "select run_id from runs order by all") == [("run-1",), ("run-2",)]
    assert ask(settings_in(folder), "select run_id from runs") == [("run-1",)]


def test_what_a_killed_writer_left_in_the_log_is_in_the_copy(folder, call):
    with open_writer(folder / "e.duckdb") as con:
        con.execute("set checkpoint_threshold = '1GB'")
        con.execute("create table main.late as select 7 as x")
        con.execute("from main.late").fetchall()
        shutil.copyfile(folder / "e.duckdb", folder / "killed.duckdb")
        shutil.copyfile(folder / "e.duckdb.wal", folder / "killed.duckdb.wal")
    shutil.copytree(folder / "e.duckdb.deliveries", folder / "killed.duckdb.deliveries")
    assert call("backup", "copy", "--db", "killed.duckdb")[0] == 0
    (folder / "copy" / "killed.duckdb").rename(folder / "copy" / "e.duckdb")
    (folder / "copy" / "killed.duckdb.wal").rename(folder / "copy" / "e.duckdb.wal")
    assert ask(settings_in(folder / "copy"), "from main.late") == [(7,)]


@pytest.mark.parametrize("taken", ["file", "folder", "kept"])
def test_a_place_that_is_taken_is_refused_and_left_as_it_is(folder, call, taken):
    place = {"file": "bundle/runs/run-1/run.json", "folder": "bundle", "kept": "e.duckdb.deliveries/copy"}[
        taken
    ]
    before = below(folder)
    code, said = call("backup", place, "--db", "e.duckdb")
    assert code == 2
    assert "name a folder" in said
    assert {name: data for name, data in below(folder).items() if "duckdb." not in name} == {
        name: data for name, data in before.items() if "duckdb." not in name
    }


def test_an_empty_folder_is_taken(folder, call):
    (folder / "copy").mkdir()
    assert call("backup", "copy", "--db", "e.duckdb")[0] == 0


def test_of_a_store_that_cannot_be_read_there_is_no_copy(folder, call):
    data = (folder / "e.duckdb").read_bytes()
    (folder / "e.duckdb").write_bytes(data[: len(data) // 2])
    code, said = call("backup", "copy", "--db", "e.duckdb")
    assert code == 2
    assert "eval-pipeline rebuild" in said
    assert sorted(path.name for path in folder.iterdir() if "copy" in path.name) == []


def test_a_kept_delivery_that_is_damaged_is_named(folder, call):
    (path,) = (folder / "e.duckdb.deliveries").rglob("run.json")
    path.write_text("{}")
    code, said = call("backup", "copy", "--db", "e.duckdb")
    assert code == 1
    assert str(path) in said
    assert views(folder / "copy" / "e.duckdb") == views(folder / "e.duckdb")


def test_without_a_store_there_is_nothing_to_copy(folder, call):
    code, said = call("backup", "copy", "--db", "nowhere.duckdb")
    assert code == 2 and "no store" in said
    assert not (folder / "copy").exists()
