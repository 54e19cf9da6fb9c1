"""SQL from people: read-only, on the store alone, for as long as is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from eval_pipeline.settings import Settings
from eval_pipeline.showing.show import _json_value
from eval_pipeline.store.guarded import asking_guarded
from eval_pipeline.store.lock import Notify
from eval_pipeline.store.project import project_of

Rows = Iterator[list[Any]]


@contextmanager
def asking(
    settings: Settings, sql: str, *, timeout: float = 0, notify: Notify | None = None
) -> Iterator[tuple[list[str], Rows]]:
    """The query's columns, and its rows one after the other, as JSON knows them; writers wait for the block's end."""
    with asking_guarded(project_of(settings, notify=notify), sql, timeout=timeout) as (columns, rows):
        yield columns, ([_json_value(value) for value in row] for row in rows)


def ask(
    settings: Settings, sql: str, *, timeout: float = 0, notify: Notify | None = None
) -> tuple[list[str], list[list[Any]]]:
    """The query's columns and all of its rows."""
    with asking(settings, sql, timeout=timeout, notify=notify) as (columns, rows):
        return columns, list(rows)
