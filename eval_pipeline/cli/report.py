"""eval-pipeline report"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.options import with_store
from eval_pipeline.cli.output import print_line
from eval_pipeline.settings import default_file

if TYPE_CHECKING:
    from eval_pipeline.store.project import Project


@click.command("report")
@click.argument("runs", nargs=-1, metavar="[RUN_ID | A B]")
@click.option("--suite", metavar="NAME", help="Without a run: only this suite's nights.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where the page goes.  [a file named after the runs, in EVAL_PIPELINE_REPORTS]",
)
@click.option(
    "--no-text", is_flag=True, help="Leave out questions, answers, errors and chunk texts; ids stay."
)
@with_store
def command(
    runs: tuple[str, ...], suite: str | None, output: Path | None, no_text: bool, project: Project
) -> None:
    """Write one self-contained HTML page: of a run, of two runs side by side, or of all nights.

    The page opens from disk, asks the network for nothing, and prints. Its path is printed.
    """
    if len(runs) > 2:
        raise click.UsageError(
            f"a report is of one run, of two, or (without any) of all nights, not of {len(runs)}"
        )
    if runs and suite is not None:
        raise click.UsageError("--suite goes without a run: it is the report of a suite's nights")
    from eval_pipeline.report.pages.collect import pair_page, run_page, suite_page, write_page

    if not runs:
        page = suite_page(project, suite=suite)
    elif len(runs) == 1:
        page = run_page(project, runs[0], with_text=not no_text)
    else:
        page = pair_page(project, runs[0], runs[1], with_text=not no_text)
    path = output or default_file(project.settings, runs, suite)
    write_page(page, path)
    print_line(str(path))
