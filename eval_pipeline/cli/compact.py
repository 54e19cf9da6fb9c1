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
@with_store
@as_json
def command(project: Project, as_json: bool) -> None:
    """Rewrite the store file without the blocks that removed rows have left, and what is still in them.

    It needs as much free space as the file takes; interrupted, it leaves the file as it was.
    """
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
