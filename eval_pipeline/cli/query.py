"""eval-pipeline query"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.options import as_json, with_store
from eval_pipeline.cli.output import print_json_list, say, table

if TYPE_CHECKING:
    from eval_pipeline.store.project import Project


SHOWN_ROWS = 200


@click.command("query")
@click.argument("sql")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=30,
    metavar="SECONDS",
    show_default=True,
    help="Give the question up after so long, with exit code 5; 0: never.",
)
@with_store
@as_json
def command(sql: str, timeout: float, project: Project, as_json: bool) -> None:
    """Ask the store in SQL, read-only: without files, network or settings.

    \b
    Views: runs, queries, hits, per_query_metrics, run_metrics, comparison_queries,
    formula_history, deliveries, quarantine, lint, run_nights; eval_runs and
    eval_query_results, as knowledge bases call them
    """
    from eval_pipeline.showing.query import asking

    with asking(project, sql, timeout=timeout) as (columns, rows):
        if as_json:
            print_json_list(dict(zip(columns, row, strict=True)) for row in rows)
            return
        found = list(islice(rows, SHOWN_ROWS + 1))
    table(columns, found[:SHOWN_ROWS])
    if len(found) > SHOWN_ROWS:
        say("… and more rows: --json prints all of them")
