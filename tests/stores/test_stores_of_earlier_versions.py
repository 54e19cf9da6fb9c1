"""Stores that earlier versions wrote, with Dagster's home and all: today's commands go on with them as if they were ours.

`bench/store_of_this_version.py` packs one at every release, with what the commands of then said in `expected.json`.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from click.testing import CliRunner

import eval_pipeline
from eval_pipeline import __version__
from eval_pipeline.cli.main import cli
from eval_pipeline.definitions import definitions
from eval_pipeline.errors import EvalPipelineError
from eval_pipeline.upkeep.verify import verify_kept
from tests.dagster_left_alone import nothing_left_of_dagster
from tests.made_once import made_once
from tests.projects import open_reader, open_writer

HERE = Path(__file__).parent
CHANGELOG = HERE.parents[1] / "CHANGELOG.md"
ENDING = ".tar.xz"
ARCHIVES = sorted(path.name.removesuffix(ENDING) for path in HERE.glob(f"*{ENDING}"))
LATER = "deliveries/6-later"
# The run with a row for every part of a bundle.
RICHEST = "wednesday"
SAME_DOCUMENTS = ("runs", "eval_runs")
# Per version: definitions that are stale on their own, and every field of its output that differs today, with the
# change that moved it. In a field, `*` stands for any text.
MOVED: dict[str, dict[str, Any]] = tomllib.loads((HERE / "moved.toml").read_text("utf-8"))


@pytest.fixture(autouse=True, scope="module")
def dagster_left_alone() -> Iterator[None]:
    with nothing_left_of_dagster():
        yield


@pytest.fixture(scope="module", params=ARCHIVES)
def version(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def unpacked(version, tmp_path_factory) -> Path:
    def make(folder: Path) -> None:
        with tarfile.open(HERE / f"{version}{ENDING}") as archive:
            archive.extractall(folder, filter="data")

    return made_once(tmp_path_factory, f"store-of-{version}", make)


@pytest.fixture(scope="module")
def expected(unpacked) -> dict[str, Any]:
    return json.loads((unpacked / "expected.json").read_text("utf-8"))


@pytest.fixture
def store(unpacked, tmp_path) -> Path:
    """A copy of one's own, also to be read: nobody knows what a later version does to an older file."""
    return Path(shutil.copytree(unpacked / "store", tmp_path / "store"))


@contextlib.contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """What somebody who works in this folder has set, and nothing else."""
    before = {name: os.environ[name] for name in os.environ if name.startswith(("EVAL_PIPELINE", "DAGSTER"))}
    for name in before:
        del os.environ[name]
    os.environ["DAGSTER_HOME"] = str(folder / "dagster_home")
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        del os.environ["DAGSTER_HOME"]
        os.environ.update(before)


def call(store: Path, *words: str) -> tuple[int, Any]:
    """Exit code and JSON document of a command; a refusal is the document."""
    with working_in(store):
        done = CliRunner().invoke(cli, [*words, "--json"])
    if isinstance(done.exception, EvalPipelineError):
        return done.exception.exit_code, {"error": str(done.exception)}
    assert done.stdout, (words, done.output, done.exception)
    return done.exit_code, json.loads(done.stdout)


def do(store: Path, *words: str) -> Any:
    code, document = call(store, *words)
    assert code == 0, (words, document)
    return document


def find_differences(store: Path, version: str, questions: list[dict[str, Any]]) -> list[str]:
    """The differences between the output of then and of today that `moved.toml` does not list."""
    moved = moved_fields(version)
    found = []
    for question in questions:
        code, document = call(store, *question["words"])
        command = " ".join(question["words"])
        if code != question["code"]:
            places = [
                (f"{command}/exit code", f"was {question['code']}, is {code}: {document.get('error', '')}")
            ]
        else:
            places = list(differences(question["document"], document, command))
        found += [
            f"{place}: {change}" for place, change in places if not moved.fullmatch(without_times(place))
        ]
    return found


def moved_fields(version: str) -> re.Pattern[str]:
    fields = MOVED.get(version, {}).get("fields", {})
    patterns = (".*".join(map(re.escape, field.split("*"))) for field in fields)
    return re.compile("|".join(patterns) or "(?!)")


def without_times(place: str) -> str:
    """A command's `--as-of` differs between archives; the field list calls it TIME."""
    return re.sub(r"--as-of \S+?(?=[/ ])", "--as-of TIME", place)


def differences(then: Any, now: Any, place: str) -> Iterator[tuple[str, str]]:
    """Fields that are missing or differ today, with the change; additional fields do not matter."""
    then, now = by_name(then), by_name(now)
    if isinstance(then, dict) and isinstance(now, dict):
        for key, value in then.items():
            if key in now:
                yield from differences(value, now[key], f"{place}/{key}")
            else:
                yield f"{place}/{key}", f"was {value!r}, is missing"
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for number, (before, after) in enumerate(zip(then, now, strict=True)):
            yield from differences(before, after, f"{place}/{number}")
    elif not is_same(then, now):
        yield place, f"was {then!r}, is {now!r}"


def by_name(value: Any) -> Any:
    """A list of tables or of numbers with names of their own is looked up by them: there may be more of them today."""
    for keys in (("name",), ("table",), ("label",), ("query_id", "metric")):
        if isinstance(value, list) and all(
            isinstance(one, dict) and one.keys() >= set(keys) for one in value
        ):
            named = {" ".join(str(one[key]) for key in keys): one for one in value}
            return named if len(named) == len(value) else value
    return value


def is_same(then: Any, now: Any) -> bool:
    if isinstance(then, float) and isinstance(now, float):
        # Another processor may round the last digit otherwise.
        return math.isclose(then, now, rel_tol=1e-12, abs_tol=1e-12)
    return bool(then == now) and isinstance(then, bool) == isinstance(now, bool)


@pytest.fixture
def home(store) -> Iterator[dg.DagsterInstance]:
    with working_in(store), dg.DagsterInstance.get() as instance:
        yield instance


def short_name(asset: dict[str, Any]) -> str:
    return str(asset["name"].split(".", 1)[1])


def known_stale(version: str) -> set[str]:
    return set(MOVED.get(version, {}).get("stale", []))


def test_there_is_a_store_to_look_at():
    assert "0.1.0" in ARCHIVES


def test_every_number_is_the_one_of_then(version, store, expected):
    assert find_differences(store, version, expected["as_it_is"]) == []


def test_a_command_that_only_reads_says_once_that_it_brings_the_store_up_to_date(version, store):
    with working_in(store):
        first, again = (CliRunner().invoke(cli, ["status", "--json"]) for _ in range(2))
    assert f"written by eval-pipeline {version}" in first.stderr
    assert f"brought up to date for {__version__}" in first.stderr
    assert (again.stderr, json.loads(again.stdout)) == ("", json.loads(first.stdout))


@pytest.mark.parametrize("words", [["forget", "tuesday", "--dry-run"], ["rebuild", "--yes"]])
def test_at_a_terminal_nobody_is_told_by_a_warning_of_python(version, store, recwarn, words):
    with working_in(store):
        done = CliRunner().invoke(cli, words)
    assert f"written by eval-pipeline {version}" in done.stderr
    assert [str(one.message) for one in recwarn if "written by" in str(one.message)] == []


def test_a_python_session_is_told_as_well(version, store):
    db = store / "data" / "eval.duckdb"
    with pytest.warns(UserWarning, match=f"written by eval-pipeline {version}"), eval_pipeline.open_store(db):
        pass


def test_nothing_is_stale_but_what_the_changelog_names(version, store):
    known = known_stale(version)
    moved = [asset for asset in do(store, "status")["assets"] if asset["stale"] or asset["missing"]]
    by_labels = {short_name(asset) for asset in moved if set(asset["reasons"]) == {"labels"}}
    assert by_labels == set(MOVED[version]["relabelled"])
    assert all(asset["stale"] == 1 for asset in moved if short_name(asset) in by_labels)
    by_themselves = {short_name(asset) for asset in moved if set(asset["reasons"]) != {"parent"}}
    assert by_themselves - by_labels <= known
    changelog = CHANGELOG.read_text("utf-8")
    assert [name for name in known if name not in changelog] == []


@pytest.mark.slow
def test_nothing_is_computed_that_was_computed_then(version, store):
    do(store, "apply")
    assert do(store, "run", "--all")["cells"] == {}


def test_the_schedule_that_was_on_stays_on_and_edited_settings_of_dagster_stay(version, store, home):
    if version == "0.1.0":
        pytest.skip("0.1.0 was packed with its schedule off")
    edited = (store / "dagster_home" / "dagster.yaml").read_text("utf-8")
    do(store, "apply")
    states = home.all_instigator_state()
    assert [(state.instigator_name, state.status.value) for state in states] == [("nightly", "RUNNING")]
    repository = definitions().get_repository_def()
    assert repository.has_schedule_def("nightly")
    assert "max_concurrent_runs: 2" in edited and "start_timeout_seconds: 240" in edited
    assert (store / "dagster_home" / "dagster.yaml").read_text("utf-8") == edited


def test_a_verdict_of_the_gate_was_kept(store):
    assert do(store, "forget", "tuesday", "--dry-run")["rows"]["comparisons.gates"] == 1


def test_the_first_command_that_reads_gives_it_the_views_of_today(store):
    runs, known = (
        do(store, "query", f"select run_id, aggregate_json from {view} order by 1") for view in SAME_DOCUMENTS
    )
    assert runs == known and len(runs) > 3


@pytest.mark.slow
def test_a_store_made_anew_from_its_deliveries_holds_and_says_the_same(version, store, expected):
    """One run is computed, and of all runs that it would be computed from the same."""
    views = [["query", f"from {view} order by all"] for view in ("hits", "queries")]
    held = [do(store, *words) for words in views]
    do(store, "rebuild", "--yes")
    assert [do(store, *words) for words in views] == held
    do(store, "run", RICHEST)
    asked = [question for question in expected["made_anew"] if RICHEST in " ".join(question["words"])]
    assert len(asked) == 2
    assert find_differences(store, version, asked) == []


def test_dagster_shows_the_runs_and_tables_of_then(store, home):
    runs = home.get_runs()
    assert runs
    assert {run.status for run in runs} == {dg.DagsterRunStatus.SUCCESS}
    assert {"monday", "tuesday", "wednesday", "probe"} <= set(home.get_dynamic_partitions("eval_run"))
    known = set(definitions().resolve_all_asset_keys())
    assert [key for key in home.all_asset_keys() if key not in known] == []


@pytest.mark.slow
def test_a_new_run_is_computed_on_top_and_shown_in_dagster(version, store, home, expected):
    table = dg.AssetKey(["metrics", "hit_at_k"])
    assert "thursday" not in home.get_materialized_partitions(table)
    do(store, "load", LATER)
    assert do(store, "run")["runs"] == ["thursday"]
    assert find_differences(store, version, expected["with_one_more_run"]) == []
    assert {"monday", "thursday"} <= home.get_materialized_partitions(table)


def test_nothing_of_what_it_kept_is_called_damaged(store):
    db = store / "data" / "eval.duckdb"
    with open_writer(db):
        pass
    with open_reader(db) as con:
        check = verify_kept(db, con)
    assert check.findings == [] and check.files > check.deliveries > 0
