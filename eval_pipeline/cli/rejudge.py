"""eval-pipeline rejudge"""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.asking import (
    INTERRUPTED,
    QUARANTINED,
    asked_sentence,
    not_finished,
    progress_line,
    run_document,
    say_failed_judgements,
    say_skipped,
    sums_of,
)
from eval_pipeline.cli.options import RUN_ID, as_json, with_store
from eval_pipeline.cli.output import end_where_failed, print_json, print_line, say
from eval_pipeline.cli.run import computed_document
from eval_pipeline.errors import UsageError
from eval_pipeline.words import count, usd

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eval_pipeline.launch import Summary
    from eval_pipeline.planning.rejudge import Rejudged
    from eval_pipeline.store.project import Project


@click.command("rejudge")
@click.argument("run_ids", nargs=-1, type=RUN_ID, metavar="[RUN_ID…]")
@click.option("--suite", metavar="NAME", help="Instead of runs: those of this suite.")
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="With --suite: the newest N.  [all]")
@click.option("--judge", metavar="NAME", help="Who judges.  [the judges of the runs' suite]")
@click.option(
    "--budget",
    type=click.FloatRange(min=0, min_open=True),
    metavar="USD",
    help="The most that this may cost.  [budget_usd of the runs' suite, for each run]",
)
@click.option("--dry-run", is_flag=True, help="Only say how many calls there would be; ask nobody.")
@with_store
@as_json
def command(
    run_ids: tuple[str, ...],
    suite: str | None,
    last: int | None,
    judge: str | None,
    budget: float | None,
    dry_run: bool,
    project: Project,
    as_json: bool,
) -> None:
    """Judge stored answers again: by another prompt, model or season, or by another judge. No target is called.

    The judgements take the place of those of the same judge, question, season and purpose; all others stay. What was
    paid already is not paid again. A run is replaced when all of it was judged; what stops before leaves with exit
    code 6, and the same command goes on.
    """
    from eval_pipeline.planning.asking_reports import RejudgePlan, RejudgeReport
    from eval_pipeline.planning.named_runs import find_named
    from eval_pipeline.planning.rejudge import last_runs, plan_rejudging

    if bool(run_ids) == (suite is not None) or (last is not None and suite is None):
        raise UsageError("name the runs, or a suite with --suite NAME and, if you like, --last N")
    runs = last_runs(project, suite, last) if suite is not None else list(find_named(project, run_ids))
    runs = list(dict.fromkeys(runs))
    if dry_run:
        planned = plan_rejudging(project, runs, judge)
        if as_json:
            print_json(
                RejudgePlan(
                    format=1,
                    dry_run=True,
                    runs=runs,
                    target_calls=0,
                    judge_calls=planned.calls,
                    cached=planned.cached,
                    usd=planned.usd,
                    skipped=dict(planned.skipped),
                )
            )
            return
        print_line(
            f"{count(len(runs), 'run')} would take {count(planned.calls, 'judge call')}, {planned.cached:,} cached: "
            f"{usd(planned.usd)}."
        )
        say_skipped(planned.skipped)
        say("Nobody was asked.")
        return
    found = judged_again(project, runs, judge=judge, budget_usd=budget)
    sums = sums_of(found.runs)
    quarantined, summary = taken_in(project, found)
    if as_json:
        asked = [run_document(one) for one in found.runs]
        print_json(RejudgeReport(format=1, runs=asked, computed=computed_document(summary), **sums))
    else:
        print_line(f"Judged {count(len(found.complete), 'run')} again: {asked_sentence(sums)}.")
        say_skipped(sums["skipped"])
        for one in found.complete:
            why = f"`eval-pipeline calls --failed --run {one.run_id}` says why, the same command asks again"
            say_failed_judgements(one.run_id, one.failed, one.judge_calls, why)
        if summary is not None:
            from eval_pipeline.cli.run import print_computed

            print_computed(summary)
    if found.stopped:
        raise not_finished(found.stopped, _same_command(run_ids, suite, last, judge, budget))
    end_where_failed(summary.failed if summary else {})
    if quarantined:
        sys.exit(QUARANTINED)


def judged_again(
    project: Project, runs: Sequence[str], *, judge: str | None = None, budget_usd: float | None = None
) -> Rejudged:
    """Ask, with a line that says where it stands."""
    from eval_pipeline.evaluating.executor import interruptible
    from eval_pipeline.planning.rejudge import rejudge

    with interruptible() as stop, progress_line() as tell:
        return rejudge(project, runs, judge=judge, budget_usd=budget_usd, stop=stop, tell=tell)


def taken_in(project: Project, found: Rejudged) -> tuple[int, Summary | None]:
    """Load what was judged to its end, and compute it; after Ctrl-C nothing is begun any more."""
    from eval_pipeline.cli.run import computed
    from eval_pipeline.planning.rejudge import load_rejudged

    if not found.complete or found.stopped == INTERRUPTED:
        return 0, None
    report = load_rejudged(project, found)
    return report.quarantined, computed(project, [one.run_id for one in found.complete])


def _same_command(
    run_ids: Sequence[str], suite: str | None, last: int | None, judge: str | None, budget: float | None
) -> str:
    words = ["eval-pipeline", "rejudge", *run_ids]
    spent = None if budget is None else f"{budget:g}"
    for option, value in (("--suite", suite), ("--last", last), ("--judge", judge), ("--budget", spent)):
        words += [] if value is None else [option, str(value)]
    return shlex.join(words)
