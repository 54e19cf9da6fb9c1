"""The store and the pages that these tests look at, made once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import pytest

from tests.projects import project_of
from tests.report.hostile_world import World, build_world
from tests.report.page_reader import PageReader

T = TypeVar("T")


@pytest.fixture(scope="session")
def report_world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return build_world(tmp_path_factory.mktemp("report"))


class Lazily(Mapping[str, T]):
    """Made when asked for, once: each worker of a parallel test run needs only some."""

    def __init__(self, make: Mapping[str, Callable[[], T]]) -> None:
        self._make = make
        self._made: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self._made:
            self._made[name] = self._make[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._make)

    def __len__(self) -> int:
        return len(self._make)


@pytest.fixture(scope="session")
def pages(report_world: World) -> Mapping[str, str]:
    """The four pages of the world, by name."""
    from eval_pipeline.report.pages.collect import pair_page, run_page, suite_page

    settings, registry = report_world.settings, report_world.registry
    return Lazily(
        {
            "run": lambda: run_page(project_of(settings, registry), "run-b"),
            "pair": lambda: pair_page(project_of(settings, registry), "run-a", "run-b"),
            "fallback": lambda: pair_page(project_of(settings, registry), "run-a", "run-c"),
            "suite": lambda: suite_page(project_of(settings, registry)),
        }
    )


@pytest.fixture(scope="session")
def readers(pages: Mapping[str, str]) -> Mapping[str, PageReader]:
    """The same pages, read."""

    def reading(name: str) -> Callable[[], PageReader]:
        return lambda: PageReader(pages[name])

    return Lazily({name: reading(name) for name in pages})
