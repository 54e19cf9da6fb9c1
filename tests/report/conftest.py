"""The store and the pages that these tests look at, made once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import pytest

from tests.projects import project_of
from tests.report.hostile_world import HOSTILE, World, build_world, query_id_of
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
    """A page of every kind, by name: alone, as in a site, and as a server has it."""
    from eval_pipeline.report.pages.collect import pair_page, run_page, suite_page
    from eval_pipeline.report.site import asked, collect
    from eval_pipeline.view.addresses import ServerLinks

    settings, registry, links = report_world.settings, report_world.registry, ServerLinks()
    question, sql = query_id_of(4), "select query_id, query from queries"
    return Lazily(
        {
            "run": lambda: run_page(project_of(settings, registry), "run-b"),
            "pair": lambda: pair_page(project_of(settings, registry), "run-a", "run-b"),
            "fallback": lambda: pair_page(project_of(settings, registry), "run-a", "run-c"),
            "suite": lambda: suite_page(project_of(settings, registry)),
            "index": lambda: collect.index_page(project_of(settings, registry), links=links),
            "question": lambda: collect.question_page(
                project_of(settings, registry), "attic", question, links=links
            ),
            "questions": lambda: collect.questions_page(project_of(settings, registry), "attic", links=links),
            "formula": lambda: collect.formula_page(
                project_of(settings, registry), "reciprocal_rank", links=links
            ),
            "search": lambda: asked.search_page(project_of(settings, registry), "question", links=links),
            "sql": lambda: asked.sql_page(project_of(settings, registry), sql, links=links),
            "message": lambda: asked.message_page("Not found", HOSTILE["script"], links=links),
        }
    )


@pytest.fixture(scope="session")
def readers(pages: Mapping[str, str]) -> Mapping[str, PageReader]:
    """The same pages, read."""

    def reading(name: str) -> Callable[[], PageReader]:
        return lambda: PageReader(pages[name])

    return Lazily({name: reading(name) for name in pages})
