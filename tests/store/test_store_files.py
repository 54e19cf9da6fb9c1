"""The store's file: made, brought up to date, refused when it is something else, and its ids as keys."""

from __future__ import annotations

import re
import subprocess
import sys
from random import Random

import duckdb
import pyarrow as pa
import pytest

from eval_pipeline.errors import StoreDamaged, StoreError, StoreMissing
from eval_pipeline.settings import shipped_sql, utc_now
from eval_pipeline.store.keys import find_key, key_of, keys_of
from eval_pipeline.store.open import open_in_memory, transaction
from tests.bundle_files import ask, hits, load, settings_in, write_golden, write_run
from tests.projects import open_reader, open_writer


def numbers(con):
    return [
        row[0] for row in con.execute("select number from main.schema_migrations order by number").fetchall()
    ]


def schema_files():
    return [int(path.name[:4]) for path in sorted((shipped_sql() / "schema").glob("[0-9]*.sql"))]


def test_a_new_store_has_every_schema_file_applied_once(tmp_path):
    for _ in range(2):
        with open_writer(tmp_path / "e.duckdb") as con:
            assert numbers(con) == schema_files()


def test_schema_files_are_numbered_without_gaps():
    assert schema_files() == list(range(1, len(schema_files()) + 1))


def test_a_store_that_lacks_a_schema_file_is_brought_up_to_date_by_a_reader_too(tmp_path):
    db = tmp_path / "e.duckdb"
    (rules,) = (shipped_sql() / "schema").glob("*_rules.sql")
    views = re.findall(r"^create or replace view (\S+)", rules.read_text("utf-8"), re.MULTILINE)
    assert views
    with open_writer(db) as con:
        con.execute("delete from main.schema_migrations where name = ?", [rules.name])
        for view in reversed(views):
            con.execute(f"drop view {view}")
    with open_reader(db) as con:
        assert numbers(con) == schema_files()
        assert [con.execute(f"select count(*) from {view}").fetchall() for view in views] == [[(0,)]] * len(
            views
        )


@pytest.mark.parametrize("content", [b"", b"no database at all\0, but long enough to look at" * 100])
def test_a_file_that_is_no_store_is_refused_and_left_as_it_is(tmp_path, content):
    db = tmp_path / "e.duckdb"
    db.write_bytes(content)
    with pytest.raises(StoreDamaged, match="eval-pipeline load"), open_reader(db):
        pass
    assert db.read_bytes() == content


def test_a_store_that_is_not_there_is_not_made_by_reading(tmp_path):
    with pytest.raises(StoreMissing, match="EVAL_PIPELINE_DB"), open_reader(tmp_path / "e.duckdb"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_store_below_a_file_cannot_be_made_and_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be used"), open_writer(tmp_path / "file" / "e.duckdb"):
        pass


def test_a_folder_at_the_stores_place_is_refused(tmp_path):
    (tmp_path / "e.duckdb").mkdir()
    with pytest.raises(StoreError, match="is a folder"), open_writer(tmp_path / "e.duckdb"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["e.duckdb"]


FILL_THE_DISK = """
import json, resource, signal, sys
from pathlib import Path
from eval_pipeline.errors import StoreError
from tests.bundle_files import load, settings_in
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder, limit = Path(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    load(settings_in(folder), folder / "bundle")
except StoreError as error:
    print(str(error).splitlines()[0])
"""


@pytest.mark.needs_process
def test_a_full_disk_is_named_and_leaves_the_store_as_it_was(tmp_path):
    """A file that must not grow further is to the store what a full disk is."""
    rng = Random("full disk")
    settings = settings_in(tmp_path)
    write_golden(tmp_path / "bundle", [{"query_id": "q"}])
    load(settings, tmp_path / "bundle")
    size = settings.db.stat().st_size
    rows = [
        {"query_id": f"q{number}", "answer": {"text": f"{rng.getrandbits(8000):x}"}} for number in range(3000)
    ]
    write_run(tmp_path / "bundle", "run-1", rows)
    done = subprocess.run(
        [sys.executable, "-c", FILL_THE_DISK, str(tmp_path), str(max(size, 4 << 20))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-1500:]
    assert str(tmp_path) in done.stdout
    assert ask(settings, "select count(*) from raw.runs") == [(0,)]
    assert load(settings, tmp_path / "bundle").runs == ["run-1"]


def test_a_failed_transaction_leaves_nothing_behind(tmp_path):
    db = tmp_path / "e.duckdb"
    with open_writer(db) as con, pytest.raises(RuntimeError), transaction(con):
        key_of(con, "dataset", "kb")
        raise RuntimeError
    with open_reader(db) as con:
        assert find_key(con, "dataset", "kb") is None


def test_an_id_keeps_its_key_and_new_ids_get_the_next_ones():
    with open_in_memory(utc_now) as con:
        first = keys_of(con, "query", pa.array(["a", "b", None, "a"])).to_pylist()
        assert first == [1, 2, None, 1]
        assert keys_of(con, "query", pa.chunked_array([["c"], ["b", "d"]])).to_pylist() == [3, 2, 4]
        assert keys_of(con, "query", pa.array([], pa.string())).to_pylist() == []
        assert find_key(con, "query", "c") == 3
        assert find_key(con, "query", "zz") is None


def test_ids_that_look_alike_are_not_the_same():
    alike = [
        "caf\u00e9",
        "cafe\u0301",
        "A",
        "a",
        " a",
        "a ",
        "1",
        "01",
        "ﬁ",
        "fi",
        "ß",
        "ss",
        "\u200b",
        "'",
        '"',
    ]
    with open_in_memory(utc_now) as con:
        keys = keys_of(con, "chunk", pa.array(alike)).to_pylist()
        assert len(set(keys)) == len(alike)
        assert keys_of(con, "chunk", pa.array(list(reversed(alike)))).to_pylist() == list(reversed(keys))


def test_foreign_programs_that_read_the_store_see_plain_duckdb(tmp_path):
    """Nothing in the file needs this package: views and tables open with duckdb alone."""
    settings = settings_in(tmp_path)
    write_golden(tmp_path / "bundle", [{"query_id": "q"}])
    write_run(tmp_path / "bundle", "run-1", [{"query_id": "q"}])
    load(settings, tmp_path / "bundle")
    with duckdb.connect(str(settings.db), read_only=True) as con:
        names = [
            f"{schema}.{view}"
            for schema, view in con.execute(
                "select schema_name, view_name from duckdb_views() where not internal"
            ).fetchall()
        ]
        for name in names:
            con.execute(f"select count(*) from {name}").fetchall()
        assert {
            "main.runs",
            "main.queries",
            "main.hits",
            "main.per_query_metrics",
            "main.run_metrics",
            "main.deliveries",
            "main.quarantine",
        } <= set(names)


def test_runs_and_results_are_there_by_the_names_that_knowledge_bases_have_for_them(tmp_path):
    settings = settings_in(tmp_path)
    answer = {"text": "So it is.", "grounded": True, "citations": [{"citation": "d/2"}, {"citation": None}]}
    results = [{"query_id": "q", "hits_top_k": hits("d/1", "d/2"), "answer": answer}]
    write_golden(tmp_path / "bundle", [{"query_id": "q"}])
    write_run(tmp_path / "bundle", "run-1", results, commit_hash="c0ffee")
    write_run(tmp_path / "bundle", "run-2", [{"query_id": "q", "error": "no index"}])
    load(settings, tmp_path / "bundle")
    runs = "select run_id, dataset, commit_hash, aggregate_json from eval_runs order by run_id"
    assert ask(settings, runs) == [("run-1", "kb", "c0ffee", None), ("run-2", "kb", None, None)]
    found = ask(
        settings,
        "select run_id, query_id, answer, grounded, citations, error, hits_top_k from eval_query_results order by 1",
    )
    assert [row[:6] for row in found] == [
        ("run-1", "q", "So it is.", True, ["d/2", None], None),
        ("run-2", "q", None, None, None, "no index"),
    ]
    assert [[(hit["rank"], hit["chunk_id"], hit["doc_id"]) for hit in row[6]] for row in found] == [
        [(1, "d/1", "d"), (2, "d/2", "d")],
        [],
    ]
