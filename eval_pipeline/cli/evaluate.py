"""eval-pipeline evaluate"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

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
from eval_pipeline.cli.options import as_json, with_store
from eval_pipeline.cli.output import end_where_failed, filled, print_json, print_line, say
from eval_pipeline.cli.run import computed_document
from eval_pipeline.documents import UNSET, UnsetType
from eval_pipeline.errors import UsageError
from eval_pipeline.words import count, usd

if TYPE_CHECKING:
    from eval_pipeline.comparing.documents import GateReport
    from eval_pipeline.evaluating.run_bundle import Evaluation
    from eval_pipeline.launch import Summary
    from eval_pipeline.planning.asking_reports import Computed, EvaluateReport
    from eval_pipeline.planning.evaluate import Setup, Wish
    from eval_pipeline.store.project import Project


@click.command("evaluate")
@click.argument("suite", metavar="SUITE")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N questions.")
@click.option("--dry-run", is_flag=True, help="Only say how many calls there would be; ask nobody.")
@click.option(
    "--budget",
    type=click.FloatRange(min=0, min_open=True),
    metavar="USD",
    help="The most that judging may cost.  [budget_usd of the suite]",
)
@click.option("--new", "is_new", is_flag=True, help="Begin another run, also where one is unfinished.")
@click.option("--run-id", metavar="RUN_ID", help="How the run is called.  [the suite and the time]")
@click.option("--no-load", is_flag=True, help="Only write the bundle.")
@with_store
@as_json
def command(
    suite: str,
    limit: int | None,
    dry_run: bool,
    budget: float | None,
    is_new: bool,
    run_id: str | None,
    no_load: bool,
    project: Project,
    as_json: bool,
) -> None:
    """Ask the target of SUITE every question of its golden set, have its judges judge the answers, and compute.

    SUITE is a table [suites.SUITE] of eval-pipeline.toml. The answers become a bundle, which is loaded, computed, held
    against the run before or the baseline, and judged by the gate.

    Every answer is kept before the next call is made. What stops before its end (Ctrl-C, a budget, a quota, an endpoint
    that is down) leaves with exit code 6: the same command goes on, and what was paid is not paid again. A suite that
    is running already is refused with 5.
    """
    from eval_pipeline.planning.evaluate import Wish, evaluating_suite, read_setup

    if is_new and run_id is not None:
        raise UsageError("--new names the run itself: give --run-id or --new")
    wish = Wish(suite, limit, budget, is_new, run_id)
    setup = read_setup(project, wish)
    if dry_run:
        _plan(project, setup, wish, as_json=as_json)
        return
    with evaluating_suite(project, suite):
        _evaluate(project, setup, wish, no_load=no_load, as_json=as_json)


def _plan(project: Project, setup: Setup, wish: Wish, *, as_json: bool) -> None:
    from eval_pipeline.planning.asking_reports import EvaluatePlan
    from eval_pipeline.planning.evaluate import IMAGINED_BYTES, plan_evaluation

    planned = plan_evaluation(project, setup, wish)
    if as_json:
        print_json(EvaluatePlan(format=1, dry_run=True, **asdict(planned)))
        return
    is_bound = planned.usd is None and planned.most_usd is not None
    price = f"at most {usd(planned.most_usd)}" if is_bound else usd(planned.usd)
    print_line(
        f"{planned.run_id} would make {count(planned.target_calls, 'target call')} and at most "
        f"{count(planned.judge_calls, 'judge call')}, {planned.cached:,} cached: {price}."
    )
    if is_bound and planned.most_usd == setup.suite.budget_usd:
        print_line("That is the budget.")
    elif is_bound:
        print_line(f"That holds where no answer with its passages is longer than {IMAGINED_BYTES:,} bytes.")
    say("Nobody was asked.")


def _evaluate(project: Project, setup: Setup, wish: Wish, *, no_load: bool, as_json: bool) -> None:
    from eval_pipeline.evaluating.executor import interruptible
    from eval_pipeline.planning.evaluate import evaluate, finish, is_whole

    was_whole = is_whole(project, setup, wish)
    with interruptible() as stop, progress_line() as tell:
        found = evaluate(project, setup, wish, stop=stop, tell=tell)
    sums = sums_of(found)
    if not as_json:
        print_line(f"{', '.join(one.run_id for one in found)}: {asked_sentence(sums)}.")
        if was_whole:
            say(
                "All of it was asked before, nobody was asked now: another --run-id, or none, makes another run."
            )
        if sums["stopped"] != INTERRUPTED:
            print_line(f"The bundle is in {found[0].bundle}.")
            say_skipped(sums["skipped"])
            _say_failed(project, found)
    summary, quarantined = None, 0
    try:
        if not no_load and sums["stopped"] != INTERRUPTED:
            quarantined, summary = _taken_in(project, found, as_json=as_json)
        if summary is None or not summary.failed:
            finish(project, found)
    finally:
        if as_json:
            print_json(_document(setup, found, sums, UNSET if no_load else computed_document(summary)))
    if sums["state"] == "incomplete":
        raise not_finished(sums["stopped"], _same_command(wish, no_load=no_load))
    end_where_failed(summary.failed if summary else {})
    if quarantined:
        sys.exit(QUARANTINED)


def _document(
    setup: Setup, found: list[Evaluation], sums: dict[str, Any], computed: Computed | UnsetType | None
) -> EvaluateReport:
    from eval_pipeline.planning.asking_reports import EvaluateReport

    repeats = [run_document(one) for one in found] if setup.suite.repeats > 1 else UNSET
    return EvaluateReport(format=1, repeats=repeats, computed=computed, **vars(found[0]) | sums)


def _say_failed(project: Project, found: Sequence[Evaluation]) -> None:
    """Where the reasons of what came to nothing stand: a reply that is no result was an answer nonetheless."""
    from eval_pipeline.planning.paid_calls import failed_judgements

    for one in found:
        if one.failed:
            why = f"`eval-pipeline calls --failed --run {one.run_id}` and the errors in its results.jsonl say why"
            say(filled(f"{one.failed:,} of {one.run_id} came to nothing: {why}."))
        if one.failed and one.stopped is None:
            again = f"`eval-pipeline rejudge {one.run_id}` asks for them again"
            say_failed_judgements(one.run_id, failed_judgements(project, one.run_id), one.judge_calls, again)


def _taken_in(project: Project, found: Sequence[Evaluation], *, as_json: bool) -> tuple[int, Summary]:
    """Load the runs, compute them with their comparisons, and say what the gate says."""
    from eval_pipeline.cli.run import computed, print_computed
    from eval_pipeline.planning.evaluate import load_evaluated

    report = load_evaluated(project, found)
    for problem in report.problems[:3]:
        say(f"  {problem.path}:{problem.line or ''} {problem.reason}")
    if report.quarantined:
        say(f"{count(report.quarantined, 'row')} quarantined: `eval-pipeline quarantine` shows all of them.")
    summary = computed(project, [one.run_id for one in found])
    if not as_json:
        print_computed(summary)
        if not summary.failed:
            _say_verdict(project, found[0].run_id)
    return report.quarantined, summary


def _say_verdict(project: Project, run_id: str) -> None:
    """What the gate says; where there is nothing to hold it against, that is said."""
    from eval_pipeline.cli.compare import prepared
    from eval_pipeline.planning.named_runs import ANY, default_baseline

    try:
        baseline = default_baseline(project, run_id, ANY, None)
        with prepared(project, baseline, run_id, None, chosen=ANY) as sides:
            _print_verdict(sides.judged())
    except UsageError as error:
        say(f"No verdict: {error}")


def _print_verdict(document: GateReport) -> None:
    print_line(f"{document.verdict.upper()}: {document.candidate} against {document.baseline}")
    for problem in document.preconditions:
        print_line(f"! {problem}")
    say(
        f"Next: `eval-pipeline compare {document.baseline} {document.candidate}` says what moved, "
        f"`gate {document.candidate}` by which rules."
    )


def _same_command(wish: Wish, *, no_load: bool) -> str:
    words = ["eval-pipeline", "evaluate", wish.suite]
    words += ["--limit", str(wish.limit)] if wish.limit else []
    # Without its budget what is pasted would spend as much as it likes.
    words += ["--budget", f"{wish.budget_usd:g}"] if wish.budget_usd else []
    words += ["--run-id", wish.run_id] if wish.run_id else []
    words += ["--no-load"] if no_load else []
    return shlex.join(words)
