"""eval-pipeline demo"""

from __future__ import annotations

import datetime as dt

import click

from eval_pipeline.cli.options import with_store
from eval_pipeline.cli.output import count, number, progress_bar, say, table
from eval_pipeline.settings import Settings

HEADLINES = ("hit@5", "mrr", "recall@5_doc", "groundedness", "citation_coverage")


@click.command("demo")
@with_store
def command(settings: Settings) -> None:
    """Load the shipped example (a handbook, 89 questions, eleven nights), run everything, and show what to try."""
    from eval_pipeline.demo import BUNDLE_FOLDER
    from eval_pipeline.formulas.registry import load_registry
    from eval_pipeline.launch import run_in_dagster
    from eval_pipeline.pipeline.load import load_bundles
    from eval_pipeline.pipeline.measure import DUE
    from eval_pipeline.pipeline.headlines import headline_table

    say("Loading the example …")
    report = load_bundles(
        [BUNDLE_FOLDER], settings, now=dt.datetime.now(dt.UTC).replace(tzinfo=None), tell=say
    )
    with progress_bar("computing cells") as progress:
        summary = run_in_dagster(settings, run_ids=None, reasons=DUE, tell=say, progress=progress)
    print(
        f"{count(len(report.runs), 'run')} loaded, {count(report.quarantined, 'row')} quarantined, "
        f"{count(sum(summary.cells.values()), 'cell')} computed.\n"
    )
    rows = headline_table(settings, load_registry(settings), HEADLINES)
    table(
        ["run", *HEADLINES],
        [(run_id, *(number(value) for value in values)) for run_id, values in rows],
        numbers=HEADLINES,
    )
    print(_next_commands(str(settings.db)))


def _next_commands(db: str) -> str:
    return f"""
Three things to try:

  eval-pipeline show nightly-2026-09-17 --no-slices      # the night with the bug: what failed
  eval-pipeline metrics mrr                              # a formula, its edge cases and examples
  printf '[formulas.reciprocal_rank]\\ncutoff = 3\\n' > eval-pipeline.toml && eval-pipeline status
                                                         # change a formula: see exactly what became stale,
                                                         # then `eval-pipeline run --all` and look again

The store is {db}; `eval-pipeline ui` shows its lineage."""
