from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from eval_pipeline.defs.resources import StoreResource
from eval_pipeline.formulas import registry as registry_module
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.settings import Settings, load_settings, shipped_sql

from .deliveries import CHANGED, make_settings

FEW = (CHANGED, "metrics.hit_at_k", "aggregates.run_metrics")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return make_settings(tmp_path)


@pytest.fixture
def store(settings: Settings) -> StoreResource:
    return StoreResource.of(settings)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


@pytest.fixture(scope="session")
def few_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shipped folder with a few definitions, what they read and what they call."""
    shipped = load_registry(load_settings({}))
    folder = tmp_path_factory.mktemp("few") / "sql"
    shutil.copytree(shipped_sql() / "functions", folder / "functions")
    waiting = list(FEW)
    while waiting:
        one = shipped.definitions.get(waiting.pop())
        if one is not None:
            (folder / one.schema).mkdir(exist_ok=True)
            shutil.copyfile(one.path, folder / one.schema / one.path.name)
            waiting += one.reads
    return folder


@pytest.fixture(scope="module")
def few_definitions(few_files: Path) -> Iterator[None]:
    """Computing, launching and watching are the same for few definitions as for all of them, and quicker."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry_module, "shipped_sql", lambda: few_files)
        patch.setattr(registry_module, "PACKAGE", few_files)
        yield
