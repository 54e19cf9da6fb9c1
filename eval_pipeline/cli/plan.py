"""eval-pipeline plan"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.options import as_json, selecting, with_store
from eval_pipeline.cli.output import (
    end_where_not_held,
    filled,
    listed,
    number,
    print_json,
    print_line,
    progress_bar,
    say,
    table,
)
from eval_pipeline.documents import UNSET
from eval_pipeline.report.pages.html import in_line
from eval_pipeline.words import count

if TYPE_CHECKING:
    from eval_pipeline.planning.reports import PlanReport
    from eval_pipeline.store.project import Project


SHOWN_RUNS = 12


@click.command("plan")
@click.option(
    "--preview", is_flag=True, help="Also compute the new values and show what would change; writes nothing."
)
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="Preview the newest N runs only.")
@click.option(
    "--format", "form", type=click.Choice(["table", "json", "md"]), default="table", show_default=True
)
@selecting
@with_store
@as_json
def command(
    preview: bool,
    sample: int | None,
    form: str,
    only: tuple[str, ...],
    runs: tuple[str, ...],
    since: str | None,
    pinned: bool,
    project: Project,
    as_json: bool,
) -> None:
    """Show what is stale and why, and what recomputing would cost; with --preview what it would do to the numbers.

    Formulas of your own are checked as `metrics --check` does without a run: one that does not hold is named, and the
    exit code is 1.
    """
    from eval_pipeline.planning.plan import find_plan, select_cells
    from eval_pipeline.planning.preview import find_preview
    from eval_pipeline.report.plan import as_markdown

    registry = project.definitions()
    selection = select_cells(registry, only=only, runs=runs, since=since, with_pinned=pinned)
    if preview or sample:
        with progress_bar("previewing") as progress:
            plan = find_preview(project, selection, sample=sample, progress=progress)
    else:
        plan = find_plan(project, selection)
    if as_json or form == "json":
        print_json(plan)
    elif form == "md":
        print_line(as_markdown(plan).rstrip("\n"))
    else:
        print_plan(plan)
    end_where_not_held(project)


def print_plan(plan: PlanReport) -> None:
    """The plan for people."""
    from eval_pipeline.report.plan import (
        because_sentences,
        judgement_sentence,
        offer_sentences,
        versions,
    )

    for warning in plan.warnings:
        say(f"warning: {warning}")
    if plan.judged_runs:
        print_line(filled(judgement_sentence(plan)))
    if not plan.cells and plan.judged_runs:
        return
    if not plan.cells:
        print_line("Nothing is stale: every stored number was made by today's definitions from today's data.")
        for sentence in offer_sentences(plan):
            print_line(filled(sentence))
        return
    rows = [
        (
            asset.name,
            f"{asset.cells:,}",
            listed(asset.reasons),
            versions(asset),
        )
        for asset in plan.assets
    ]
    table(["table", "cells", "why", "version"], rows, numbers=["cells"])
    print_line(
        f"\n{count(plan.cells, 'cell')} of {count(len(plan.runs), 'run')}, about "
        f"{plan.estimated_seconds:.1f} s, {count(plan.judge_calls, 'judge call')}"
    )
    for sentence in because_sentences(plan):
        print_line(filled(sentence))
    for asset in plan.assets:
        if asset.diff:
            print_line("\n" + asset.diff.rstrip())
    if plan.preview is not UNSET:
        _print_preview(plan)
    for sentence in offer_sentences(plan):
        print_line("\n" + filled(sentence))
    first = "" if plan.preview is not UNSET else "; --preview shows the new numbers first"
    print_line("\n" + filled(f'Next: `eval-pipeline apply --reason "…"` computes exactly this{first}.'))


def _print_preview(plan: PlanReport) -> None:
    from eval_pipeline.report import plan as plan_text

    if plan.sampled_runs is not UNSET:
        print_line(f"\n{plan_text.sample_sentence(plan)}")
    for key, entry in plan_text.changed_metrics(plan).items():
        print_line(f"\n{in_line(key)}: {plan_text.what_changes(entry)}")
        spread = plan_text.spread_sentence(entry)
        if spread:
            print_line(f"  {spread}")
        moved = plan_text.moved_runs(entry)
        if moved:
            table(
                ["run", "old", "new"],
                [(run, number(old), number(new)) for run, old, new in moved[-SHOWN_RUNS:]],
                numbers=["old", "new"],
            )
        if len(moved) > SHOWN_RUNS:
            print_line(f"  … and {count(len(moved) - SHOWN_RUNS, 'earlier run')}")
        for sentence in plan_text.order_sentences(entry):
            print_line(f"  {sentence}")
    unchanged = plan_text.unchanged_sentence(plan)
    if unchanged:
        print_line(f"\n{unchanged}")
    verdicts = list(plan_text.verdict_sentences(plan))
    if verdicts:
        print_line()
    for sentence in verdicts:
        print_line(sentence)
