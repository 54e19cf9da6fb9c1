"""eval-pipeline plan"""

from __future__ import annotations

from typing import Any

import click

from eval_pipeline.cli.options import as_json, selecting, with_store
from eval_pipeline.cli.output import count, listed, number, print_json, progress_bar, say, table
from eval_pipeline.settings import Settings

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
    settings: Settings,
    as_json: bool,
) -> None:
    """Show what is stale and why, and what recomputing would cost; with --preview what it would do to the numbers."""
    from eval_pipeline.formulas.registry import load_registry
    from eval_pipeline.pipeline.plan import as_markdown, find_plan, select_cells
    from eval_pipeline.pipeline.preview import find_preview

    registry = load_registry(settings)
    selection = select_cells(registry, only=only, runs=runs, since=since)
    if preview or sample:
        with progress_bar("previewing") as progress:
            plan = find_preview(settings, registry, selection, sample=sample, tell=say, progress=progress)
    else:
        plan = find_plan(settings, registry, selection, tell=say)
    if as_json or form == "json":
        print_json(plan)
    elif form == "md":
        print(as_markdown(plan), end="")
    else:
        print_plan(plan)


def print_plan(plan: dict[str, Any]) -> None:
    """The plan for people."""
    for warning in plan["warnings"]:
        say(f"warning: {warning}")
    if not plan["cells"]:
        print("Nothing is stale: every stored number was made by today's definitions from today's data.")
        return
    rows = [
        (
            asset["name"],
            f"{asset['cells']:,}",
            listed(asset["reasons"]),
            f"v{asset['old_version'] or '–'} → v{asset['new_version']}"
            if asset["old_fingerprint"] != asset["new_fingerprint"]
            else f"v{asset['new_version']}",
        )
        for asset in plan["assets"]
    ]
    table(["table", "cells", "why", "version"], rows, numbers=["cells"])
    print(
        f"\n{count(plan['cells'], 'cell')} of {count(len(plan['runs']), 'run')}, about "
        f"{plan['estimated_seconds']:.1f} s, {count(plan['judge_calls'], 'judge call')}"
    )
    for asset in plan["assets"]:
        if asset["diff"]:
            print("\n" + asset["diff"].rstrip())
    if "preview" in plan:
        _print_preview(plan)
    print(
        '\nNext: `eval-pipeline apply --reason "…"` computes exactly this; --preview shows the new numbers first.'
    )


def _print_preview(plan: dict[str, Any]) -> None:
    if "sampled_runs" in plan:
        print(f"\nPreview of the newest {count(len(plan['sampled_runs']), 'run')} only.")
    for key, entry in plan["preview"].items():
        print(
            f"\n{key}: {count(entry['changed_queries'], 'query', plural='queries')} would change, "
            f"{entry['newly_defined']:,} become defined, {entry['newly_undefined']:,} become undefined"
        )
        if entry["change_quantiles"]:
            spread = entry["change_quantiles"]
            print(
                f"  changes from {spread['p0']:+.4f} over {spread['p50']:+.4f} (median) to {spread['p100']:+.4f}"
            )
        moved = [(run, v["old"], v["new"]) for run, v in entry["runs"].items() if v["old"] != v["new"]]
        if moved:
            table(
                ["run", "old", "new"],
                [(run, number(old), number(new)) for run, old, new in moved[-SHOWN_RUNS:]],
                numbers=["old", "new"],
            )
        if len(moved) > SHOWN_RUNS:
            print(f"  … and {count(len(moved) - SHOWN_RUNS, 'earlier run')}")
        for first, second in entry["order_flips"][:5]:
            print(f"  the order of {first} and {second} turns round")
