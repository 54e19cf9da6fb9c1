"""eval-pipeline rebuild"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.options import as_json, with_store
from eval_pipeline.cli.output import print_json, print_line, progress_bar, say
from eval_pipeline.errors import NotAStore, StoreError, UsageError
from eval_pipeline.words import count

if TYPE_CHECKING:
    from eval_pipeline.store.project import Project
    from eval_pipeline.upkeep.rebuild import RebuildReport


DAMAGED = 3


@click.command("rebuild")
@click.option("--yes", is_flag=True, help="Do not ask, although the store can be read.")
@with_store
@as_json
def command(yes: bool, project: Project, as_json: bool) -> None:
    """Rebuild a broken store from the deliveries that are kept beside it; the old file is moved aside.

    Every kept file is checked first: one that is damaged or missing is named (exit code 3) and written anew from the
    rows that the old store has of it. What was forgotten stays forgotten. What does not come back is said; `run`
    computes the metrics.
    """
    from eval_pipeline.upkeep.rebuild import LOST_ALWAYS, rebuild, why_unreadable

    db = project.settings.db
    try:
        problem = why_unreadable(project)
    except NotAStore:
        raise
    except StoreError as error:
        if not yes:
            raise
        problem = str(error)
    if problem:
        say(problem)
    elif not yes:
        lost = "; ".join(LOST_ALWAYS)
        if not sys.stdin.isatty():
            raise UsageError(
                f"{db} can be read, and these would not come back: {lost}. --yes makes it anew all the same"
            )
        click.confirm(
            f"{db} can be read. These would not come back: {lost}. Make it anew?",
            abort=True,
            err=True,
        )
    with progress_bar("loading deliveries") as progress:
        report = rebuild(project, progress=progress)
    for one in report.damaged:
        say(one.in_words)
    if report.unchecked:
        deliveries = count(report.unchecked, "delivery", plural="deliveries")
        say(f"{deliveries} of an earlier version hold files without checksums: these are taken as they are")
    if as_json:
        moved_to = str(report.moved_to) if report.moved_to else None
        print_json({"format": 1, **asdict(report), "moved_to": moved_to})
    else:
        _print(report)
    if report.damaged:
        sys.exit(DAMAGED)


def _print(report: RebuildReport) -> None:
    print_line(
        f"Made anew from {count(report.deliveries, 'delivery', plural='deliveries')}: "
        f"{count(len(report.runs), 'run')}, {count(report.results, 'result')}, "
        f"{count(len(report.golden_sets), 'golden set')}, {count(len(report.archives), 'archive')}; "
        f"{count(report.quarantined, 'row')} in quarantine."
    )
    if report.moved_to:
        print_line(f"The old file is {report.moved_to}; delete it when you do not need it any more.")
    print_line("Not back: " + "; ".join(report.not_back) + ".")
    if report.forgotten:
        say(f"Left out because it was forgotten: {', '.join(report.forgotten)}")
    say("Next: `eval-pipeline run` computes the metrics.")
