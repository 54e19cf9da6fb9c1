"""What the doors of the product take: a project with these settings at this time, or a store that is open already."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

from eval_pipeline.formulas import registry as registry_module
from eval_pipeline.formulas.registry import Registry, load_registry
from eval_pipeline.settings import Settings, load_settings, utc_now
from eval_pipeline.store.lock import Clock, Notify
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Project, Store


def clock_at(now: dt.datetime | None) -> Clock:
    return utc_now if now is None else lambda: now


def registry_of(settings: Settings) -> Registry:
    """What `load_registry` gives; the shipped definitions alone are read once."""
    if settings.own_sql or settings.config.exists():
        return load_registry(settings)
    return _shipped_registry(registry_module.shipped_sql())  # type: ignore[attr-defined]


@cache
def _shipped_registry(folder: Path) -> Registry:
    return load_registry(replace(load_settings({}), config=folder / "no-configuration"))


def project_of(
    settings: Settings,
    registry: Registry | None = None,
    *,
    now: dt.datetime | None = None,
    notify: Notify | None = None,
) -> Project:
    """With these definitions, or else those that the settings name."""
    return Project(settings, cache(lambda: registry or registry_of(settings)), notify, clock_at(now))


def store_with(con: Connection, registry: Registry | None = None, *, now: dt.datetime | None = None) -> Store:
    """What an open store is, where a test has opened it by itself."""
    return Store(con, project_of(load_settings({}), registry).definitions, clock_at(now))


@contextmanager
def open_reader(db: Path, **options: bool) -> Iterator[Connection]:
    with project_of(load_settings({}, db=db)).read(**options) as store:
        yield store.con


@contextmanager
def open_writer(db: Path, *, notify: Notify | None = None, **options: bool) -> Iterator[Connection]:
    with project_of(load_settings({}, db=db), notify=notify).write(**options) as store:
        yield store.con
