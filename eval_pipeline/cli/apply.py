"""eval-pipeline apply"""

from __future__ import annotations

import click

from eval_pipeline.cli.options import as_json, selecting, with_store
from eval_pipeline.cli.output import count, print_json, progress_bar, say
from eval_pipeline.settings import Settings


@click.command("apply")
@click.option("--reason", metavar="TEXT", help="Why: kept beside every number that is replaced.")
@selecting
@with_store
@as_json
def command(
    reason: str | None,
    only: tuple[str, ...],
    runs: tuple[str, ...],
    since: str | None,
    settings: Settings,
    as_json: bool,
) -> None:
    """Compute exactly what `plan` lists, through Dagster; interrupted, it goes on where it stopped.

    With --since, older runs stay on the definitions they were computed with: they are pinned, and marked so.
    """
    from eval_pipeline.formulas.registry import load_registry
    from eval_pipeline.launch import run_in_dagster
    from eval_pipeline.pipeline.apply import pin_older
    from eval_pipeline.pipeline.plan import find_plan, select_cells

    registry = load_registry(settings)
    selection = select_cells(registry, only=only, runs=runs, since=since)
    plan = find_plan(settings, registry, selection, tell=say)
    for warning in plan["warnings"]:
        say(f"warning: {warning}")
    pinned = pin_older(settings, registry, selection, note=reason, tell=say) if since else 0
    if plan["cells"]:
        with progress_bar("computing cells") as progress:
            summary = run_in_dagster(
                settings,
                run_ids=set(plan["runs"]),
                reasons=None,
                definitions=set(selection.definitions) if selection.definitions else None,
                note=reason,
                tell=say,
                progress=progress,
            )
        cells, done = sum(summary.computed.cells.values()), sorted(summary.computed.runs)
    else:
        cells, done = 0, []
    if as_json:
        print_json({"format": 1, "cells": cells, "runs": done, "pinned": pinned})
        return
    print(f"Computed {count(cells, 'cell')} of {count(len(done), 'run')}." if cells else "Nothing is stale.")
    if pinned:
        print(f"{count(pinned, 'cell')} of runs before {since} stay on their older definitions (pinned).")
