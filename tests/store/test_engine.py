"""An engine that is used again carries nothing over from one use to the next, nor from one file to another."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import duckdb
import pytest

from eval_pipeline import open_store
from eval_pipeline.computing.measure import measure
from eval_pipeline.errors import StoreBusy
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.showing.query import ask as ask_guarded
from eval_pipeline.store.checkpoint import LOG_BYTES
from eval_pipeline.store.engine import SETTINGS, attached
from eval_pipeline.store.open import transaction
from tests.bundle_files import ask, compute, day, hits, load, settings_in, write_golden, write_run
from tests.faults.dying import Disturbed
from tests.projects import open_reader, open_writer, project_of


@pytest.fixture
def file(tmp_path):
    """A database of one table with three rows, made and closed."""
    place = tmp_path / "some.duckdb"
    with attached(place) as con:
        con.execute("create table numbers as select range as n from range(3)")
    return place


def count(place) -> int:
    with attached(place, read_only=True) as con:
        return con.execute("select count(*) from numbers").fetchall()[0][0]


@pytest.mark.needs_process
def test_a_closed_file_is_whole_by_itself_and_free_for_other_programs(file):
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    script = (
        "import duckdb, sys; print(duckdb.connect(sys.argv[1]).sql('select sum(n) from numbers').fetchall())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, file], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.strip() == "[(3,)]", done.stderr


def test_the_log_of_a_long_job_comes_into_the_file_between_its_transactions(file):
    sizes = []
    with attached(file) as con:
        con.execute("create table texts (text varchar)")
        for _ in range(6):
            with transaction(con):
                con.execute("insert into texts select repeat(md5(range::varchar), 500) from range(400)")
            log = Path(f"{file}.wal")
            sizes.append(log.stat().st_size if log.exists() else 0)
    assert LOG_BYTES / 2 < max(sizes) <= LOG_BYTES
    assert min(sizes[1:]) == 0
    with attached(file, read_only=True) as con:
        assert con.execute("select count(*) from texts").fetchall() == [(2400,)]


def test_temporary_tables_macros_and_open_transactions_end_with_their_use(file):
    with attached(file) as con:
        con.execute("create temp table mine as select 1")
        con.execute("create temp macro twice(x) as 2 * x")
        con.execute("attach ':memory:' as other")
        con.execute("detach other")
        con.execute("begin transaction")
        con.execute("delete from numbers")
    with attached(file) as con:
        for sql in ("from mine", "select twice(1)"):
            with pytest.raises(duckdb.CatalogException):
                con.execute(sql)
    assert count(file) == 3


def test_a_use_that_fails_spoils_neither_the_file_nor_the_next_use(file):
    with pytest.raises(RuntimeError), attached(file) as con:
        con.execute("set threads = 1")
        con.execute("begin transaction")
        con.execute("delete from numbers")
        raise RuntimeError
    assert count(file) == 3
    with attached(file) as con:
        threads = con.execute("select current_setting('threads')").fetchall()[0][0]
    with duckdb.connect() as untouched:
        assert untouched.execute("select current_setting('threads')").fetchall() == [(threads,)]


def test_what_did_not_fit_into_memory_leaves_no_folder(file):
    with attached(file) as con:
        con.execute("set memory_limit = '40MB'")
        con.execute("create temp table big as select range as i, hash(range) as h from range(4_000_000)")
        ordered = con.execute("select count(*) from (from big order by h)").fetchall()
        assert (file.parent / f"{file.name}.tmp").is_dir()
    assert ordered == [(4_000_000,)]
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    with attached(file) as con:
        limit = con.execute("select current_setting('memory_limit')").fetchall()[0][0]
    assert limit != "38.1 MiB"


OUTSIDE = [
    "from read_text('{other}')",
    "from read_csv('{other}')",
    "from '{other}'",
    "from glob('{folder}/*')",
    "copy numbers to '{folder}/copied.csv'",
    "attach '{folder}/another.duckdb' as another",
    "export database '{folder}/exported'",
    "set enable_external_access = true",
    "set allowed_directories = ['/']",
    "install httpfs",
]


@pytest.mark.parametrize("read_only", [False, True])
def test_a_guarded_engine_opens_no_file_but_its_own_however_often_it_is_used(file, read_only):
    other = file.with_name("numbers.csv")
    other.write_text("n\n7\n")
    for _ in range(3):
        with attached(file, read_only=read_only, guarded=True) as con:
            for sql in OUTSIDE:
                with pytest.raises(duckdb.Error):
                    con.execute(sql.format(other=other, folder=file.parent))
            assert con.execute("select count(*) from numbers").fetchall() == [(3,)]
    assert {path.name for path in file.parent.iterdir()} == {file.name, other.name}
    # What loads and exports has an engine that is not guarded.
    with attached(file) as con:
        assert con.execute(f"select n from read_csv('{other}')").fetchall() == [(7,)]


def test_a_formula_that_reads_a_file_is_not_computed_even_if_it_was_read(tmp_path):
    formula = tmp_path / "sql" / "metrics" / "peek.sql"
    formula.parent.mkdir(parents=True)
    settings = settings_in(tmp_path, EVAL_PIPELINE_SQL=str(tmp_path / "sql"))
    formula.write_text("-- keys: {peek: y}\n\nselect run_key, query_key, n_hits as peek\nfrom raw.results\n")
    (tmp_path / "secret").write_text("x")
    write_golden(tmp_path / "bundle", [{"query_id": "q"}])
    write_run(tmp_path / "bundle", "run-1", [{"query_id": "q", "hits_top_k": hits("d/1")}])
    load(settings, tmp_path / "bundle")
    registry = load_registry(settings)
    peek = registry.get("peek")
    for reading in (
        f"(select size from read_text('{tmp_path}/secret'))",
        f"(select 1 from '{tmp_path}/secret')",
    ):
        body = peek.body.replace("n_hits", reading)
        changed = {**registry.definitions, peek.name: replace(peek, body=body)}
        measured = measure(
            project_of(settings, replace(registry, definitions=changed), now=day(1)),
            definitions={peek.name},
            force=True,
        )
        ((name, _),) = measured.failed
        assert (name, measured.cells.get(name, 0)) == (peek.name, 0)
    measure(project_of(settings, registry, now=day(1)), definitions={peek.name}, force=True)
    assert ask(settings, "select peek from metrics.peek") == [(1.0,)]


def test_guarded_engines_of_many_stores_mix_nothing_up(tmp_path):
    places = [tmp_path / f"{number}.duckdb" for number in range(12)]
    for number, place in [*enumerate(places), *enumerate(places)]:
        with attached(place, guarded=True) as con:
            con.execute("create table if not exists numbers as select unnest(range(?)) as n", [number])
    assert [count(place) for place in places] == list(range(12))


def test_what_did_not_fit_into_the_memory_of_a_guarded_engine_leaves_no_folder(file, monkeypatch):
    monkeypatch.setitem(SETTINGS, "memory_limit", "40MB")
    for _ in range(2):
        with attached(file, guarded=True) as con:
            con.execute("create temp table big as select range as i, hash(range) as h from range(4_000_000)")
            ordered = con.execute("select count(*) from (from big order by h)").fetchall()
            assert (file.parent / f"{file.name}.tmp").is_dir()
        assert ordered == [(4_000_000,)]
        assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_after_a_shut_off_query_the_same_process_loads_and_computes(tmp_path):
    settings = settings_in(tmp_path)
    write_golden(tmp_path / "bundle", [{"query_id": "q"}])
    run = write_run(tmp_path / "bundle", "run-1", [{"query_id": "q", "hits_top_k": hits("d/1")}])
    load(settings, tmp_path / "bundle")
    assert ask_guarded(project_of(settings), "select run_id from runs")[1] == [["run-1"]]
    write_run(tmp_path / "bundle", "run-2", [{"query_id": "q", "hits_top_k": hits("d/2")}])
    assert load(settings, run.with_name("run-2")).runs == ["run-2"]


def test_what_a_notebook_does_in_its_own_block_reaches_no_number_of_ours(tmp_path):
    settings, other = settings_in(tmp_path), tmp_path / "other.duckdb"
    duckdb.connect(str(other)).close()
    write_golden(
        tmp_path / "bundle",
        [{"query_id": "q", "expected_chunk_ids": ["d/1"]}, {"query_id": "Q", "expected_chunk_ids": ["D/1"]}],
    )
    results = [{"query_id": "q", "hits_top_k": hits("D/1")}, {"query_id": "Q", "hits_top_k": hits("D/1")}]
    write_run(tmp_path / "bundle", "run-1", results)
    with open_writer(settings.db):
        pass
    for _ in range(2):
        with open_store(settings.db) as store:
            store.execute("set default_collation = 'nocase'")
            store.execute(f"attach '{other}' as other")
            store.create_function("plus_one", lambda x: x + 1, ["INTEGER"], "INTEGER")
            assert store.execute("select plus_one(1)").fetchall() == [(2,)]
    duckdb.connect(str(other)).close()
    load(settings, tmp_path / "bundle")
    compute(settings, definitions=["metrics.reciprocal_rank"])
    asked = "select query_id, value from per_query_metrics where metric = 'mrr' order by query_id"
    assert ask(settings, asked) == [("Q", 1.0), ("q", 0.0)]


@pytest.mark.needs_process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_works_and_ends_like_any_other(tmp_path):
    settings = settings_in(tmp_path)
    with open_writer(settings.db):
        pass
    script = (
        "import os, sys\nfrom eval_pipeline import open_store\n"
        "def use():\n    with open_store(sys.argv[1]) as s: s.execute('from runs').fetchall()\n"
        "def fail():\n    try:\n        with open_store(sys.argv[1]) as s: s.execute('from nope')\n"
        "    except Exception as error: return type(error).__name__\n"
        "use()\nchild = os.fork()\n"
        "if child == 0:\n    use(); sys.exit(5 if fail() == 'CatalogException' else 6)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])); use()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, settings.db], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.returncode) == ("5\n", 0), done.stderr


def interrupt_at_the_end(place):
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    Disturbed("detach", interrupted).watch_statements()
    with pytest.raises(KeyboardInterrupt) as kept, attached(Path(place)) as con:
        con.execute("select 1").fetchall()
    with attached(Path(place)) as con:
        assert con.execute("select count(*) from numbers").fetchall() == [(3,)]
    del kept


def test_ctrl_c_while_an_engine_is_given_back_leaves_the_file_free(file, prepared):
    done = prepared.start(f"{__name__}:interrupt_at_the_end", file, folder=file.parent)
    assert done.wait() == 0, done.said


def test_ctrl_c_within_a_statement_is_heard_as_ctrl_c(file):
    # How DuckDB itself reports a signal that came while it was busy.
    with pytest.raises(KeyboardInterrupt), attached(file):
        raise RuntimeError("Query interrupted")


def test_two_threads_read_one_store_at_the_same_moment(tmp_path):
    settings = settings_in(tmp_path)
    with open_writer(settings.db):
        pass
    both = Barrier(2, timeout=60)

    def read(_: int) -> list[tuple[int]]:
        with open_reader(settings.db) as con:
            both.wait()
            return con.execute("select count(*) from runs").fetchall()

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(read, range(2))) == [[(0,)], [(0,)]]


@pytest.mark.parametrize("name", ["raw", "visible_rows", "it's"])
def test_a_store_may_be_named_like_anything_inside_of_it(tmp_path, name):
    settings = replace(settings_in(tmp_path), db=tmp_path / f"{name}.duckdb")
    write_golden(tmp_path / "bundle", [{"query_id": "q", "expected_chunk_ids": ["d/1"]}])
    write_run(tmp_path / "bundle", "run-1", [{"query_id": "q", "hits_top_k": hits("d/1")}])
    load(settings, tmp_path / "bundle")
    compute(settings, definitions=["metrics.reciprocal_rank"])
    assert ask(settings, "select value from per_query_metrics where metric = 'mrr'") == [(1.0,)]


def test_a_store_that_the_same_notebook_has_open_is_called_open_and_not_broken(tmp_path):
    settings = settings_in(tmp_path)
    with open_writer(settings.db):
        pass
    with duckdb.connect(str(settings.db)), pytest.raises(StoreBusy, match="open in this very process"):
        ask(settings, "from runs")
    with duckdb.connect(str(settings.db), read_only=True) as theirs:
        assert (
            ask(settings, "select count(*) from runs")
            == theirs.execute("select count(*) from runs").fetchall()
        )
        with pytest.raises(StoreBusy, match="read_only=True"), open_writer(settings.db):
            pass
    assert ask(settings, "select count(*) from runs") == [(0,)]


def test_a_writers_rows_are_there_for_the_next_reader_of_the_same_engine(tmp_path):
    settings = settings_in(tmp_path)
    with open_writer(settings.db) as con, transaction(con):
        con.execute("insert into raw.datasets values (7, 'kb')")
    with open_reader(settings.db) as con:
        assert con.execute("from raw.datasets").fetchall() == [(7, "kb")]
        with pytest.raises(duckdb.InvalidInputException, match="read-only"):
            con.execute("delete from raw.datasets")
