"""eval-pipeline runs"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.options import RUN_ID, as_json, with_store
from eval_pipeline.cli.output import (
    console,
    number,
    print_json,
    print_line,
    say,
    table,
)
from eval_pipeline.report.pages.html import in_line
from eval_pipeline.words import count

if TYPE_CHECKING:
    from eval_pipeline.showing.run_list import ListedRun, RunList
    from eval_pipeline.store.project import Project

LAST = 20
# Between two columns of a table, and of a value with four decimals.
GAP, NUMBER = 3, 6


@click.command("runs")
@click.argument("run_id", required=False, type=RUN_ID, metavar="[RUN_ID]")
@click.option("--dataset", metavar="NAME", help="Only runs on this dataset.")
@click.option("--suite", metavar="NAME", help="Only runs of this suite.")
@click.option(
    "--last",
    type=click.IntRange(min=0),
    default=LAST,
    metavar="N",
    show_default=True,
    help="Only so many, the newest; 0: all.",
)
@with_store
@as_json
def command(
    run_id: str | None, dataset: str | None, suite: str | None, last: int, project: Project, as_json: bool
) -> None:
    """List the runs, the newest first; with RUN_ID that run and its configuration.

    \b
    fresh        its numbers are what today's definitions make of today's data
    stale        `plan` says why, `run --all` computes it
    missing      not computed yet: `run` does
    waiting      for the golden set of its dataset
    incomplete   golden queries are without a result: it does not stand for its night
    implausible  nothing that it found is named by a label: no metric of labels is shown

    RUN_ID may be @latest, @previous or @baseline.
    """
    from eval_pipeline.planning.named_runs import Chosen, find_named
    from eval_pipeline.showing.run_list import list_runs

    if run_id is not None:
        (run_id,) = find_named(project, [run_id], Chosen(suite, dataset))
    found = list_runs(project, run_id, suite=suite, dataset=dataset, last=last)
    if as_json:
        print_json(found)
    elif run_id is not None:
        _print_one(found.runs[0])
    else:
        _print(found)
    if len(found.runs) < found.n_runs:
        say(f"The newest {len(found.runs):,} of {found.n_runs:,} runs; --last N shows more, --last 0 all.")


def _print(found: RunList) -> None:
    if not found.runs:
        say("There is no run yet: `eval-pipeline load PATH` takes runs in.")
        return
    columns = {
        "run": [one.run_id for one in found.runs],
        "night": [one.night for one in found.runs],
        **_that_differ(found.runs),
        "results": [f"{one.n_results:,}" for one in found.runs],
        "failed": [_some(one.failed) for one in found.runs],
        "missing": [_some(one.missing) for one in found.runs],
        "state": [one.state for one in found.runs],
    }
    if not any(one.missing for one in found.runs):
        del columns["missing"]
    if all(one.night in one.run_id for one in found.runs):
        del columns["night"]
    width = console().width - sum(max(map(len, [name, *cells])) + GAP for name, cells in columns.items())
    values = {}
    for key in dict.fromkeys(key for one in found.runs for key in one.headline):
        needed = max(len(key), NUMBER) + GAP
        if needed <= width + GAP and any(one.headline.get(key) is not None for one in found.runs):
            width -= needed
            values[key] = [number(one.headline.get(key)) for one in found.runs]
    cells = columns | values
    table(
        list(cells),
        list(zip(*cells.values(), strict=True)),
        numbers=["results", "failed", "missing", *values],
    )


def _that_differ(runs: Sequence[ListedRun]) -> dict[str, list[str]]:
    """Suite and dataset, where not all of them are of one."""
    named = {"suite": [one.suite or "" for one in runs], "dataset": [one.dataset for one in runs]}
    return {name: cells for name, cells in named.items() if len(set(cells)) > 1}


def _some(n: int) -> str:
    return f"{n:,}" if n else "·"


def _print_one(run: ListedRun) -> None:
    from eval_pipeline.showing.run_list import leaves

    suite = f"suite {run.suite}" if run.suite else "no suite"
    print_line(f"{run.run_id} on {run.dataset}, {suite}, night {run.night}: {run.state}")
    told = [count(run.n_results, "result"), f"{run.failed:,} failed", f"{run.missing:,} missing"]
    print_line(", ".join(told))
    if run.superseded_by:
        print_line(f"replaced by {run.superseded_by}")
    known = {key: value for key, value in run.headline.items() if value is not None}
    if known:
        print_line(in_line(", ".join(f"{key} {number(value)}" for key, value in known.items())))
    config = run.config if isinstance(run.config, dict) else {}
    rows = [("created_at", run.created_at), ("commit_hash", run.commit_hash), *leaves(config)]
    print_line()
    table(["configuration", "value"], [(name, value) for name, value in rows if value is not None])
