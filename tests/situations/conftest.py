"""A working folder for each test, and one for all tests of a module that only read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.situations.desk import Desk


def new_desk(folder: Path, empty_store: Path) -> Desk:
    """A folder with an empty store: a copy of one is made faster than a new one."""
    (folder / "data").mkdir(parents=True)
    shutil.copyfile(empty_store, folder / "data" / "eval.duckdb")
    return Desk(folder)


@pytest.fixture
def desk(tmp_path: Path, empty_store: Path) -> Desk:
    return new_desk(tmp_path / "desk", empty_store)


@pytest.fixture(scope="module")
def shared_desk(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Desk:
    return new_desk(tmp_path_factory.mktemp("shared") / "desk", empty_store)
