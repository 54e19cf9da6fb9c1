"""The store and the pages that these tests look at, made once."""

from __future__ import annotations

import pytest

from tests.report.hostile_world import World, build_world
from tests.report.page_reader import PageReader


@pytest.fixture(scope="session")
def report_world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return build_world(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="session")
def pages(report_world: World) -> dict[str, str]:
    """The four pages of the world, by name."""
    from eval_pipeline.pipeline.report import pair_page, run_page, suite_page

    settings, registry = report_world.settings, report_world.registry
    return {
        "run": run_page(settings, registry, "run-b"),
        "pair": pair_page(settings, registry, "run-a", "run-b"),
        "fallback": pair_page(settings, registry, "run-a", "run-c"),
        "suite": suite_page(settings, registry),
    }


@pytest.fixture(scope="session")
def readers(pages: dict[str, str]) -> dict[str, PageReader]:
    return {name: PageReader(page) for name, page in pages.items()}
