"""`load kb.sqlite --write-back`: a knowledge base's own database gets the aggregates of its runs, and nothing else."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing

import pytest

from eval_pipeline.cli.main import main
from eval_pipeline.showing import sqlite_base
from eval_pipeline.showing.sqlite_base import write_aggregates
from tests.adapters.taken import MADE
from tests.bundle_files import ask, settings_in, write_golden
from tests.projects import project_of


@pytest.fixture
def base(tmp_path):
    """Two runs of `demo`, one of a dataset that nobody has labelled, and a table of somebody else's."""
    db = tmp_path / "kb.sqlite"
    shutil.copy(MADE / "kb.sqlite", db)
    with closing(sqlite3.connect(db)) as con, con:
        con.execute("create table notes (text)")
        con.execute("insert into notes values ('mine')")
        con.execute(
            "insert into eval_runs select 'other one', 'unlabelled', config_snapshot_json, 'old', commit_hash, created_at "
            "from eval_runs where run_id = 'first'"
        )
        con.execute(
            "insert into eval_query_results select 'other one', query_id, result_json from eval_query_results "
            "where run_id = 'first'"
        )
    return db


@pytest.fixture
def typed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVAL_PIPELINE_DB", str(tmp_path / "e.duckdb"))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))

    def run(*words):
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main(list(words))
        printed = capsys.readouterr()
        return int(left.value.code or 0), printed.out, printed.err

    return run


def dump(db) -> list[str]:
    with closing(sqlite3.connect(db)) as con:
        return list(con.iterdump())


def aggregates(db) -> dict[str, str | None]:
    with closing(sqlite3.connect(db)) as con:
        return dict(con.execute("select run_id, aggregate_json from eval_runs").fetchall())


def emptied(db) -> list[str]:
    """The dump, as if no run had an aggregate."""
    with closing(sqlite3.connect(db)) as con:
        con.execute("update eval_runs set aggregate_json = null")
        return list(con.iterdump())


@pytest.mark.slow
def test_labels_that_came_after_the_first_time_count_the_next_time(typed, base, tmp_path):
    assert typed("load", "kb.sqlite", "--write-back")[0] == 0
    assert json.loads(aggregates(base)["first"])["mrr"] is None
    write_golden(tmp_path / "bundle", [{"query_id": "q1", "expected_chunk_ids": ["leave#1"]}], dataset="demo")
    assert typed("load", "bundle")[0] == 0
    assert typed("load", "kb.sqlite", "--write-back")[0] == 0
    assert json.loads(aggregates(base)["first"])["mrr"] == 0.5


def test_every_run_that_can_be_computed_gets_its_aggregate_and_nothing_else_changes(typed, base, tmp_path):
    write_golden(tmp_path / "bundle", [{"query_id": "q1", "expected_chunk_ids": ["leave#1"]}], dataset="demo")
    assert typed("load", "bundle")[0] == 0
    before = emptied(base)
    code, out, _ = typed("load", "kb.sqlite", "--write-back")
    assert code == 0
    assert "aggregate_json of 3 runs written into eval_runs" in out
    found = aggregates(base)
    # The only labelled chunk stands second in both runs.
    assert {run: json.loads(found[run])["mrr"] for run in ("first", "second")} == {
        "first": 0.5,
        "second": 0.5,
    }
    assert emptied(base) == before
    # Nobody labelled its dataset: it has what needs no label.
    unlabelled = json.loads(found["other one"])
    assert (unlabelled["mrr"], unlabelled["total_queries"]) == (None, 5)
    after = dump(base)
    code, out, _ = typed("load", "kb.sqlite", "--write-back", "--json")
    assert (code, json.loads(out)["runs"], dump(base)) == (0, [], after)
    assert "first" in json.loads(out)["written_back"][0]["written"]


def test_a_database_that_another_program_writes_is_refused_before_anything_is_loaded(
    typed, base, tmp_path, monkeypatch
):
    monkeypatch.setattr(sqlite_base, "BUSY_SECONDS", 0.0)
    before = dump(base)
    with closing(sqlite3.connect(base, isolation_level=None)) as other:
        other.execute("begin immediate")
        code, _, err = typed("load", "kb.sqlite", "--write-back")
        other.execute("rollback")
    assert code == 2 and "is being written by another program" in err
    assert dump(base) == before and not (tmp_path / "e.duckdb").exists()


def test_a_database_whose_journal_cannot_be_kept_is_refused_before_anything_is_loaded(typed, base, tmp_path):
    before = base.read_bytes()
    base.with_name(base.name + "-journal").mkdir()
    code, _, err = typed("load", "kb.sqlite", "--write-back")
    assert code == 2 and "Nothing was written" in err
    assert base.read_bytes() == before and not (tmp_path / "e.duckdb").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["results.jsonl"], "no database of a knowledge base"),
        (["kb.sqlite", "--dry-run"], "does not go with --dry-run"),
        (["bundle"], "goes with the database of a knowledge base"),
    ],
)
def test_only_a_database_is_written_back_to(typed, base, tmp_path, words, said):
    (tmp_path / "results.jsonl").write_text('{"query_id": "q1", "hits_top_k": [], "elapsed_ms": 1}\n')
    write_golden(tmp_path / "bundle", [{"query_id": "q1", "expected_chunk_ids": ["a"]}])
    code, _, err = typed("load", *words, "--write-back")
    assert code == 2 and said in err


def test_either_all_aggregates_are_written_or_none(base, tmp_path, store_with_aggregates):
    """The second run was taken out of the database since it was loaded."""
    with closing(sqlite3.connect(base)) as con, con:
        con.execute("delete from eval_runs where run_id = 'second'")
    before = dump(base)
    with pytest.raises(sqlite_base.UnknownName, match="second"):
        write_aggregates(store_with_aggregates, base, {"first": "first", "second": "second"})
    assert dump(base) == before


@pytest.fixture
def store_with_aggregates(tmp_path):
    """Both runs with an aggregate that somebody stored."""
    from eval_pipeline.loading.others import FilesNamed, load_files
    from eval_pipeline.showing.document import empty_document, store_aggregate

    project = project_of(settings_in(tmp_path / "store"))
    load_files([MADE / "kb.sqlite"], [], FilesNamed(), project)
    for run_id in ("first", "second"):
        store_aggregate(project, run_id, empty_document())
    assert len(ask(project.settings, "select 1 from eval_runs where aggregate_json is not null")) == 2
    return project


def test_runs_go_to_the_datasets_of_their_suites(typed, base):
    assert typed("load", "kb.sqlite")[0] == 0
    out = typed("query", "select run_id, dataset from runs order by all", "--json")[1]
    assert [tuple(row.values()) for row in json.loads(out)] == [
        ("first", "demo"),
        ("other-one", "unlabelled"),
        ("second", "demo"),
    ]


def test_a_database_of_hundreds_of_runs_is_read(tmp_path, typed, base):
    with closing(sqlite3.connect(base)) as con, con:
        for table, columns in (
            ("eval_runs", "suite, config_snapshot_json, aggregate_json, commit_hash, created_at"),
            ("eval_query_results", "query_id, result_json"),
        ):
            con.execute(
                f"insert into {table} with recursive n(i) as (select 1 union all select i + 1 from n where i < 230) "
                f"select 'n' || i, {columns} from {table}, n where run_id = 'first'"
            )
    code, out, _ = typed("load", "kb.sqlite", "--dry-run", "--json")
    assert (code, len(json.loads(out)["runs"])) == (0, 233)
