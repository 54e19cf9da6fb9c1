"""eval-pipeline run"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.options import as_json, with_store
from eval_pipeline.cli.output import print_json, print_line, progress_bar, say, waiting_sentence
from eval_pipeline.words import count

if TYPE_CHECKING:
    from eval_pipeline.store.project import Project


@click.command("run")
@click.argument("run_ids", nargs=-1, metavar="[RUN_ID…]")
@click.option("--all", "everything", is_flag=True, help="Also what is stale for any other reason.")
@click.option(
    "--pages",
    is_flag=True,
    help="Also write HTML pages of what is new to EVAL_PIPELINE_REPORTS, about a second each (the nightly job does).",
)
@with_store
@as_json
def command(run_ids: tuple[str, ...], everything: bool, pages: bool, project: Project, as_json: bool) -> None:
    """Compute, through Dagster, what is missing or was delivered again: for these runs, or for all.

    The newest runs of every suite are then compared with the night before and with their pinned baseline.
    """
    from eval_pipeline.computing.ledger import NEW_DATA_REASONS
    from eval_pipeline.launch import run_in_dagster
    from eval_pipeline.showing.runs import check_runs, runs_without_golden_set

    check_runs(project, run_ids)
    with progress_bar("computing cells") as progress:
        summary = run_in_dagster(
            project,
            run_ids=set(run_ids) or None,
            reasons=None if everything else NEW_DATA_REASONS,
            pages=pages,
            progress=progress,
        )
    if as_json:
        print_json({"format": 1, "runs": sorted(summary.computed.runs), "cells": summary.computed.cells})
        return
    cells = sum(summary.computed.cells.values())
    if cells:
        print_line(f"Computed {count(cells, 'cell')} of {count(len(summary.computed.runs), 'run')}.")
    waiting = runs_without_golden_set(project, run_ids)
    if waiting:
        say(waiting_sentence(waiting))
    elif not cells:
        print_line("Nothing to compute: everything asked for is there.")
    if pages:
        print_line(f"The pages are in {project.settings.reports}.")
