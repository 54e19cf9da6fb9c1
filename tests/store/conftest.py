"""A computed store with secrets in it, made once and copied for every test that changes it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from eval_pipeline.settings import Settings
from tests.bundle_files import compute, load, settings_in
from tests.store.forgettable import write_secret_bundle


@pytest.fixture(scope="session")
def computed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("secrets")
    settings = settings_in(folder)
    load(settings, write_secret_bundle(folder / "bundle"))
    compute(settings)
    return folder


@pytest.fixture
def secrets(computed_once: Path, tmp_path: Path) -> tuple[Settings, Path]:
    """A store of one's own, computed on day 2, and the bundle it was loaded from on day 1."""
    shutil.copytree(computed_once, tmp_path, dirs_exist_ok=True)
    return settings_in(tmp_path), tmp_path / "bundle"
