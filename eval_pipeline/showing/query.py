"""SQL from people: read-only, on the store alone."""

from __future__ import annotations

from typing import Any

from eval_pipeline.settings import Settings
from eval_pipeline.showing.show import _json_value
from eval_pipeline.store.engine import interruptible
from eval_pipeline.store.guarded import ask_guarded
from eval_pipeline.store.lock import Notify
from eval_pipeline.store.open import open_reader


def ask(settings: Settings, sql: str, *, notify: Notify | None = None) -> tuple[list[str], list[list[Any]]]:
    """The query's columns and rows, as JSON knows them."""
    with open_reader(settings.db, notify=notify, for_others=True) as con, interruptible(con):
        columns, rows = ask_guarded(con, sql)
    return columns, [[_json_value(value) for value in row] for row in rows]
