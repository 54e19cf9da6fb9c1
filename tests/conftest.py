"""Stores, and a home for Dagster, that are made once and copied for every test that changes them."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench.faults.preload import NoCompiler, compile_into, environment_with
from eval_pipeline.launch import prepare_home
from eval_pipeline.settings import Settings
from tests.bundle_files import compute, load, settings_in
from tests.few_definitions import shipping, write_few
from tests.made_once import made_once
from tests.prepared import Prepared
from tests.projects import open_writer
from tests.upkeep.forgettable import TWO_FORMULAS, own_copy, write_secret_bundle

# Folders whose single tests take longest: begun first, so that no worker sits over one while the others are done.
LONGEST = ("docs", "faults", "wheel")
# Folders whose tests start processes, a browser or Dagster, or hold documents against what is printed.
NOT_QUICK = ("defs", "demo", "docs", "documents", "faults", "layers", "stores", "wheel")
NOT_QUICK_MARKS = ("slow", "needs_process")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.parent.name not in LONGEST)
    for item in items:
        is_marked = any(item.get_closest_marker(name) for name in NOT_QUICK_MARKS)
        needs_process = "prepared" in getattr(item, "fixturenames", ())
        if not (is_marked or needs_process or item.path.parent.name in NOT_QUICK):
            item.add_marker("quick")


def pytest_configure(config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        cache = tempfile.TemporaryDirectory(prefix="eval-pipeline-cache-")
        os.environ["XDG_CACHE_HOME"] = cache.name
        config.add_cleanup(cache.cleanup)
    if config.option.markexpr == "quick":
        sys.addaudithook(refuse_processes)


def refuse_processes(event: str, arguments: tuple[object, ...]) -> None:
    """What is to be quick starts nothing; xdist has started its workers by other means before."""
    if event == "subprocess.Popen" and "PYTEST_CURRENT_TEST" in os.environ:
        raise AssertionError(f"{arguments[1]} is started: mark the test needs_process")


@pytest.fixture(autouse=True, scope="module")
def shipped_definitions(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """A module with `SHIPS` has these definitions alone as the shipped ones: all take a second for each dataset."""
    names: tuple[str, ...] = getattr(request.module, "SHIPS", ())
    if not names:
        yield
        return
    folder = made_once(
        tmp_path_factory, f"shipped-{request.module.__name__}", lambda place: write_few(place / "sql", *names)
    )
    with shipping(folder / "sql"):
        yield


@pytest.fixture(scope="session")
def preloaded(tmp_path_factory: pytest.TempPathFactory) -> Path | NoCompiler:
    """The library that injects faults, or why there is none here."""
    try:
        return compile_into(tmp_path_factory.mktemp("preload"))
    except NoCompiler as error:
        return error


@pytest.fixture(scope="session")
def faults_library(preloaded: Path | NoCompiler) -> Path:
    if isinstance(preloaded, NoCompiler):
        pytest.skip(str(preloaded))
    return preloaded


@pytest.fixture(scope="session")
def prepared(preloaded: Path | NoCompiler) -> Iterator[Prepared]:
    """A process with everything imported, whose copies may be killed, at a file operation too."""
    process = Prepared(environment_with(preloaded) if isinstance(preloaded, Path) else None)
    yield process
    process.end()


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a store that holds nothing yet: making one takes longer than many a test."""

    def make(folder: Path) -> None:
        with open_writer(settings_in(folder).db):
            pass

    return settings_in(made_once(tmp_path_factory, "empty", make)).db


@pytest.fixture(scope="session")
def loaded_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(folder: Path) -> None:
        load(settings_in(folder), write_secret_bundle(folder / "bundle"))

    return made_once(tmp_path_factory, "loaded", make)


@pytest.fixture(scope="session")
def computed_once(loaded_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(folder: Path) -> None:
        shutil.copytree(loaded_once, folder, dirs_exist_ok=True)
        compute(settings_in(folder))

    return made_once(tmp_path_factory, "computed", make)


@pytest.fixture(scope="session")
def computed_in_part_once(loaded_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(folder: Path) -> None:
        shutil.copytree(loaded_once, folder, dirs_exist_ok=True)
        compute(settings_in(folder), definitions=TWO_FORMULAS)

    return made_once(tmp_path_factory, "computed-in-part", make)


@pytest.fixture(scope="session")
def new_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with its databases made, to be copied: making them takes longer than most of what is tested."""

    def make(folder: Path) -> None:
        from eval_pipeline.defs.event_log import open_home

        settings = replace(settings_in(folder), dagster_home=folder / "dagster_home")
        prepare_home(settings)
        with open_home(settings.dagster_home) as instance:
            instance.get_runs()
            instance.get_dynamic_partitions("eval_run")

    return made_once(tmp_path_factory, "home", make) / "dagster_home"


@pytest.fixture
def secrets(computed_once: Path, tmp_path: Path) -> tuple[Settings, Path]:
    """A store of one's own, computed on day 2, and the bundle it was loaded from on day 1."""
    return own_copy(computed_once, tmp_path)


@pytest.fixture
def secrets_in_part(computed_in_part_once: Path, tmp_path: Path) -> tuple[Settings, Path]:
    """The same with the values of two formulas alone, where it does not matter how many there are."""
    return own_copy(computed_in_part_once, tmp_path)
