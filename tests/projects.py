"""What the doors of the product take: a project with these settings at this time, or a store that is open already."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from eval_pipeline.formulas.registry import Registry
from eval_pipeline.settings import Settings, load_settings, utc_now
from eval_pipeline.store import project as product
from eval_pipeline.store.lock import Clock, Notify
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Project, Store


def clock_at(now: dt.datetime | None) -> Clock:
    return utc_now if now is None else lambda: now


def project_of(
    settings: Settings,
    registry: Registry | None = None,
    *,
    now: dt.datetime | None = None,
    notify: Notify | None = None,
) -> Project:
    """With these definitions, or else those that the settings name."""
    found = product.project_of(settings, notify=notify, clock=clock_at(now))
    return replace(found, definitions=lambda: registry) if registry else found


def store_of(con: Connection, registry: Registry | None = None, *, now: dt.datetime | None = None) -> Store:
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
