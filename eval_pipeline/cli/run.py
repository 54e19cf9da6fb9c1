"""eval-pipeline run"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.options import as_json, with_store
from eval_pipeline.cli.output import (
    end_where_failed,
    print_json,
    print_line,
    progress_bar,
    say,
    waiting_sentence,
)
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

    The newest runs of every suite are then compared with the night before and with their pinned baseline. A formula
    that fails takes nothing with it: everything else is computed, and the exit code is 1.
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
        runs, cells = sorted(summary.computed.runs), summary.computed.cells
        print_json({"format": 1, "runs": runs, "cells": cells, "failed": summary.failed})
        end_where_failed(summary.failed)
        return
    n_cells = summary.n_cells
    if n_cells:
        print_line(f"Computed {count(n_cells, 'cell')} of {count(len(summary.computed.runs), 'run')}.")
    waiting = runs_without_golden_set(project, run_ids)
    if waiting:
        say(waiting_sentence(waiting))
    elif not n_cells and not summary.failed:
        print_line("Nothing to compute: everything asked for is there.")
    if pages:
        print_line(f"The pages are in {project.settings.reports}.")
    end_where_failed(summary.failed)
