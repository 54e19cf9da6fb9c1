"""eval-pipeline query"""

from __future__ import annotations

import click

from eval_pipeline.cli.options import as_json, with_store
from eval_pipeline.cli.output import print_json, say, table
from eval_pipeline.settings import Settings
from eval_pipeline.words import count

SHOWN_ROWS = 200


@click.command("query")
@click.argument("sql")
@with_store
@as_json
def command(sql: str, settings: Settings, as_json: bool) -> None:
    """Ask the store in SQL, read-only: without files, network or settings.

    \b
    Views: runs, queries, hits, per_query_metrics, run_metrics, comparison_queries,
    formula_history, deliveries, quarantine, lint, run_nights; eval_runs and
    eval_query_results, as knowledge bases call them
    """
    from eval_pipeline.showing.query import ask

    columns, rows = ask(settings, sql, notify=say)
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
        return
    table(columns, rows[:SHOWN_ROWS])
    if len(rows) > SHOWN_ROWS:
        say(f"… and {count(len(rows) - SHOWN_ROWS, 'row')} more: --json prints all of them")
