"""eval-pipeline diff"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from eval_pipeline.cli.options import RUN_ID, as_json, choosing, with_store
from eval_pipeline.cli.output import print_json, print_line, table

if TYPE_CHECKING:
    from eval_pipeline.planning.named_runs import Chosen
    from eval_pipeline.store.project import Project


@click.command("diff")
@click.argument("run_a", metavar="A", type=RUN_ID)
@click.argument("run_b", metavar="B", type=RUN_ID)
@choosing
@with_store
@as_json
def command(run_a: str, run_b: str, chosen: Chosen, project: Project, as_json: bool) -> None:
    """Show what differs between the configurations of two runs, by value.

    Everything that run.json says is held against the other, but for names, times and attempts; and the golden sets
    that their stored numbers were made with (labels). What the numbers did is `compare A B`. A and B may be @latest,
    @previous or @baseline.
    """
    from eval_pipeline.planning.named_runs import find_named
    from eval_pipeline.showing.run_list import diff_runs

    run_a, run_b = find_named(project, [run_a, run_b], chosen)
    found = diff_runs(project, run_a, run_b)
    if as_json:
        print_json(found)
    elif not found.differs:
        print_line(f"{run_a} and {run_b} are configured alike.")
    else:
        rows = [(place, *map(_shown, values)) for place, values in found.differs.items()]
        table(["", run_a, run_b], rows)


def _shown(value: Any) -> str:
    """Text as it is, anything else as JSON says it; a dash where nothing is."""
    if value is None:
        return "—"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
