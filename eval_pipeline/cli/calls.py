"""eval-pipeline calls"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.options import RUN_ID, as_json, with_store
from eval_pipeline.cli.output import print_json, print_line, say, table
from eval_pipeline.errors import UsageError
from eval_pipeline.words import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eval_pipeline.evaluating.calls import Failure, Total
    from eval_pipeline.store.project import Project

SHOWN = 20


@click.command("calls")
@click.option("--run", "run_id", type=RUN_ID, metavar="RUN_ID", help="Only what this run paid.")
@click.option("--failed", is_flag=True, help="Instead: what came to nothing, and why.")
@click.option(
    "--prune",
    type=click.FloatRange(min=0),
    metavar="DAYS",
    help="Remove answers that are older and that a kept delivery holds.",
)
@with_store
@as_json
def command(run_id: str | None, failed: bool, prune: float | None, project: Project, as_json: bool) -> None:
    """Show what was asked of targets and judges, what was paid, and what is uncertain.

    Uncertain is what was under way when a process ended: it may have been paid, and was asked again. Answers that no
    delivery holds are never pruned.
    """
    from eval_pipeline.planning.asking_reports import CallsReport, FailedCall, PaidCalls, PruneReport
    from eval_pipeline.planning.named_runs import find_named
    from eval_pipeline.planning.paid_calls import find_calls, prune_calls

    if prune is not None:
        if failed or run_id is not None:
            raise UsageError("--prune goes by itself: it looks at everything that was paid")
        gone = prune_calls(project, prune)
        if as_json:
            print_json(PruneReport(format=1, pruned=gone))
        else:
            print_line(f"{count(gone, 'answer')} pruned; kept deliveries hold what they said.")
        return
    (run_id,) = find_named(project, [run_id]) if run_id else (None,)
    totals, failures = find_calls(project, run_id)
    if as_json:
        paid = [PaidCalls(**asdict(one)) for one in totals]
        failed_calls = [FailedCall(**asdict(one)) for one in failures]
        print_json(CallsReport(format=1, run_id=run_id, calls=paid, failures=failed_calls))
    elif failed:
        _print_failures(failures)
    else:
        _print(totals)


def _print(totals: Sequence[Total]) -> None:
    if not totals:
        print_line("Nobody was asked.")
        return
    numbers = ["answered", "tokens", "USD", "failed", "uncertain"]
    rows = [
        (
            one.party,
            f"{one.answered:,}",
            f"{one.prompt_tokens + one.completion_tokens:,}",
            f"{one.usd:,.4g}",
            f"{one.failed:,}",
            f"{one.uncertain:,}",
        )
        for one in totals
    ]
    table(["", *numbers], rows, numbers=numbers)
    if any(one.failed for one in totals):
        say("Next: `eval-pipeline calls --failed` says why.")


def _print_failures(failures: Sequence[Failure]) -> None:
    if not failures:
        print_line("No call failed.")
        return
    # In the order of their newest: what came to nothing for the same reason is one line.
    found = Counter((one.party, one.run_id, one.http_status, one.reason) for one in failures)
    rows = [(party, run_id, f"{n:,}", status, why) for (party, run_id, status, why), n in found.items()]
    table(["", "run", "calls", "status", "why"], rows[:SHOWN], numbers=["calls"])
    if len(rows) > SHOWN:
        print_line(f"and {count(len(rows) - SHOWN, 'other reason')}: --json shows all of them")
