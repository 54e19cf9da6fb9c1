"""eval-pipeline run"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from eval_pipeline.cli.options import RUN_ID, as_json, with_store
from eval_pipeline.cli.output import (
    end_where_failed,
    print_json,
    print_line,
    progress_bar,
    say,
)
from eval_pipeline.words import count

if TYPE_CHECKING:
    from eval_pipeline.launch import Summary
    from eval_pipeline.planning.asking_reports import Computed
    from eval_pipeline.store.project import Project


@click.command("run")
@click.argument("run_ids", nargs=-1, type=RUN_ID, metavar="[RUN_ID…]")
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
    from eval_pipeline.planning.named_runs import find_named
    from eval_pipeline.showing.runs import check_runs

    run_ids = find_named(project, run_ids)
    check_runs(project, run_ids)
    summary = computed(project, run_ids, everything=everything, pages=pages)
    if as_json:
        print_json({"format": 1, **entry_of(summary)})
        end_where_failed(summary.failed)
        return
    print_computed(summary)
    if not summary.n_cells and not summary.failed:
        print_line("Nothing to compute: nothing is missing or was delivered anew.")
        say("What is stale for another reason, such as new labels, `status` lists and `run --all` computes.")
    if pages:
        print_line(f"The pages are in {project.settings.reports}.")
    end_where_failed(summary.failed)


def computed(
    project: Project, run_ids: Sequence[str], *, everything: bool = False, pages: bool = False
) -> Summary:
    """Compute these runs (none: all), with a bar."""
    from eval_pipeline.computing.ledger import NEW_DATA_REASONS
    from eval_pipeline.launch import run_in_dagster

    with progress_bar("computing cells") as progress:
        return run_in_dagster(
            project,
            run_ids=set(run_ids) or None,
            reasons=None if everything else NEW_DATA_REASONS,
            pages=pages,
            progress=progress,
        )


def entry_of(summary: Summary) -> dict[str, Any]:
    """What was computed, as JSON has it."""
    runs, cells = sorted(summary.computed.runs), summary.computed.cells
    return {"runs": runs, "cells": cells, "failed": summary.failed}


def computed_document(summary: Summary | None) -> Computed | None:
    """The same within the document of a command that does more."""
    from eval_pipeline.planning.asking_reports import Computed

    return None if summary is None else Computed(**entry_of(summary))


def print_computed(summary: Summary) -> None:
    """How much was computed, where something was."""
    if summary.n_cells:
        print_line(
            f"Computed {count(summary.n_cells, 'cell')} of {count(len(summary.computed.runs), 'run')}."
        )
