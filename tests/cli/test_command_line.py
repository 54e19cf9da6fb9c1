"""What a person or a script meets at the command line: exit codes, streams, JSON, errors that name the way out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from eval_pipeline.cli.main import COMMANDS, main
from eval_pipeline.settings import utc_now
from eval_pipeline.store.lock import writer_lock
from tests.bundle_files import compute, day, hits, load, settings_in, write_golden, write_run

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = "q'; drop table raw.runs; --\u202e🙂"


@pytest.mark.parametrize("name", ["EVAL_PIPELINE_CONFIG", "EVAL_PIPELINE_SQL"])
@pytest.mark.parametrize(
    "words", [["status"], ["load", "."], ["run"], ["metrics"], ["query", "select 1"], ["ui"]]
)
def test_a_setting_that_names_nothing_is_wrong_usage(tmp_path, monkeypatch, capsys, name, words):
    monkeypatch.setenv(name, str(tmp_path / "nowhere"))
    monkeypatch.setenv("EVAL_PIPELINE_DB", str(tmp_path / "e.duckdb"))
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    assert f"error: {name} names {tmp_path / 'nowhere'}, and there is no such" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["eval-pipeline.toml", "sql"])
def test_a_link_to_settings_that_are_not_there_is_wrong_usage(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    Path(name).symlink_to(tmp_path / "unmounted" / name)
    with pytest.raises(SystemExit) as left:
        main(["metrics"])
    assert left.value.code == 2
    assert str(tmp_path / name) in (said := capsys.readouterr().err) and "not there" in said


def test_an_empty_setting_and_a_missing_file_that_nobody_named_are_no_fault(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("EVAL_PIPELINE_CONFIG", "EVAL_PIPELINE_SQL"):
        monkeypatch.setenv(name, "")
    with pytest.raises(SystemExit) as left:
        main(["metrics"])
    assert left.value.code == 0


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two computed runs and one that is only loaded."""
    folder = tmp_path_factory.mktemp("store")
    bundle = folder / "bundle"
    queries = [
        {"query_id": "q1", "expected_chunk_ids": ["a/1"], "expected_doc_ids": ["a"], "category": "factual"},
        {"query_id": HOSTILE, "expected_chunk_ids": ["b/1"], "expected_doc_ids": ["b"]},
    ]
    write_golden(bundle, queries)
    for number, first in enumerate(("a/1", "b/1"), start=1):
        results = [{"query_id": row["query_id"], "hits_top_k": hits(first, "c/1")} for row in queries]
        write_run(bundle, f"night-{number}", results, created_at=day(number).isoformat(), suite="nightly")
    settings = settings_in(folder)
    load(settings, bundle)
    compute(settings)
    write_run(
        folder / "late", "night-3", [{"query_id": "q1"}], created_at=day(3).isoformat(), suite="nightly"
    )
    load(settings, folder / "late", on=4)
    return folder


@pytest.fixture
def ask_cli(store, tmp_path, monkeypatch, capsys):
    """Type a command in an empty folder; gives exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    for name in [one for one in os.environ if one.startswith(("EVAL_PIPELINE", "DAGSTER"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("EVAL_PIPELINE_DB", str(store / "e.duckdb"))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))

    def ask(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main(list(words))
        printed = capsys.readouterr()
        return int(left.value.code or 0), printed.out, printed.err

    return ask


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_in_80_columns(ask_cli, name):
    code, printed, said = ask_cli(name, "--help")
    assert (code, said) == (0, "")
    assert printed.startswith(f"Usage: eval-pipeline {name}")
    assert max(map(len, printed.splitlines())) <= 100
    assert "--help" in printed


def test_help_lists_every_command_with_what_it_does(ask_cli):
    code, printed, _ = ask_cli("--help")
    assert code == 0
    for name, words in COMMANDS.items():
        assert f"  {name} " in printed
        assert words.split()[0] in printed


@pytest.mark.parametrize(
    ("words", "close"),
    [
        (["show", "nigth-1"], "night-1"),
        (["compare", "night-1", "nigth-2"], "night-2"),
        (["export", "night1", "--to", "out"], "night-1"),
        (["metrics", "hit_at_kk"], "hit_at_k"),
        (["metrics", "dcg"], "ndcg@10"),
        (["metrics", "zzzz"], "metrics new zzzz"),
        (["metrics", "recall@5"], "chunk_recall"),
        (["stats"], "status"),
    ],
)
def test_an_unknown_name_ends_with_2_and_names_what_is_close(ask_cli, words, close):
    code, printed, said = ask_cli(*words)
    assert (code, printed) == (2, "")
    assert close in said
    assert "Traceback" not in said


def test_without_a_store_every_reading_command_says_how_to_make_one(ask_cli, tmp_path):
    for words in (["show", "r"], ["status"], ["compare", "a", "b"], ["query", "select 1"], ["quarantine"]):
        code, printed, said = ask_cli(*words, "--db", str(tmp_path / "none.duckdb"))
        assert (code, printed) == (2, ""), words
        assert "eval-pipeline load" in said
    assert not (tmp_path / "none.duckdb").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["show", "night-1"],
        ["status"],
        ["plan"],
        ["metrics", "hit_at_k"],
        ["quarantine"],
        ["explain", "mrr", "night-1", "night-2"],
    ],
)
def test_json_is_one_object_with_its_format_and_nothing_else_on_standard_output(ask_cli, words):
    code, printed, _ = ask_cli(*words, "--json")
    assert code == 0
    document = json.loads(printed)
    assert document["format"] == 1


def test_the_same_question_gives_the_same_bytes(ask_cli):
    for words in (["show", "night-1", "--json"], ["compare", "night-1", "night-2", "--format", "json"]):
        assert ask_cli(*words)[1] == ask_cli(*words)[1]


@pytest.mark.parametrize(
    "words",
    [
        ["show", "night-1"],
        ["status"],
        ["plan"],
        ["compare", "night-1", "night-2"],
        ["metrics"],
        ["quarantine"],
    ],
)
def test_tables_fit_80_columns_and_carry_no_colour_into_a_file(ask_cli, words):
    code, printed, _ = ask_cli(*words)
    assert code == 0
    assert printed.strip()
    assert [line for line in printed.splitlines() if len(line) > 80] == []
    assert "\x1b" not in printed


def test_check_answers_with_the_exit_code(ask_cli, store):
    assert ask_cli("status", "--check")[0] == 1
    assert ask_cli("plan")[0] == 0


def test_ids_come_back_as_they_were_delivered(ask_cli):
    code, printed, _ = ask_cli("show", "night-1", "--per-query")
    assert code == 0
    assert [json.loads(line)["query_id"] for line in printed.splitlines()] == ["q1", HOSTILE]


@pytest.mark.parametrize(
    "sql",
    [
        "delete from raw.runs",
        "create table t as select 1",
        "copy (select 1) to 'out.csv'",
        "from read_csv('/etc/passwd')",
        "from read_text('/etc/hostname')",
        "attach 'other.duckdb'",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "pragma database_list; drop table raw.runs",
        "export database 'out'",
    ],
)
def test_query_cannot_write_nor_reach_files_nor_the_network(ask_cli, tmp_path, sql):
    before = ask_cli("query", "select count(*) as n from runs", "--json")[1]
    code, printed, said = ask_cli("query", sql)
    assert code != 0, printed
    assert "Traceback" not in said
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == []
    assert ask_cli("query", "select count(*) as n from runs", "--json")[1] == before


def test_query_prints_rows_as_objects(ask_cli):
    code, printed, _ = ask_cli("query", "select run_id, suite from runs order by run_id", "--json")
    assert code == 0
    assert json.loads(printed)[0] == {"run_id": "night-1", "suite": "nightly"}


# More than anybody's memory holds, and than could be fetched before the tests end.
ENDLESS_ROWS = "select range as a, 'x' as b from range(1000000000000)"


ENDLESS_COUNT = (
    "select count(*) from range(1000000000) a, range(1000000000) b where a.range % 7 = b.range % 11"
)


@pytest.mark.parametrize("words", [[ENDLESS_COUNT], [ENDLESS_COUNT, "--json"], [ENDLESS_ROWS, "--json"]])
def test_a_question_without_end_ends_by_itself_and_says_what_helps(ask_cli, store, words):
    code, _, said = ask_cli("query", *words, "--timeout", "0.2")
    assert code == 5
    assert "longer than 0.2 s" in said
    assert "--timeout" in said
    with writer_lock(store / "e.duckdb", utc_now, patience=0):
        pass


def test_a_query_fetches_no_more_rows_than_it_shows(ask_cli):
    code, printed, said = ask_cli("query", ENDLESS_ROWS, "--timeout", "0")
    assert code == 0
    assert printed.split()[-2:] == ["199", "x"]
    assert "more rows" in said


@pytest.mark.parametrize("rows", [0, 1, 2500])
def test_a_list_that_is_written_while_it_comes_is_one_json_document(ask_cli, rows):
    code, printed, _ = ask_cli("query", f"select range as a, [range] as b from range({rows})", "--json")
    assert code == 0
    assert printed == json.dumps([{"a": n, "b": [n]} for n in range(rows)], indent=2) + "\n"


def test_an_unexpected_error_is_one_sentence_and_ends_with_70(ask_cli, monkeypatch):
    def fail(*_arguments, **_options):
        raise ZeroDivisionError("something nobody thought of")

    monkeypatch.setattr("eval_pipeline.planning.status.find_status", fail)
    code, printed, said = ask_cli("status")
    assert (code, printed) == (70, "")
    assert "something nobody thought of" in said
    assert "Traceback" not in said
    assert "--traceback" in said


def shell(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(folder),
        "PYTHONPATH": f"{ROOT}:{sysconfig.get_path('purelib')}",
        "EVAL_PIPELINE_DB": str(folder / "e.duckdb"),
    }
    return subprocess.run(
        ["bash", "-c", line], cwd=folder / "bundle", env=environment, capture_output=True, text=True
    )


@pytest.mark.needs_process
def test_a_reader_that_leaves_early_is_no_error(store):
    done = shell(store, "set -o pipefail; python -m eval_pipeline show night-1 --per-query | head -n 1")
    assert done.stdout.count("\n") == 1
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.needs_process
def test_rows_are_written_while_they_come(store):
    done = shell(store, f'python -m eval_pipeline query "{ENDLESS_ROWS}" --json --timeout 0 | head -n 3')
    assert done.stdout == '[\n  {\n    "a": 0,\n'
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.needs_process
def test_a_reader_that_stops_reading_keeps_nobody_out_for_longer_than_the_limit(store):
    words = [sys.executable, "-m", "eval_pipeline", "query", ENDLESS_ROWS, "--json", "--timeout", "0.5"]
    with subprocess.Popen(
        [*words, "--db", str(store / "e.duckdb")], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as asking:
        assert asking.stdout and asking.stdout.read(1) == b"["
        with writer_lock(store / "e.duckdb", utc_now):
            asking.kill()


@pytest.mark.needs_process
def test_an_output_that_cannot_carry_every_character_gets_json_all_the_same(store):
    # Without -S Python itself would not start in a folder with an umlaut: it reads *.pth as ASCII there.
    ascii_python = "LC_ALL=C PYTHONUTF8=0 PYTHONIOENCODING=ascii python -S"
    done = shell(store, f"{ascii_python} -m eval_pipeline show night-1 --per-query")
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["query_id"] for line in done.stdout.splitlines()] == ["q1", HOSTILE]
