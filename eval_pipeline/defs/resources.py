"""The store as a Dagster resource, and what a command hears of its computation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import dagster as dg
from dagster_duckdb import DuckDBResource
from pydantic import Field, field_validator

from eval_pipeline.computing.measure import Progress
from eval_pipeline.defs.processes import _sign_run
from eval_pipeline.errors import FormulaFailed, InvalidConfig, StoreBusy
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.settings import Settings
from eval_pipeline.store.engine import limited
from eval_pipeline.store.lock import Notify
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Project, Store, project_of

MOST_THREADS = 1024
# A run that the daemon launches has all night: the holder of the store ends, or is ended, meanwhile.
BUSY_RETRIES = 3
RETRY_SECONDS = 60.0
FOLDERS = ("inbox", "reports", "config", "dagster_home")


@dataclass
class Listener:
    """Lives as long as one command; a run that the daemon launches has one that nobody asks.

    `failed` are formulas: whatever else was asked for is there.
    """

    notify: Notify | None = None
    progress: Progress | None = None
    total: int = 0
    done: int = 0
    retries: int = 0
    errors: list[Exception] = field(default_factory=list)
    failed: list[Exception] = field(default_factory=list)

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
        """Remember an exception of the block: Dagster would only hand on its text.

        A refusal of the store is no answer yet where nobody waits for one: Dagster begins the step once more.
        """
        try:
            yield
        except Exception as error:
            if self.retries and isinstance(error, StoreBusy):
                raise dg.RetryRequested(self.retries, RETRY_SECONDS) from error
            (self.failed if isinstance(error, FormulaFailed) else self.errors).append(error)
            raise


class StoreResource(DuckDBResource):
    """The DuckDB file and the folders beside it.

    The base would connect by itself, and try ten times more while somebody else has the file. Here every connection
    goes through the lock that the whole product shares: readers and writers take turns, and a process uses its engine
    again (docs/adr 0001 and 0012). A plain `duckdb.connect` beside that would fail, so the base's is not used. Of its
    `connection_config` the limits hold, for every connection and for what the assets compute.
    """

    inbox: str = Field(description="Where bundles are delivered.")
    reports: str = Field(description="Where reports are written.")
    config: str = Field(description="eval-pipeline.toml, which need not exist.")
    own_sql: str | None = Field(default=None, description="A folder of your own definitions.")
    dagster_home: str = Field(description="Where Dagster keeps its events.")
    calls: str | None = Field(default=None, description="Where answers that were paid are kept.")
    named: list[str] = Field(default=[], description="Variables of the environment that chose a place.")

    @classmethod
    def of(cls, settings: Settings) -> StoreResource:
        """The resource that carries these settings."""
        folders: dict[str, Any] = {name: str(getattr(settings, name)) for name in FOLDERS}
        own_sql = str(settings.own_sql) if settings.own_sql else None
        return cls(
            database=str(settings.db),
            own_sql=own_sql,
            calls=str(settings.calls),
            named=list(settings.named),
            **folders,
        )

    @property
    def settings(self) -> Settings:
        """The settings it was made of."""
        folders: dict[str, Any] = {name: Path(getattr(self, name)) for name in FOLDERS}
        own_sql = Path(self.own_sql) if self.own_sql else None
        found = Settings(db=Path(self.database), own_sql=own_sql, named=tuple(self.named), **folders)
        return found if self.calls is None else replace(found, calls=Path(self.calls))

    def project(self, registry: Registry | None = None, listener: Listener | None = None) -> Project:
        """What the product works on; with the definitions of `registry` where they have been read."""
        found = project_of(self.settings, notify=listener.notify if listener else None)
        return replace(found, definitions=lambda: registry) if registry else found

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """A run that uses the store says which process it is, so that its death can be noticed."""
        if context.instance and context.run:
            _sign_run(context.instance, context.run)

    @field_validator("connection_config")
    @classmethod
    def _only_limits(cls, asked: dict[str, Any]) -> dict[str, Any]:
        _limits_of(asked)
        return asked

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Whatever the block computes keeps to the limits, also where it opens the store by its settings."""
        with limited(**_limits_of(self.connection_config)):
            yield

    @contextmanager
    def get_connection(self) -> Iterator[Connection]:
        """The store for reading and writing, for as short as can be: everybody else waits."""
        with self.limited(), self.project().write() as store:
            yield store.con

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """The store for reading, for the length of a query or two."""
        with self.limited(), self.project().read() as store:
            yield store.con

    @contextmanager
    def opened(self, registry: Registry) -> Iterator[Store]:
        """The same, for what asks about these definitions."""
        with self.limited(), self.project(registry).read() as store:
            yield store


def _limits_of(asked: dict[str, Any]) -> dict[str, Any]:
    """The limits that a connection_config names; what else it names would contradict how the product connects."""
    for name, value in asked.items():
        if name not in _LIMITS:
            raise InvalidConfig(
                f"connection_config has no {name!r}; there is: {', '.join(_LIMITS)}; how the file is opened "
                "otherwise is settled, since all connections share one lock"
            )
        is_possible, what_it_is = _LIMITS[name]
        if not is_possible(value):
            raise InvalidConfig(f"connection_config: {name} is {value!r}; it is {what_it_is}")
    return asked


def _is_size(value: Any) -> bool:
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    return bool(found and float(found[1]) > 0)


def _is_folder(value: Any) -> bool:
    """Made when it is first needed; a file cannot become one."""
    return isinstance(value, str) and bool(value.strip()) and not Path(value).is_file()


_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(?:[KMGT]i?B)", re.IGNORECASE)
# Of every key whether a value is possible, and in words what is.
_LIMITS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "threads": (
        lambda value: isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_THREADS,
        f"a whole number from 1 to {MOST_THREADS}",
    ),
    "memory_limit": (_is_size, 'a size such as "500MB" or "2GiB"'),
    "temp_directory": (_is_folder, "a folder for what does not fit into memory"),
}
