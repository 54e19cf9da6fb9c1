"""Compacting: a smaller file with the same contents, or the old file as it was."""

from __future__ import annotations

import shutil
from collections import namedtuple

import pytest

from eval_pipeline.errors import StoreError, StoreMissing
from eval_pipeline.settings import load_settings, shipped_sql
from eval_pipeline.store.compact import compact
from eval_pipeline.store.open import transaction
from tests.bundle_files import ask, compute, derived_tables, load, settings_in, write_run
from tests.faults.dying import Disturbed
from tests.projects import open_reader, open_writer, project_of
from tests.upkeep.forgettable import SECRET, TWO_FORMULAS, places_with

Usage = namedtuple("Usage", "total used free")


def public_views(settings):
    with open_reader(settings.db) as con:
        names = con.execute(
            "select view_name from duckdb_views() where not internal and schema_name = 'main' order by all"
        ).fetchall()
        return {name: sorted(con.execute(f"from main.{name}").fetchall(), key=repr) for (name,) in names}


def test_everything_is_the_same_after_compacting(secrets):
    settings, _ = secrets
    before = (derived_tables(settings), public_views(settings))
    compacted = compact(project_of(settings))
    assert (derived_tables(settings), public_views(settings)) == before
    assert compacted.rows == sum(
        n for (n,) in ask(settings, "select estimated_size from duckdb_tables() where not internal")
    )
    numbers = [
        number for (number,) in ask(settings, "select number from main.schema_migrations order by all")
    ]
    assert numbers == sorted(int(path.name[:4]) for path in (shipped_sql() / "schema").glob("[0-9]*.sql"))


def test_loading_and_computing_go_on_after_compacting(secrets_in_part):
    settings, bundle = secrets_in_part
    compact(project_of(settings))
    assert compute(settings, on=3, definitions=TWO_FORMULAS).cells == {}
    write_run(bundle, "later", [{"query_id": "q1"}])
    assert load(settings, bundle, on=4).runs == ["later"]
    assert compute(settings, on=5, definitions=TWO_FORMULAS).runs == {"later"}


def test_what_was_removed_is_in_the_file_until_it_is_compacted(secrets_in_part):
    settings, _ = secrets_in_part
    with open_writer(settings.db) as con, transaction(con):
        con.execute("delete from raw.texts")
    assert SECRET.encode() in settings.db.read_bytes()
    with open_writer(settings.db) as con:
        con.execute("update raw.query_ids set query_id = 'q' where contains(query_id, ?)", [SECRET])
        con.execute("delete from ledger.quarantine")
        for table in (
            "raw.results",
            "raw.extraction_cases",
            "raw.spot_checks",
            "labels.strings",
            "labels.supports",
        ):
            con.execute(f"delete from {table}")
        con.execute("update raw.runs set document = '{}'")
        con.execute("delete from raw.chunk_ids where contains(chunk_id, ?)", [SECRET])
        con.execute("delete from ledger.lint")
    compact(project_of(settings))
    shutil.rmtree(settings.db.with_name(settings.db.name + ".deliveries"))
    assert places_with(settings) == []


def test_a_store_with_a_view_upon_a_view_and_a_sequence_keeps_them(secrets_in_part):
    settings, _ = secrets_in_part
    with open_writer(settings.db) as con:
        con.execute("create sequence main.numbers start 7; select nextval('main.numbers')").fetchall()
        con.execute("create view main.z_first as select run_id from main.runs")
        con.execute("create view main.a_second as select run_id from main.z_first")
        con.execute("create macro main.twice(x) as x * 2")
        con.execute("create table main.checked (a integer primary key check (a > 0), b varchar default 'x')")
    compact(project_of(settings))
    with open_writer(settings.db) as con:
        assert con.execute("select nextval('main.numbers'), main.twice(4)").fetchall() == [(8, 8)]
        assert con.execute("select count(*) from main.a_second").fetchall() == [(2,)]
        con.execute("insert into main.checked (a) values (1)")
        assert con.execute("from main.checked").fetchall() == [(1, "x")]
        with pytest.raises(Exception, match="CHECK"):
            con.execute("insert into main.checked values (-1, 'y')")


def compact_to_too_little(db):
    Disturbed("detach fresh", lambda con: con.execute("delete from fresh.raw.hits")).watch_statements()
    with pytest.raises(StoreError, match=r"raw\.hits"):
        compact(project_of(load_settings({}, db=db)))


def test_a_copy_that_differs_does_not_take_the_place(secrets_in_part, prepared):
    settings, _ = secrets_in_part
    before = settings.db.read_bytes()
    done = prepared.start(f"{__name__}:compact_to_too_little", settings.db, folder=settings.db.parent)
    assert done.wait() == 0, done.said
    assert settings.db.read_bytes() == before
    assert not list(settings.db.parent.glob("*.compacting*"))


def test_without_room_for_a_copy_the_store_stays_as_it_is(secrets_in_part, monkeypatch):
    settings, _ = secrets_in_part
    before = settings.db.read_bytes()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**9, 10**9, 1000))
    with pytest.raises(StoreError, match="make room"):
        compact(project_of(settings))
    assert settings.db.read_bytes() == before


def test_there_is_nothing_to_compact_where_there_is_no_store(tmp_path):
    with pytest.raises(StoreMissing):
        compact(project_of(settings_in(tmp_path)))
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_a_killed_compaction_are_removed(secrets_in_part):
    settings, _ = secrets_in_part
    settings.db.with_name("e.duckdb.compacting").write_text(SECRET)
    settings.db.with_name("e.duckdb.compacting.wal").write_text(SECRET)
    compact(project_of(settings))
    assert not list(settings.db.parent.glob("*.compacting*"))


def test_how_far_it_got_is_told(secrets_in_part):
    settings, _ = secrets_in_part
    told: list[tuple[int, int]] = []
    compacted = compact(project_of(settings), progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (compacted.bytes_before, compacted.bytes_before)
