"""eval-pipeline apply"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from eval_pipeline.cli.options import as_json, selecting, with_store
from eval_pipeline.cli.output import end_where_failed, print_json, print_line, progress_bar, say
from eval_pipeline.words import count

if TYPE_CHECKING:
    from eval_pipeline.launch import Summary
    from eval_pipeline.planning.plan import Selection
    from eval_pipeline.planning.reports import PlanReport
    from eval_pipeline.store.project import Project


@click.command("apply")
@click.option("--reason", metavar="TEXT", help="Why: kept beside every number that is replaced.")
@click.option(
    "--pin",
    is_flag=True,
    help="Leave everything stale that is not selected on the definition it was computed with.",
)
@click.option(
    "--judge",
    "judges",
    is_flag=True,
    help="First have judged again what `plan` lists as judge calls; that costs.",
)
@selecting
@with_store
@as_json
def command(
    reason: str | None,
    pin: bool,
    judges: bool,
    only: tuple[str, ...],
    runs: tuple[str, ...],
    since: str | None,
    pinned: bool,
    project: Project,
    as_json: bool,
) -> None:
    """Compute exactly what `plan` lists, through Dagster; interrupted, it goes on where it stopped.

    With --since, older runs stay on the definitions they were computed with: they are pinned, and marked so wherever
    they appear. --only and --runs leave the rest stale; with --pin it is pinned. --pinned gives pins up again.

    Nobody is asked without --judge. With it the judges are asked first, as `rejudge` does; what stops them leaves with
    exit code 6, and the same command goes on.
    """
    from eval_pipeline.planning.apply import pin_older, pin_rest, release_pins
    from eval_pipeline.planning.plan import find_plan, select_cells

    if pin and not (only or runs or since):
        raise click.UsageError("--pin leaves what is not selected: select with --only, --runs or --since")
    if judges and only:
        raise click.UsageError(
            "--judge has answers judged again, whatever is computed of them: leave --only out"
        )
    registry = project.definitions()
    selection = select_cells(registry, only=only, runs=runs, since=since, with_pinned=pinned)
    plan = find_plan(project, selection)
    judged: dict[str, Any] = {}
    if judges and plan.judged_runs:
        judged = _judge(project, plan)
        plan = find_plan(project, selection)
    elif plan.judge_calls:
        say(f"{count(plan.judge_calls, 'judge call')} not made: `eval-pipeline apply --judge` makes them.")
    for warning in plan.warnings:
        say(f"warning: {warning}")
    if pinned:
        release_pins(project, selection)
    n_left = 0
    if pin or since:
        leave = pin_rest if pin else pin_older
        n_left = leave(project, selection, note=reason)
    summary = _compute(project, plan, selection, reason, is_narrowed=bool(only)) if plan.cells else None
    cells = summary.n_cells if summary else 0
    done = sorted(summary.computed.runs) if summary else []
    failed = summary.failed if summary else {}
    if as_json:
        print_json({"format": 1, "cells": cells, "runs": done, "pinned": n_left, "failed": failed} | judged)
    else:
        if cells or not failed:
            print_line(
                f"Computed {count(cells, 'cell')} of {count(len(done), 'run')}."
                if cells
                else "Nothing is stale."
            )
        if n_left:
            print_line(f"{count(n_left, 'cell')} stay on their older definitions (pinned).")
    end_where_failed(failed)


def _judge(project: Project, plan: PlanReport) -> dict[str, Any]:
    """Ask the judges about the runs of the plan, and take in what they said."""
    from eval_pipeline.cli.asking import asked_sentence, not_finished, sums_of
    from eval_pipeline.cli.rejudge import judged_again
    from eval_pipeline.planning.rejudge import load_rejudged

    found = judged_again(project, plan.judged_runs)
    sums = sums_of(found.runs)
    if found.complete:
        load_rejudged(project, found)
    say(f"Judged {count(len(found.complete), 'run')} again: {asked_sentence(sums)}.")
    if found.stopped:
        raise not_finished(found.stopped, "eval-pipeline apply --judge")
    return {"judge_calls": sums["judge_calls"], "usd": sums["usd"]}


def _compute(
    project: Project, plan: PlanReport, selection: Selection, reason: str | None, *, is_narrowed: bool
) -> Summary:
    from eval_pipeline.computing.ledger import EVERY_REASON
    from eval_pipeline.launch import run_in_dagster

    with progress_bar("computing cells") as progress:
        return run_in_dagster(
            project,
            run_ids=set(plan.runs),
            reasons=EVERY_REASON if is_narrowed else None,
            definitions=set(selection.definitions) if selection.definitions else None,
            note=reason,
            progress=progress,
        )
