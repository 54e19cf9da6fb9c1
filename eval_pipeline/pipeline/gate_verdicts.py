"""Verdicts of gates, kept so that the trends of a suite can show them."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from typing import Any

from eval_pipeline.errors import StoreError
from eval_pipeline.settings import Settings
from eval_pipeline.store.comparisons import find_keys, write_gate
from eval_pipeline.store.connect import open_writer, transaction
from eval_pipeline.store.lock import Tell


def keep_verdict(
    settings: Settings, document: Mapping[str, Any], *, now: dt.datetime, tell: Tell | None = None
) -> bool:
    """Keep a verdict as the last one about its pair; a store that cannot be written is no reason not to judge."""
    pair = (document["baseline"], document["candidate"])
    if pair[0] == pair[1] or not _can_be_written(settings):
        return False
    try:
        with open_writer(settings.db, tell=tell) as con, transaction(con):
            keys = find_keys(con, [pair])
            return pair in keys and write_gate(con, keys[pair], document, now=now)
    except StoreError as error:
        if tell:
            tell(f"the verdict is not kept: {error}")
        return False


def _can_be_written(settings: Settings) -> bool:
    return os.access(settings.db, os.W_OK) and os.access(settings.db.parent, os.W_OK)
