"""SQL from people: read-only, on the store alone, for as long as is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from eval_pipeline.showing.show import _json_value
from eval_pipeline.store.project import Project
from eval_pipeline.store.questions import asking_store

Rows = Iterator[list[Any]]


@contextmanager
def asking(project: Project, sql: str, *, timeout: float = 0) -> Iterator[tuple[list[str], Rows]]:
    """The query's columns, and its rows one after the other, as JSON knows them; writers wait for the block's end."""
    with asking_store(project, sql, timeout=timeout) as (columns, rows):
        yield columns, ([_json_value(value) for value in row] for row in rows)


def ask(project: Project, sql: str, *, timeout: float = 0) -> tuple[list[str], list[list[Any]]]:
    """The query's columns and all of its rows."""
    with asking(project, sql, timeout=timeout) as (columns, rows):
        return columns, list(rows)
