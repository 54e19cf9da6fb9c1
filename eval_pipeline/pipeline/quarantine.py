"""What was rejected, and why."""

from __future__ import annotations

from typing import Any

from eval_pipeline.settings import Settings
from eval_pipeline.store.connect import open_reader
from eval_pipeline.store.lock import Tell

COLUMNS = ("path", "line", "run_id", "query_id", "field", "reason", "text", "at")


def find_quarantine(settings: Settings, *, tell: Tell | None = None) -> list[dict[str, Any]]:
    """Every rejected piece of input, oldest first."""
    with open_reader(settings.db, tell=tell) as con:
        rows = con.execute(
            "select path, line, run_id, query_id, field, reason, text, strftime(rejected_at, '%Y-%m-%dT%H:%M:%SZ') "
            "from ledger.quarantine order by rejected_at, path, line nulls first"
        ).fetchall()
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]
