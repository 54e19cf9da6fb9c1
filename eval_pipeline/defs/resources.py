"""The store as a Dagster resource, and what a command hears of its computation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
from dagster_duckdb import DuckDBResource
from pydantic import Field

from eval_pipeline.computing.measure import Progress
from eval_pipeline.defs.processes import _sign_run
from eval_pipeline.settings import Settings
from eval_pipeline.store.lock import Notify
from eval_pipeline.store.open import Connection, open_reader, open_writer

FOLDERS = ("inbox", "reports", "config", "dagster_home")


@dataclass
class Listener:
    """Lives as long as one command; a run that the daemon launches has one that nobody asks."""

    notify: Notify | None = None
    progress: Progress | None = None
    total: int = 0
    done: int = 0
    errors: list[Exception] = field(default_factory=list)

    @contextmanager
    def watching(self) -> Iterator[Progress | None]:
        """The block computes something; how far it got is added to what was done before."""
        reached = 0

        def report(position: int, _: int) -> None:
            nonlocal reached
            reached = position
            if self.progress:
                self.progress(min(self.done + position, self.total), self.total)

        try:
            yield report if self.progress else None
        finally:
            self.done += reached

    @contextmanager
    def hearing_errors(self) -> Iterator[None]:
        """Remember an exception of the block: Dagster would only hand on its text."""
        try:
            yield
        except Exception as error:
            self.errors.append(error)
            raise


class StoreResource(DuckDBResource):
    """The DuckDB file and the folders beside it.

    Every connection goes through the lock that the whole product shares; a plain `duckdb.connect` beside it would fail.
    """

    inbox: str = Field(description="Where bundles are delivered.")
    reports: str = Field(description="Where reports are written.")
    config: str = Field(description="eval-pipeline.toml, which need not exist.")
    own_sql: str | None = Field(default=None, description="A folder of your own definitions.")
    dagster_home: str = Field(description="Where Dagster keeps its events.")

    @classmethod
    def of(cls, settings: Settings) -> StoreResource:
        """The resource that carries these settings."""
        folders: dict[str, Any] = {name: str(getattr(settings, name)) for name in FOLDERS}
        own_sql = str(settings.own_sql) if settings.own_sql else None
        return cls(database=str(settings.db), own_sql=own_sql, **folders)

    @property
    def settings(self) -> Settings:
        """The settings it was made of."""
        folders = {name: Path(getattr(self, name)) for name in FOLDERS}
        own_sql = Path(self.own_sql) if self.own_sql else None
        return Settings(db=Path(self.database), own_sql=own_sql, **folders)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """A run that uses the store says which process it is, so that its death can be noticed."""
        if context.instance and context.run:
            _sign_run(context.instance, context.run)

    @contextmanager
    def get_connection(self) -> Iterator[Connection]:
        """The store for reading and writing, for as short as can be: everybody else waits."""
        with open_writer(self.settings.db) as con:
            yield con

    def reading(self) -> AbstractContextManager[Connection]:
        """The store for reading, for the length of a query or two."""
        return open_reader(self.settings.db)
