"""eval-pipeline demo"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.options import with_store
from eval_pipeline.cli.output import end_where_failed, number, print_line, progress_bar, say, table
from eval_pipeline.words import count

if TYPE_CHECKING:
    from eval_pipeline.store.project import Project


@click.command("demo")
@with_store
def command(project: Project) -> None:
    """Load the shipped example (a handbook, 89 questions, eleven nights), run everything, and show what to try."""
    from eval_pipeline.computing.ledger import NEW_DATA_REASONS
    from eval_pipeline.demo import BUNDLE_FOLDER
    from eval_pipeline.formulas.catalogue import IN_BRIEF
    from eval_pipeline.launch import run_in_dagster
    from eval_pipeline.loading.load import load_bundles
    from eval_pipeline.showing.runs import headline_table

    say("Loading the example …")
    report = load_bundles([BUNDLE_FOLDER], project)
    # Without one `doctor` would find fault with what this has made.
    with suppress(OSError):
        project.settings.inbox.mkdir(parents=True, exist_ok=True)
    with progress_bar("computing cells") as progress:
        summary = run_in_dagster(project, run_ids=None, reasons=NEW_DATA_REASONS, progress=progress)
    print_line(
        f"{count(len(report.runs), 'run')} loaded, {count(report.quarantined, 'row')} quarantined, "
        f"{count(sum(summary.computed.cells.values()), 'cell')} computed.\n"
    )
    rows = headline_table(project, IN_BRIEF)
    table(
        ["run", *IN_BRIEF],
        [(run_id, *(number(value) for value in values)) for run_id, values in rows],
        numbers=IN_BRIEF,
    )
    print_line(_next_commands(str(project.settings.db)))
    end_where_failed(summary.failed)


def _next_commands(db: str) -> str:
    program = _program()
    return f"""
Three things to try:

  {program} show nightly-2026-09-17 --no-slices
      the night with the bug: what failed, and which question was quarantined
  {program} metrics mrr
      a formula: what it asks, its edge cases and worked examples
  printf '[formulas.reciprocal_rank]\\ncutoff = 3\\n' > eval-pipeline.toml
  {program} plan --preview
      change a formula: see what became stale and what it would do to the numbers,
      then `{program} apply --reason "try three"`; remove the file to go back

The store is {db}; `{program} ui` shows its lineage."""


def _program() -> str:
    """How this program is called from here: by its name where the shell finds it, else by its path."""
    called = Path(sys.argv[0])
    found = shutil.which("eval-pipeline")
    if called.name != "eval-pipeline":
        return "python -m eval_pipeline"
    if found and Path(found).resolve() == called.resolve():
        return "eval-pipeline"
    return os.path.relpath(called)
