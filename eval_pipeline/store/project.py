"""What a command works on: the project, and its store while it is open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from eval_pipeline.errors import EvalPipelineError
from eval_pipeline.settings import Settings, utc_now

if TYPE_CHECKING:
    from eval_pipeline.formulas.registry import Registry
    from eval_pipeline.store.lock import Clock, Notify
    from eval_pipeline.store.open import Connection

Definitions = Callable[[], "Registry"]


@dataclass(frozen=True)
class Store:
    """The store while it is open; its clock stands, so that rows written together carry the same time."""

    con: Connection
    definitions: Definitions
    clock: Clock


@dataclass(frozen=True)
class Project:
    """Where everything is, what is defined, who is told, and what time it is (UTC, as the store keeps it)."""

    settings: Settings
    definitions: Definitions
    notify: Notify | None = None
    clock: Clock = utc_now
    is_new: bool = False  # A missing store is created although deliveries to it are kept.

    @contextmanager
    def read(self, *, for_others: bool = False) -> Iterator[Store]:
        """The store for the length of a query or two; `for_others` than this package by itself."""
        from eval_pipeline.store.open import _open_reader

        given = (self.settings.db, self.clock, self.notify, self.settings.patience)
        with _open_reader(*given, for_others=for_others) as con:
            yield Store(con, self.definitions, _standing(self.clock))

    @contextmanager
    def write(self) -> Iterator[Store]:
        """For reading and writing; created, or brought up to date."""
        from eval_pipeline.store.open import _open_writer

        with _open_writer(self.settings.db, self.clock, self.notify, is_new=self.is_new) as con:
            yield Store(con, self.definitions, _standing(self.clock))


def project_of(settings: Settings, *, notify: Notify | None = None, clock: Clock = utc_now) -> Project:
    """The project of these settings; definitions are read, as DuckDB is imported, when somebody first needs them."""

    @cache
    def definitions() -> Registry:
        from eval_pipeline.formulas.registry import load_registry

        try:
            return load_registry(settings)
        except EvalPipelineError as error:
            raise error from None  # Raised while the store is open, it is still no fault of its file.

    return Project(settings, definitions, notify, clock)


def at_one_time(project: Project) -> Project:
    """The project for a command that opens the store more than once: all that it writes carries the same time."""
    return replace(project, clock=_standing(project.clock))


def _standing(clock: Clock) -> Clock:
    now = clock()
    return lambda: now
