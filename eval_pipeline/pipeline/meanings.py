"""The meanings a definition has had, and what changed from one to the next."""

from __future__ import annotations

import difflib
import json
from typing import Any

from eval_pipeline.formulas.definition import Definition
from eval_pipeline.settings import Settings
from eval_pipeline.store.connect import open_reader
from eval_pipeline.store.lock import Tell
from eval_pipeline.store.meanings import meaning_text, meanings_of


def find_history(
    settings: Settings, definition: Definition, *, tell: Tell | None = None
) -> list[dict[str, Any]]:
    """Oldest first: version, fingerprint, since when, how many runs rest on it now, and the difference to the last."""
    names = [definition.name]
    if definition.header.was:
        names.append(f"{definition.schema}.{definition.header.was}")
    with open_reader(settings.db, tell=tell) as con:
        meanings = meanings_of(con, names)
        runs = dict(
            con.execute(
                "select fingerprint, count(*) from ledger.cells where list_contains(?, definition) "
                "group by fingerprint",
                [names],
            ).fetchall()
        )
    found: list[dict[str, Any]] = []
    before = ""
    for meaning in meanings:
        text = meaning_text(json.loads(meaning["header"]), meaning["body"])
        changed = difflib.unified_diff(
            before.splitlines(keepends=True), text.splitlines(keepends=True), "before", "after"
        )
        found.append(
            {
                "name": meaning["name"],
                "version": meaning["version"],
                "fingerprint": meaning["fingerprint"],
                "first_used_at": meaning["first_used_at"].isoformat(timespec="seconds"),
                "runs": runs.get(meaning["fingerprint"], 0),
                "diff": "".join(changed) if before and before != text else "",
            }
        )
        before = text
    return found
