"""An aggregate written back into somebody's knowledge base, a database of SQLite."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing

import pytest

import eval_pipeline
from eval_pipeline.errors import NotAStore, StoreBusy, StoreError, UnknownName, UsageError
from eval_pipeline.showing import sqlite_base

RATES = {"1": 0.5, "3": 0.5, "5": 0.75, "10": 1.0}
AGGREGATE = {
    "hit_at_k": RATES,
    "mrr": 0.62504,
    "recall_at_k_doc": RATES,
    "citation_coverage": None,
    "groundedness": 1,
    "empty_result_rate": 0.0,
    "refusal_correctness": None,
    "total_queries": 4,
    "failed_queries": 0,
}
HOSTILE = "b'; drop table eval_runs; --"


@pytest.fixture
def base(tmp_path):
    db = tmp_path / "kb of mine.sqlite"
    ask(
        db,
        "create table eval_runs (run_id text primary key, started_at text, aggregate_json text)",
        "insert into eval_runs values ('a', 'monday', null), ('b', 'tuesday', 'old')",
        f"""insert into eval_runs values ('{HOSTILE.replace("'", "''")}', null, null)""",
    )
    return db


def ask(db, *statements):
    with closing(sqlite3.connect(db)) as con, con:
        return [con.execute(one).fetchall() for one in statements][-1]


def rows(db):
    return ask(db, "select run_id, started_at, aggregate_json from eval_runs order by run_id")


def beside(db):
    return [path.name for path in db.parent.iterdir() if path != db]


@pytest.mark.parametrize("run_id", ["a", "b", HOSTILE])
def test_the_aggregate_becomes_that_of_this_run_alone(base, run_id):
    before = rows(base)
    eval_pipeline.store_aggregate(run_id, AGGREGATE, db=base)
    for old, new in zip(before, rows(base), strict=True):
        if new[0] == run_id:
            assert new[:2] == old[:2]
            assert json.loads(new[2]) == {**AGGREGATE, "mrr": round(AGGREGATE["mrr"], 4)}
            assert list(json.loads(new[2])) == list(AGGREGATE)
        else:
            assert new == old
    assert beside(base) == []


def test_an_unknown_run_is_an_error_with_close_names_and_nothing_is_written(base):
    before = base.read_bytes()
    with pytest.raises(UnknownName, match="no run named 'aa': did you mean a"):
        eval_pipeline.store_aggregate("aa", AGGREGATE, db=base)
    assert base.read_bytes() == before and beside(base) == []


def test_what_is_no_aggregate_does_not_get_there(base):
    before = base.read_bytes()
    with pytest.raises(UsageError, match="mrr is 'x'"):
        eval_pipeline.store_aggregate("a", {**AGGREGATE, "mrr": "x"}, db=base)
    assert base.read_bytes() == before


@pytest.mark.parametrize(
    "table", ["create table orders (id integer)", "create table eval_runs (run_id text, result text)"]
)
def test_a_database_without_such_runs_is_named_with_what_is_needed(tmp_path, table):
    db = tmp_path / "other.sqlite"
    ask(db, table)
    before = db.read_bytes()
    with pytest.raises(StoreError, match="a table eval_runs with the columns run_id and aggregate_json"):
        eval_pipeline.store_aggregate("a", AGGREGATE, db=db)
    assert db.read_bytes() == before


def test_a_database_that_another_program_writes_is_waited_for_and_then_said_to_be_busy(base, monkeypatch):
    before = rows(base)
    monkeypatch.setattr(sqlite_base, "BUSY_SECONDS", 0.0)
    with closing(sqlite3.connect(base, isolation_level=None)) as other:
        other.execute("begin immediate")
        with pytest.raises(StoreBusy, match="waited 0 s and wrote nothing"):
            eval_pipeline.store_aggregate("a", AGGREGATE, db=base)
        other.execute("rollback")
    assert rows(base) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_database_without_the_right_to_write_says_so_and_stays_as_it_is(base):
    before = base.read_bytes()
    base.chmod(0o444)
    with pytest.raises(StoreError, match=r"cannot be written.+right to write"):
        eval_pipeline.store_aggregate("a", AGGREGATE, db=base)
    assert base.read_bytes() == before


def test_a_database_whose_journal_cannot_be_kept_stays_as_it_is(base):
    before = base.read_bytes()
    base.with_name(base.name + "-journal").mkdir()
    with pytest.raises(StoreError, match="Nothing was written"):
        eval_pipeline.store_aggregate("a", AGGREGATE, db=base)
    assert base.read_bytes() == before


def test_what_the_database_itself_refuses_is_handed_on_and_nothing_is_written(base):
    ask(base, "create trigger closed before update on eval_runs begin select raise(abort, 'closed'); end")
    before = rows(base)
    with pytest.raises(StoreError, match="SQLite says: closed"):
        eval_pipeline.store_aggregate("a", AGGREGATE, db=base)
    assert rows(base) == before


def test_a_damaged_database_of_sqlite_is_not_called_a_store(tmp_path):
    db = tmp_path / "kb.sqlite"
    db.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    with pytest.raises(StoreError, match="SQLite says") as raised:
        eval_pipeline.store_aggregate("a", AGGREGATE, db=db)
    assert "rebuild" not in str(raised.value) and beside(db) == []


def test_a_place_that_cannot_be_looked_into_is_an_error_of_ours(tmp_path):
    with pytest.raises(StoreError, match="cannot be used"):
        eval_pipeline.store_aggregate("a", AGGREGATE, db=tmp_path / ("x" * 300))


def test_every_other_function_says_that_it_reads_no_knowledge_base(base):
    for call in (
        lambda: eval_pipeline.compute_aggregate("a", db=base),
        lambda: eval_pipeline.compare_runs("a", "b", db=base),
    ):
        with pytest.raises(NotAStore, match=r"an SQLite database.*store_aggregate"):
            call()
    assert beside(base) == []
