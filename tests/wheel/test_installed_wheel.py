"""The wheel by itself: what somebody has who installed the package and never saw the checkout."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from eval_pipeline.cli.main import COMMANDS
from tests.bundle_files import hits, write_golden, write_run

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """The wheel's files in a folder, and an empty one to work in."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    (folder / "work").mkdir()
    return folder


def run(installed: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of the installed package; the checkout comes behind it, as the libraries do."""
    return subprocess.run(
        [sys.executable, "-m", "eval_pipeline", *words],
        cwd=installed / "work",
        env={"PATH": "/usr/bin:/bin", "HOME": str(installed), "PYTHONPATH": str(installed / "site")},
        capture_output=True,
        text=True,
    )


def test_the_wheel_carries_definitions_and_no_tests(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    shipped = {f"eval_pipeline/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "sql").rglob("*.sql")}
    assert shipped <= set(names)
    assert "eval_pipeline/sql/definitions.lock" in names
    assert [name for name in names if name.startswith(("tests/", "bench/", "docs/"))] == []


def test_the_catalogue_of_the_wheel_is_that_of_the_checkout(installed):
    here = subprocess.run(
        [sys.executable, "-m", "eval_pipeline", "metrics", "--json"],
        cwd=installed / "work",
        env={"PATH": "/usr/bin:/bin", "HOME": str(installed), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    there = run(installed, "metrics", "--json")
    assert there.returncode == 0, there.stderr
    assert str(ROOT) not in there.stdout
    assert len(json.loads(there.stdout)) == len(json.loads(here.stdout))
    fingerprints = [part.split('"')[0] for part in there.stdout.split('"fp1:')[1:]]
    assert fingerprints
    assert fingerprints == [part.split('"')[0] for part in here.stdout.split('"fp1:')[1:]]


@pytest.mark.slow
def test_the_wheel_loads_computes_through_dagster_and_shows(installed):
    bundle = installed / "bundle"
    write_golden(bundle, [{"query_id": "q1", "expected_chunk_ids": ["a/1"]}])
    write_run(bundle, "first", [{"query_id": "q1", "hits_top_k": hits("x/1", "a/1")}])
    for words in (["load", str(bundle)], ["run"]):
        done = run(installed, *words)
        assert done.returncode == 0, done.stderr
    shown = run(installed, "show", "first", "--json")
    assert json.loads(shown.stdout)["metrics"]["mrr"] == {"value": 0.5, "n": 1}
    # Everything that was written lies where the commands were typed.
    assert {path.name for path in (installed / "work").iterdir()} <= {"data", "dagster_home"}
    assert set(COMMANDS) >= {"demo", "load", "run", "show"}
