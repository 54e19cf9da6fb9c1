"""eval-pipeline backup"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.options import as_json, with_store
from eval_pipeline.cli.output import megabytes, print_json, print_line, say
from eval_pipeline.words import count

if TYPE_CHECKING:
    from eval_pipeline.store.project import Project


@click.command("backup")
@click.argument("to", type=click.Path(path_type=Path))
@with_store
@as_json
def command(to: Path, project: Project, as_json: bool) -> None:
    """Copy the store and its kept deliveries into a new folder TO, beside running work, and verify the copy.

    Every block and every delivery of the copy is read. It is a store like any other: name it with --db. A plain `cp`
    while somebody writes makes no such copy. Exit code 1 when kept deliveries are not as they were taken in.
    """
    from eval_pipeline.upkeep.backup import back_up

    db = project.settings.db
    done = back_up(project, to)
    if as_json:
        print_json({"format": 1, **asdict(done), "db": str(done.db)})
        sys.exit(1 if done.findings else 0)
    print_line(
        f"Copied {db.name} ({megabytes(done.n_bytes)}) and {count(done.files, 'file')} of its deliveries; "
        "every block and every delivery of the copy was read."
    )
    print_line(f"Writers had to wait for {done.held_seconds:.1f} s.")
    print_line(f"The copy is {done.db}: --db names it to any command.")
    for one in done.findings:
        say(f"{one.where}: {one.what}")
    if done.findings:
        say("The copy holds these as they are; `eval-pipeline doctor` says what mends them.")
        sys.exit(1)
