from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from eval_pipeline.defs.resources import StoreResource
from eval_pipeline.settings import Settings
from tests.dagster_left_alone import nothing_left_of_dagster
from tests.few_definitions import shipping, write_few

from .deliveries import CHANGED, compute, copied, make_settings
from .ticks import in_the_store

FEW = (CHANGED, "metrics.hit_at_k", "aggregates.run_metrics")


@pytest.fixture(autouse=True, scope="package")
def dagster_left_alone() -> Iterator[None]:
    with nothing_left_of_dagster():
        yield


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
    return write_few(tmp_path_factory.mktemp("few") / "sql", *FEW)


@pytest.fixture(scope="module")
def three_loaded(tmp_path_factory: pytest.TempPathFactory, few_definitions: None) -> Settings:
    """r1, r2 and r3 of one dataset, loaded from a bundle beside the store."""
    settings = make_settings(tmp_path_factory.mktemp("loaded"))
    in_the_store(settings, "r1", "r2", "r3")
    return settings


@pytest.fixture(scope="module")
def three_computed(tmp_path_factory: pytest.TempPathFactory, three_loaded: Settings) -> Settings:
    """The same with their numbers, computed past Dagster."""
    settings = copied(three_loaded, tmp_path_factory.mktemp("computed"))
    compute(settings)
    return settings


@pytest.fixture(scope="module")
def few_definitions(few_files: Path) -> Iterator[None]:
    """Computing, launching and watching are the same for few definitions as for all of them, and quicker."""
    with shipping(few_files):
        yield
