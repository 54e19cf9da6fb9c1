"""eval-pipeline quarantine"""

from __future__ import annotations

import click

from eval_pipeline.cli.options import as_json, with_store
from eval_pipeline.cli.output import count, print_json, say, table
from eval_pipeline.settings import Settings


@click.command("quarantine")
@with_store
@as_json
def command(settings: Settings, as_json: bool) -> None:
    """Show what was rejected: file, line, field, reason and the text as it was delivered."""
    from eval_pipeline.pipeline.quarantine import find_quarantine

    rows = find_quarantine(settings, tell=say)
    if as_json:
        print_json({"format": 1, "rows": rows})
        return
    if not rows:
        print("Nothing is in quarantine.")
        return
    grouped: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (row["field"] or "", row["reason"])
        grouped[key] = grouped.get(key, 0) + 1
    table(
        ["rows", "field", "reason"],
        [
            (f"{n:,}", field, reason)
            for (field, reason), n in sorted(grouped.items(), key=lambda item: -item[1])
        ],
        numbers=["rows"],
    )
    print()
    for row in rows[:10]:
        print(f"{row['path']}:{row['line']}" if row["line"] else row["path"])
        print(f"    {row['field'] + ': ' if row['field'] else ''}{row['reason']}")
        if row["text"]:
            print(f"    {row['text'][:160]}")
    if len(rows) > 10:
        print(f"… and {count(len(rows) - 10, 'row')} more: --json prints all of them")
