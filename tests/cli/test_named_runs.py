"""Runs named without their ids, listed, held against each other, and completed in the shell."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from eval_pipeline.cli.main import cli, main
from eval_pipeline.settings import utc_now
from eval_pipeline.showing.run_state import run_states
from eval_pipeline.store.lock import writer_lock
from tests.bundle_files import compute, day, hits, load, settings_in, write_golden, write_run
from tests.few_definitions import OF_EVERY_KIND
from tests.projects import project_of

SHIPS = OF_EVERY_KIND

ROOT = Path(__file__).resolve().parents[2]
QUERIES = [
    {"query_id": name, "expected_chunk_ids": [f"{name}/1"], "expected_doc_ids": [name]} for name in "ab"
]
ANSWERS = [{"query_id": name, "hits_top_k": hits(f"{name}/1")} for name in "ab"]
Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two suites: of the nightly one the newest run lacks a result, of the weekly one nothing came before."""
    folder = tmp_path_factory.mktemp("named")
    bundle = folder / "bundle"
    write_golden(bundle, QUERIES)
    write_golden(bundle, QUERIES, dataset="other")
    for number in (1, 2, 3):
        write_run(
            bundle,
            f"night-{number}",
            ANSWERS,
            created_at=day(number).isoformat(),
            suite="nightly",
            config={"embedding_model": "old" if number < 3 else "new", "judge": {"api_key": f"k{number}"}},
        )
    write_run(bundle, "night-4", ANSWERS[:1], created_at=day(4).isoformat(), suite="nightly")
    write_run(bundle, "week-1", ANSWERS, created_at=day(2).isoformat(), suite="weekly", dataset="other")
    settings = settings_in(folder)
    load(settings, bundle)
    compute(settings, run_ids={"night-2", "night-3"}, reasons=None)
    write_run(folder / "late", "waits", ANSWERS, created_at=day(0).isoformat(), dataset="nowhere")
    load(settings, folder / "late")
    compute(settings, run_ids={"waits"}, reasons=None)
    return folder


@pytest.fixture
def ask_cli(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> Ask:
    monkeypatch.chdir(tmp_path)
    for name in [one for one in os.environ if one.startswith(("EVAL_PIPELINE", "DAGSTER"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("EVAL_PIPELINE_DB", str(store / "e.duckdb"))

    def ask(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main(list(words))
        printed = capsys.readouterr()
        return int(left.value.code or 0), printed.out, printed.err

    return ask


def baseline(run_id: str) -> None:
    Path("eval-pipeline.toml").write_text(f'[baselines]\nnightly = "{run_id}"\n', "utf-8")


def test_the_newest_complete_run_is_latest_and_the_first_line_beside_the_data_says_so(ask_cli):
    code, printed, said = ask_cli("show", "@latest", "--json")
    assert (code, json.loads(printed)["run_id"]) == (0, "night-3")
    assert said.splitlines()[0] == "@latest is night-3 (suite nightly, dataset kb)"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["@latest", "--suite", "weekly"], "week-1"),
        (["@latest", "--dataset", "other"], "week-1"),
        (["@previous"], "night-2"),
        (["@previous", "--suite", "nightly"], "night-2"),
        (["@baseline"], "night-1"),
    ],
)
def test_suite_and_dataset_choose_and_previous_and_baseline_are_those_of_latest(ask_cli, words, meant):
    baseline("night-1")
    assert json.loads(ask_cli("show", *words, "--json")[1])["run_id"] == meant


def test_previous_is_that_of_the_other_run_that_is_named(ask_cli):
    found = json.loads(ask_cli("diff", "@previous", "night-2", "--json")[1])
    assert (found["run_a"], found["run_b"]) == ("night-1", "night-2")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "@newest"], "@latest, @previous, @baseline"),
        (["show", "@baseline"], '[baselines] with nightly = "RUN_ID"'),
        (
            ["show", "@previous", "--suite", "weekly"],
            "before week-1 there is no complete run of suite weekly",
        ),
        (["show", "@latest", "--suite", "weakly"], "did you mean weekly?"),
        (["show", "@latest", "--suite", "weekly", "--dataset", "kb"], "no run of suite weekly on dataset kb"),
        (["show", "night-1", "--suite", "nightly"], "no such name is given"),
        (["compare", "@previous", "night-2", "--suite", "weekly"], "night-2 has its own"),
        (["compare", "night-2"], "compare @previous night-2"),
        (["forget", "@latest", "--yes"], "not @latest"),
        (["run", "@nothing"], "@latest, @previous, @baseline"),
        (["plan", "--runs", "@nothing"], "@latest, @previous, @baseline"),
        (["quarantine", "--run", "@nothing"], "@latest, @previous, @baseline"),
    ],
)
def test_what_a_name_cannot_stand_for_ends_with_2_and_the_way_out(ask_cli, words, said):
    code, printed, error = ask_cli(*words)
    assert (code, printed) == (2, "")
    assert said in error


def test_a_baseline_that_the_store_does_not_have_names_the_file_that_says_so(ask_cli):
    baseline("nihgt-1")
    code, _, said = ask_cli("gate")
    assert code == 2
    assert "night-1" in said and "eval-pipeline.toml" in said


def test_compare_without_ids_is_the_newest_complete_run_against_the_one_before(ask_cli):
    code, printed, said = ask_cli("compare", "--json")
    found = json.loads(printed)
    assert (code, found["run_a"], found["run_b"]) == (0, "night-2", "night-3")
    assert said.startswith("@previous is night-2, @latest is night-3 (")


def test_gate_without_ids_takes_the_configured_baseline_else_the_run_before(ask_cli):
    assert json.loads(ask_cli("gate", "--json", "--no-store")[1])["baseline"] == "night-2"
    baseline("night-1")
    assert json.loads(ask_cli("gate", "--json", "--no-store")[1])["baseline"] == "night-1"


@pytest.mark.parametrize("named", ["@latest", "@baseline"])
def test_a_file_is_held_against_a_run_of_a_store_that_is_left_as_it_is(ask_cli, store, named):
    baseline("night-3")
    Path("new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ANSWERS), "utf-8")
    db = store / "e.duckdb"
    before = db.read_bytes()
    code, printed, said = ask_cli("gate", "new.jsonl", "--baseline", named, "--json")
    assert (code in (0, 4), json.loads(printed)["baseline"]) == (True, "night-3"), said
    assert said.startswith(f"{named} is night-3 (suite nightly, dataset kb)\n")
    assert db.read_bytes() == before


def test_a_file_is_held_against_a_store_of_an_earlier_form_that_stays_what_it_is(ask_cli, tmp_path):
    with tarfile.open(ROOT / "tests" / "stores" / "0.1.0.tar.xz") as kept:
        kept.extractall(tmp_path, filter="data")
    (db,) = tmp_path.rglob("*.duckdb")
    before = db.read_bytes()
    Path("new.jsonl").write_text(json.dumps(ANSWERS[0]) + "\n", "utf-8")
    words = ("compare", "@latest", "new.jsonl", "--suite", "nightly", "--json", "--db", str(db))
    code, printed, said = ask_cli(*words)
    assert (code, json.loads(printed)["run_a"]) == (0, "wednesday")
    assert "brought up to date" not in said
    assert db.read_bytes() == before


def test_a_name_beside_a_file_needs_a_store(ask_cli, tmp_path):
    Path("new.jsonl").write_text(json.dumps(ANSWERS[0]) + "\n", "utf-8")
    code, _, said = ask_cli("compare", "@latest", "new.jsonl", "--db", str(tmp_path / "none.duckdb"))
    assert code == 2
    assert "there is no store at" in said and "@latest" in said


# ------------------------------------------------------------------ runs and diff


def test_runs_lists_the_newest_first_each_with_its_state(ask_cli, store):
    found = json.loads(ask_cli("runs", "--json")[1])
    assert found["format"] == 1 and found["n_runs"] == 6
    states = {one["run_id"]: one["state"] for one in found["runs"]}
    assert states == {
        "waits": "waiting",
        "night-4": "missing",
        "night-3": "fresh",
        "night-2": "fresh",
        "week-1": "missing",
        "night-1": "missing",
    }
    with project_of(settings_in(store)).read() as opened:
        assert run_states(opened) == states
    by_id = {one["run_id"]: one for one in found["runs"]}
    assert [one["run_id"] for one in found["runs"]][:2] == ["night-4", "night-3"]
    assert (by_id["night-4"]["n_results"], by_id["night-4"]["missing"]) == (1, 1)
    assert by_id["night-3"]["headline"]["mrr"] == 1.0
    assert by_id["night-1"]["headline"]["mrr"] is None


def test_runs_of_a_suite_are_cut_to_the_last_and_how_many_there_are_is_said(ask_cli):
    code, printed, said = ask_cli("runs", "--suite", "nightly", "--last", "2")
    assert code == 0
    assert [line.split()[0] for line in printed.splitlines()[2:]] == ["night-4", "night-3"]
    assert "2 of 4 runs" in said
    assert len(json.loads(ask_cli("runs", "--suite", "nightly", "--last", "0", "--json")[1])["runs"]) == 4


def test_one_run_shows_its_configuration_without_secrets(ask_cli):
    (one,) = json.loads(ask_cli("runs", "@latest", "--json")[1])["runs"]
    assert one["config"] == {"embedding_model": "new", "judge": {"api_key": "***"}}
    printed = ask_cli("runs", "night-3")[1]
    assert "embedding_model" in printed and "k3" not in printed


def test_diff_gives_both_values_of_what_differs_and_nothing_else(ask_cli):
    found = json.loads(ask_cli("diff", "night-2", "night-3", "--json")[1])
    assert found["differs"] == {"config.embedding_model": ["old", "new"]}
    assert "configured alike" in ask_cli("diff", "night-2", "night-2")[1]
    assert json.loads(ask_cli("diff", "night-3", "week-1", "--json")[1])["differs"].keys() == {
        "dataset",
        "suite",
        "config.embedding_model",
        "config.judge.api_key",
        "labels",
    }


# ------------------------------------------------------------------ completed in the shell


def completed(*words: str) -> list[tuple[str, str]]:
    complete = ShellComplete(cli, {}, "eval-pipeline", "_EVAL_PIPELINE_COMPLETE")
    return [(one.type, one.value) for one in complete.get_completions(list(words[:-1]), words[-1])]


def test_a_shell_completes_run_ids_newest_first_and_files_where_there_may_be_some(ask_cli):
    assert [value for _, value in completed("show", "night")] == ["night-4", "night-3", "night-2", "night-1"]
    assert ("plain", "@latest") in completed("explain", "mrr", "night-1", "@")
    assert completed("compare", "night-1", "week") == [("plain", "week-1"), ("file", "week")]
    assert completed("gate", "night-1", "--baseline", "week")[0] == ("plain", "week-1")
    assert completed("forget", "@") == []


def test_a_shell_is_told_nothing_where_the_store_cannot_be_read_at_once(ask_cli, store, tmp_path):
    assert completed("show", "--db", str(tmp_path / "none.duckdb"), "night") == []
    (tmp_path / "text.duckdb").write_text("no store", "utf-8")
    assert completed("show", "--db", str(tmp_path / "text.duckdb"), "night") == []
    assert sorted(tmp_path.iterdir()) == [tmp_path / "text.duckdb"]
    with writer_lock(store / "e.duckdb", utc_now):
        assert completed("show", "night") == []


# ------------------------------------------------------------------ beside a definition that cannot be read


@pytest.mark.parametrize(
    "words",
    [
        ["show", "night-3"],
        ["compare", "night-2", "night-3"],
        ["report", "night-3", "--output", "page.html"],
        ["runs"],
        ["query", "select 1"],
    ],
)
def test_what_shows_stored_numbers_works_beside_a_definition_that_cannot_be_read(ask_cli, words):
    as_it_is = ask_cli(*words)[1]
    broken = Path("sql/metrics/mine.sql")
    broken.parent.mkdir(parents=True)
    broken.write_text("no header", "utf-8")
    code, printed, said = ask_cli(*words)
    assert (code, printed) == (0, as_it_is)
    assert words[0] == "query" or (str(broken) in said and "Left out: metrics.mine." in said)


@pytest.mark.parametrize(
    "words",
    [["plan"], ["run"], ["gate", "night-3", "--baseline", "night-2"], ["compare", "night-2", "new.jsonl"]],
)
def test_what_computes_or_decides_stops_at_a_definition_that_cannot_be_read(ask_cli, words):
    Path("new.jsonl").write_text(json.dumps(ANSWERS[0]) + "\n", "utf-8")
    broken = Path("sql/metrics/mine.sql")
    broken.parent.mkdir(parents=True)
    broken.write_text("no header", "utf-8")
    code, printed, said = ask_cli(*words)
    assert (code, printed) == (2, "")
    assert str(broken) in said
