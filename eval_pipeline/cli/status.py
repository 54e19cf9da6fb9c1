"""eval-pipeline status"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.options import as_json, with_store
from eval_pipeline.cli.output import (
    HOW_TO_MEND,
    filled,
    listed,
    print_json,
    print_line,
    say,
    table,
    unlabelled_sentence,
)
from eval_pipeline.words import count

if TYPE_CHECKING:
    from eval_pipeline.loading.lint import Finding
    from eval_pipeline.planning.reports import StatusReport
    from eval_pipeline.store.project import Project


@click.command("status")
@click.option("--check", is_flag=True, help="Exit with 1 when anything is stale, missing or failed.")
@click.option(
    "--lint", is_flag=True, help="Instead: what looks odd in golden sets and runs. Warnings, no faults."
)
@with_store
@as_json
def command(check: bool, lint: bool, project: Project, as_json: bool) -> None:
    """Show for every derived table how many runs are fresh, stale (and why), or missing."""
    from eval_pipeline.planning.status import find_lint, find_status

    if lint:
        warnings = find_lint(project)
        if as_json:
            print_json({"format": 1, "warnings": [one.entry() for one in warnings]})
        else:
            _print_lint(warnings)
        return
    status = find_status(project)
    if as_json:
        print_json(status)
    else:
        _print(status)
    if check and (status.cells.stale or status.cells.missing):
        sys.exit(1)


def _print(status: StatusReport) -> None:
    rows = [
        (
            asset.name,
            f"v{asset.version}",
            f"{asset.fresh:,}",
            f"{asset.stale:,}" if asset.stale else "·",
            f"{asset.missing:,}" if asset.missing else "·",
            listed(asset.reasons),
        )
        for asset in status.assets
    ]
    table(["table", "", "fresh", "stale", "missing", "why"], rows, numbers=["fresh", "stale", "missing"])
    cells = status.cells
    print_line(
        f"{count(status.runs, 'run')}: {cells.fresh:,} cells fresh, {cells.stale:,} stale, "
        f"{cells.missing:,} missing"
    )
    if cells.frozen:
        frozen = status.frozen_runs
        shown = ", ".join(frozen[:3]) + (" …" if len(frozen) > 3 else "")
        print_line(
            f"{count(cells.frozen, 'cell')} frozen: the texts they were computed from were forgotten ({shown}); "
            "the values stay and are never recomputed"
        )
    if status.waiting:
        say(unlabelled_sentence(status.waiting))
    if status.judged_runs:
        from eval_pipeline.report.plan import judgement_sentence

        say(filled(judgement_sentence(status)))
    _say_what_stands_apart(status)
    for name, sentence in status.failed.items():
        say(f"{name} {sentence}")
    if status.failed:
        say(HOW_TO_MEND)
    if cells.missing:
        say("Next: `eval-pipeline run` computes what is missing.")
    if cells.stale and any(set(asset.reasons) - {"failed"} for asset in status.assets):
        say("Next: `eval-pipeline plan` says what that would do, `apply` does it.")


def _say_what_stands_apart(status: StatusReport) -> None:
    """Runs that say nothing or stand for no night, rows that were rejected, labels that look odd."""
    for run_id, sentence in list(status.implausible.items())[:3]:
        say(f"{run_id} implausible: {sentence}")
    if len(status.implausible) > 3:
        say(f"{count(len(status.implausible), 'run')} implausible: {_some(list(status.implausible))}")
    incomplete = [run_id for run_id in status.incomplete if run_id not in status.unfinished]
    if incomplete:
        say(
            f"{count(len(incomplete), 'run')} incomplete (golden queries without a result): {_some(incomplete)}"
        )
    for run_id, command in list(status.unfinished.items())[:3]:
        goes_on = f": `{command}` goes on" if command else "; it was begun elsewhere"
        say(filled(f"{run_id} not finished by `evaluate`{goes_on}"))
    if len(status.unfinished) > 3:
        say(f"{count(len(status.unfinished), 'run')} not finished: {_some(list(status.unfinished))}")
    if status.superseded:
        shown = _some([f"{run_id} by {newer}" for run_id, newer in status.superseded.items()])
        say(f"{count(len(status.superseded), 'run')} replaced: {shown}")
    if status.quarantined:
        say(f"{count(status.quarantined, 'row')} in quarantine: `eval-pipeline quarantine` says why.")
    if status.warnings:
        say(f"{count(status.warnings, 'warning')} about labels and ranks: `eval-pipeline status --lint`")


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (" …" if len(names) > 3 else "")


def _print_lint(warnings: list[Finding]) -> None:
    if not warnings:
        print_line("Nothing looks odd.")
        return
    rows = [(one.dataset or one.run_id, one.query_id, one.words, one.decision) for one in warnings]
    table(["in", "query", "warning", "see"], rows)
    print_line(f"{count(len(warnings), 'warning')}; docs/decisions.md says what is made of each.")
