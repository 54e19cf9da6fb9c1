"""eval-pipeline export"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.options import as_json, with_store
from eval_pipeline.cli.output import print_json, print_line

if TYPE_CHECKING:
    from eval_pipeline.store.project import Project


@click.command("export")
@click.argument("run_id")
@click.option(
    "--to",
    "folder",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where to write; made when it is not there, and files of an earlier export are replaced.",
)
@with_store
@as_json
def command(run_id: str, folder: Path, project: Project, as_json: bool) -> None:
    """Write a run's numbers to files.

    \b
    metrics.json        what `show RUN_ID --json` prints
    config.json         the configuration the run was made with
    eval-results.json   every extraction case and their aggregate, with the version of the formulas
    per_query.parquet   a row per query, a column per metric, unrounded
    judge_inputs.jsonl  per query what its judge was given, to judge again
    """
    from eval_pipeline.showing.export import export_run

    paths = export_run(project, run_id, folder)
    if as_json:
        print_json({"format": 1, "run_id": run_id, "files": [str(path) for path in paths]})
        return
    for path in paths:
        print_line(str(path))
