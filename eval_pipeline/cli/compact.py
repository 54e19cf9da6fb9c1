"""eval-pipeline compact"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.options import as_json, with_store
from eval_pipeline.cli.output import megabytes, print_json, print_line, progress_bar
from eval_pipeline.words import count

if TYPE_CHECKING:
    from eval_pipeline.store.project import Project


@click.command("compact")
@click.option(
    "--dagster",
    "is_of_dagster",
    is_flag=True,
    help="Dagster's home instead of the store: remove logs of runs that ended long ago, and replaced events.",
)
@click.option(
    "--days",
    type=click.FloatRange(min=0),
    default=7.0,
    show_default=True,
    help="With --dagster: how many days ago a run must have ended for its log to go.",
)
@with_store
@as_json
def command(project: Project, is_of_dagster: bool, days: float, as_json: bool) -> None:
    """Rewrite the store file without the blocks that removed rows have left, and what is still in them.

    It needs as much free space as the file takes; interrupted, it leaves the file as it was. With --dagster the store
    stays as it is: runs keep their status, every partition its latest materialization.
    """
    if is_of_dagster:
        _compact_dagster(project, days, as_json=as_json)
        return
    from eval_pipeline.upkeep.forget import compact_store

    with progress_bar("copying bytes") as progress:
        done = compact_store(project, progress=progress)
    if as_json:
        print_json({"format": 1, **asdict(done)})
        return
    db = project.settings.db
    print_line(
        f"Compacted {db.name}: {megabytes(done.bytes_before)} before, {megabytes(done.bytes_after)} now; "
        f"{count(done.tables, 'table')} and {count(done.rows, 'row')} are the same."
    )


def _compact_dagster(project: Project, days: float, *, as_json: bool) -> None:
    from eval_pipeline.upkeep.compact_home import compact_home

    done = compact_home(project.settings.dagster_home, now=project.clock(), days=days)
    if as_json:
        print_json({"format": 1, **asdict(done)})
        return
    print_line(
        f"Compacted {project.settings.dagster_home}: {megabytes(done.bytes_before)} before, "
        f"{megabytes(done.bytes_after)} now; the logs of {count(done.runs, 'run')} and {count(done.events, 'event')} "
        "are gone."
    )
