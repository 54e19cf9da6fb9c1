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
    "with_dagster",
    is_flag=True,
    help="Also Dagster's home: remove logs of runs that ended long ago, and replaced events.",
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
def command(project: Project, with_dagster: bool, days: float, as_json: bool) -> None:
    """Rewrite the store file without the blocks that removed rows have left, and what is still in them.

    It needs as much free space as the file takes; interrupted, it leaves the file as it was. In Dagster runs keep their
    status, every partition its latest materialization.
    """
    from eval_pipeline.upkeep.compact_home import check_home, compact_home
    from eval_pipeline.upkeep.forget import compact_store

    home = project.settings.dagster_home
    if with_dagster:
        check_home(home)
    with progress_bar("copying bytes") as progress:
        done = compact_store(project, progress=progress)
    of_home = compact_home(home, now=project.clock(), days=days) if with_dagster else None
    if as_json:
        print_json({"format": 1, **asdict(done)} | ({"dagster": asdict(of_home)} if of_home else {}))
        return
    db = project.settings.db
    print_line(
        f"Compacted {db.name}: {megabytes(done.bytes_before)} before, {megabytes(done.bytes_after)} now; "
        f"{count(done.tables, 'table')} and {count(done.rows, 'row')} are the same."
    )
    if of_home:
        print_line(
            f"Compacted {home}: {megabytes(of_home.bytes_before)} before, {megabytes(of_home.bytes_after)} now; the "
            f"logs of {count(of_home.runs, 'run')} and {count(of_home.events, 'event')} are gone."
        )
