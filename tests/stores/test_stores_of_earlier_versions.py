"""Stores that earlier versions wrote, with Dagster's home and all: today's commands go on with them as if they were ours.

`bench/store_of_this_version.py` packs one at every release, with what the commands of then said in `expected.json`.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from click.testing import CliRunner

from eval_pipeline.cli.main import cli
from eval_pipeline.definitions import definitions
from tests.made_once import made_once

HERE = Path(__file__).parent
CHANGELOG = HERE.parents[1] / "CHANGELOG.md"
ENDING = ".tar.xz"
ARCHIVES = sorted(path.name.removesuffix(ENDING) for path in HERE.glob(f"*{ENDING}"))
LATER = "deliveries/6-later"
# Of which version's stores which tables are to be computed anew, because they mean something else today or are new.
KNOWN_STALE: dict[str, set[str]] = {}


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
    """Exit code and JSON document of a command."""
    with working_in(store):
        done = CliRunner().invoke(cli, [*words, "--json"])
    assert done.stdout, (words, done.output, done.exception)
    return done.exit_code, json.loads(done.stdout)


def do(store: Path, *words: str) -> Any:
    code, document = call(store, *words)
    assert code == 0, (words, document)
    return document


def answered_otherwise(store: Path, questions: list[dict[str, Any]], *, but: set[str]) -> list[str]:
    """Where today's answers are not the ones of then; what concerns the tables named in `but` is left out."""
    found = []
    for question in questions:
        code, document = call(store, *question["words"])
        command = " ".join(question["words"])
        if code != question["code"]:
            found.append(f"{command}: exit code {code}, was {question['code']}")
        places = differences(question["document"], document, command)
        found += [place for place in places if not concerns(place, but)]
    return found


def differences(then: Any, now: Any, place: str) -> Iterator[str]:
    """Everything that was said then is said now; more may be said."""
    then, now = by_name(then), by_name(now)
    if isinstance(then, dict) and isinstance(now, dict):
        for key, value in then.items():
            if key in now:
                yield from differences(value, now[key], f"{place}/{key}")
            else:
                yield f"{place}/{key}: was {value!r}, is not there any more"
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for number, (one, other) in enumerate(zip(then, now, strict=True)):
            yield from differences(one, other, f"{place}/{number}")
    elif not is_same(then, now):
        yield f"{place}: was {then!r}, is {now!r}"


def by_name(value: Any) -> Any:
    """A list of tables or of numbers with names of their own is looked up by them: there may be more of them today."""
    for keys in (("name",), ("table",), ("query_id", "metric")):
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


def concerns(place: str, tables: set[str]) -> bool:
    """Totals over all tables concern each of them."""
    named = [*tables, *(table.split(".", 1)[1] for table in tables), "status/cells/", "plan/"]
    return bool(tables) and any(name in place for name in named)


@pytest.fixture
def home(store) -> Iterator[dg.DagsterInstance]:
    with working_in(store), dg.DagsterInstance.get() as instance:
        yield instance


def known_stale(version: str) -> set[str]:
    return KNOWN_STALE.get(version, set())


def test_there_is_a_store_to_look_at():
    assert "0.1.0" in ARCHIVES


def test_every_number_is_the_one_of_then(version, store, expected):
    assert answered_otherwise(store, expected["as_it_is"], but=known_stale(version)) == []


def test_nothing_is_stale_but_what_the_changelog_names(version, store):
    assets = do(store, "status")["assets"]
    assert {one["name"] for one in assets if one["stale"] or one["missing"]} <= known_stale(version)
    assert {one["name"] for one in do(store, "plan")["assets"]} <= known_stale(version)
    changelog = CHANGELOG.read_text("utf-8")
    assert [name for name in known_stale(version) if name not in changelog] == []


def test_nothing_is_computed_that_was_computed_then(version, store):
    applied, ran = do(store, "apply"), do(store, "run", "--all")
    if not known_stale(version):
        assert applied["cells"] == 0
    assert set(ran["cells"]) <= known_stale(version)
    assert do(store, "apply")["cells"] == 0


def test_a_verdict_of_the_gate_that_was_kept_is_still_on_the_page_of_its_suite(store):
    with working_in(store):
        done = CliRunner().invoke(cli, ["report", "--suite", "nightly", "--output", "page.html"])
    assert done.exit_code == 0, done.output
    assert "against" in (store / "page.html").read_text("utf-8")


def test_a_store_made_anew_from_its_deliveries_has_the_numbers_it_had_then(version, store, expected):
    do(store, "rebuild", "--yes")
    do(store, "run")
    assert answered_otherwise(store, expected["made_anew"], but=known_stale(version)) == []


def test_dagster_shows_the_runs_and_tables_of_then(store, home):
    runs = home.get_runs()
    assert runs
    assert {run.status for run in runs} == {dg.DagsterRunStatus.SUCCESS}
    assert {"monday", "tuesday", "wednesday", "probe"} <= set(home.get_dynamic_partitions("eval_run"))
    known = set(definitions().resolve_all_asset_keys())
    assert [key for key in home.all_asset_keys() if key not in known] == []


def test_a_new_run_is_computed_on_top_and_shown_in_dagster(version, store, home, expected):
    table = dg.AssetKey(["metrics", "hit_at_k"])
    assert "thursday" not in home.get_materialized_partitions(table)
    do(store, "load", LATER)
    assert do(store, "run")["runs"] == ["thursday"]
    assert answered_otherwise(store, expected["with_one_more_run"], but=known_stale(version)) == []
    assert {"monday", "thursday"} <= home.get_materialized_partitions(table)
