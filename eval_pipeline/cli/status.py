"""eval-pipeline status"""

from __future__ import annotations

import sys
from typing import Any

import click

from eval_pipeline.cli.options import as_json, with_store
from eval_pipeline.cli.output import count, listed, print_json, say, table
from eval_pipeline.settings import Settings


@click.command("status")
@click.option("--check", is_flag=True, help="Exit with 1 when anything is stale or missing.")
@with_store
@as_json
def command(check: bool, settings: Settings, as_json: bool) -> None:
    """Show for every derived table how many runs are fresh, stale (and why), or missing."""
    from eval_pipeline.formulas.registry import load_registry
    from eval_pipeline.pipeline.status import find_status

    status = find_status(settings, load_registry(settings), tell=say)
    if as_json:
        print_json(status)
    else:
        _print(status)
    if check and (status["cells"]["stale"] or status["cells"]["missing"]):
        sys.exit(1)


def _print(status: dict[str, Any]) -> None:
    rows = [
        (
            asset["name"],
            f"v{asset['version']}",
            f"{asset['fresh']:,}",
            f"{asset['stale']:,}" if asset["stale"] else "·",
            f"{asset['missing']:,}" if asset["missing"] else "·",
            listed(asset["reasons"]),
        )
        for asset in status["assets"]
    ]
    table(["table", "", "fresh", "stale", "missing", "why"], rows, numbers=["fresh", "stale", "missing"])
    cells = status["cells"]
    print(
        f"{count(status['runs'], 'run')}: {cells['fresh']:,} cells fresh, {cells['stale']:,} stale, "
        f"{cells['missing']:,} missing"
    )
    if status["waiting"]:
        waiting = status["waiting"]
        shown = ", ".join(waiting[:3]) + (" …" if len(waiting) > 3 else "")
        say(f"{count(len(waiting), 'run')} waiting for a golden set: {shown}")
    if cells["missing"]:
        say("Next: `eval-pipeline run` computes what is missing.")
    if cells["stale"]:
        say("Next: `eval-pipeline plan` says what that would do, `apply` does it.")
