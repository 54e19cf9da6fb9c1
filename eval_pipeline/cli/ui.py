"""eval-pipeline ui"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.options import with_store

if TYPE_CHECKING:
    from eval_pipeline.store.project import Project


@click.command("ui")
@click.option(
    "--port", default=3000, show_default=True, help="Where the web interface listens, on 127.0.0.1."
)
@with_store
def command(port: int, project: Project) -> None:
    """Open Dagster's web interface and its daemon on this project; Ctrl-C ends both."""
    from eval_pipeline.launch import open_ui

    open_ui(project, port=port)
