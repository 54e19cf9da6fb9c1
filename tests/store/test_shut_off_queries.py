"""Somebody's SQL reads the store and reaches nothing else."""

from __future__ import annotations

import json

import pytest

from eval_pipeline.errors import StoreMissing, UsageError
from eval_pipeline.showing.query import ask
from tests.bundle_files import hits, load, settings_in, write_golden, write_run
from tests.projects import project_of


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shut-off")
    write_golden(folder / "bundle", [{"query_id": "q"}])
    write_run(folder / "bundle", "run-1", [{"query_id": "q", "hits_top_k": hits("d/1")}])
    (folder / "secret.csv").write_text("password\nhunter2\n")
    (folder / "e.duckdb.tmp").mkdir()
    (folder / "e.duckdb.tmp" / "secret.txt").write_text("what did not fit into somebody else's memory")
    found = settings_in(folder)
    load(found, folder / "bundle")
    return found


def test_the_public_views_can_be_asked(settings):
    assert ask(project_of(settings), "select query_id, rank, chunk_id from hits") == (
        ["query_id", "rank", "chunk_id"],
        [["q", 1, "d/1"]],
    )


@pytest.mark.parametrize(
    "sql",
    [
        "from read_csv('{secret}')",
        "from '{secret}'",
        "from read_text('{secret}')",
        "from read_blob('{secret}')",
        "from sniff_csv('{secret}')",
        "from glob('{folder}/*')",
        "select * from query('from read_text(''{secret}'')')",
        "copy runs to '{folder}/out.csv'",
        "copy (select 1) to '/dev/stdout'",
        "export database '{folder}/out'",
        "import database '{folder}/out'",
        "attach '{folder}/other.duckdb'",
        "attach ':memory:' as other",
        "create table memory.main.mine as select 1",
        "create temp table mine as select 1",
        "explain analyze delete from raw.runs",
        "explain analyze create table memory.main.mine (x integer)",
        "explain analyze copy (select 1) to '{folder}/e.duckdb.tmp/x'",
        "explain (analyze, format json) copy (select 1) to '{folder}/e.duckdb.tmp/x'",
        "explain analyze /* /* */ select */ copy (select 1) to '{folder}/e.duckdb.tmp/x'",
        "explain analyze copy (pivot (select 1 a, 'x' b) on b using count(*)) to '{folder}/e.duckdb.tmp/x'",
        "from read_text('{folder}/e.duckdb.tmp/secret.txt')",
        "copy from database store to memory",
        "create table memory.main.mine as pivot (select 1 a, 'x' b) on b using count(*)",
        "update extensions",
        "use memory",
        "detach store",
        "from 'https://example.com/x.parquet'",
        "install httpfs",
        "load httpfs",
        "load '{folder}/x.so'",
        "create secret (type s3)",
        "set memory_limit = '90GB'",
        "set global threads = 1",
        "set enable_external_access = true",
        "reset enable_external_access",
        "set lock_configuration = false",
        "set python_enable_replacements = true",
        "pragma enable_profiling",
        "pragma memory_limit = '90GB'",
        "insert into raw.runs select * from raw.runs",
        "update raw.runs set suite = 'x'",
        "delete from raw.runs",
        "drop table raw.runs",
        "drop view main.runs",
        "alter table raw.runs add column x integer",
        "create table main.mine (x integer)",
        "create view main.mine as select 1",
        "comment on table raw.runs is 'mine'",
        "select getenv('HOME')",
        "from settings",
        "from statements",
    ],
)
def test_files_network_settings_and_writes_are_out_of_reach(settings, sql):
    folder = settings.db.parent
    before = sorted(path.name for path in folder.rglob("*"))
    with pytest.raises(UsageError):
        ask(project_of(settings), sql.format(secret=folder / "secret.csv", folder=folder))
    assert sorted(path.name for path in folder.rglob("*")) == before
    assert ask(project_of(settings), "select count(*) from runs")[1] == [[1]]


def test_a_refused_write_names_the_commands_that_do_write(settings):
    with pytest.raises(UsageError, match="`load`, `run` and `forget`"):
        ask(project_of(settings), "delete from raw.runs")


@pytest.mark.parametrize(
    "sql",
    [
        "from runs",
        "with r as (from runs) select run_id from r",
        "describe runs",
        "summarize runs",
        "show tables",
        "explain from runs",
        "explain analyze (select run_id from runs)",
        "explain (analyze, format json) /* why */ with r as (from runs) from r",
        "explain pivot (select run_id, 'x' as name from runs) on name using count(*)",
        "pragma table_info('raw.runs')",
        "pivot (select run_id, 'x' as name from runs) on name using count(*)",
    ],
)
def test_every_kind_of_question_is_answered(settings, sql):
    columns, rows = ask(project_of(settings), sql)
    assert columns
    assert rows


@pytest.mark.parametrize(
    "sql", ["", "  ", "-- nothing", "select 1; select 2", "select 1; drop table raw.runs"]
)
def test_anything_but_one_statement_is_refused(settings, sql):
    with pytest.raises(UsageError, match="expected one SQL statement"):
        ask(project_of(settings), sql)


@pytest.mark.parametrize("sql", ["select", "nonsense", "select nope from runs", "from no_such_table"])
def test_a_mistake_in_the_sql_is_the_askers_and_shows_duckdbs_words(settings, sql):
    with pytest.raises(UsageError, match="Error"):
        ask(project_of(settings), sql)


def test_every_kind_of_value_is_one_that_json_knows(settings):
    _, rows = ask(
        project_of(settings),
        "select 0.5, 1/0, 'nan'::double, '-inf'::double, date '2026-09-01', timestamp '2026-09-01 02:00', "
        "interval 1 day, blob 'x', [1, null], {'a': [0.25]}, map {'k': 2}, 170141183460469231731687303715884105727",
    )
    written = json.loads(json.dumps(rows, allow_nan=False))
    assert written[0][:6] == [0.5, None, None, None, "2026-09-01", "2026-09-01T02:00:00"]
    assert written[0][8:] == [[1, None], {"a": [0.25]}, {"k": 2}, 2**127 - 1]


def test_two_columns_of_one_name_keep_both_values(settings):
    columns, rows = ask(project_of(settings), "select 1 as a, 2 as a, 3 as a, 4 as a_1")
    assert dict(zip(columns, rows[0], strict=True)) == {"a": 1, "a_1": 2, "a_2": 3, "a_1_1": 4}


def test_without_a_store_the_answer_says_how_to_make_one(tmp_path):
    with pytest.raises(StoreMissing, match="eval-pipeline load"):
        ask(project_of(settings_in(tmp_path)), "select 1")
    assert list(tmp_path.iterdir()) == []
