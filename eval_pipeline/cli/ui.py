"""eval-pipeline ui"""

from __future__ import annotations

import click

from eval_pipeline.cli.options import with_store
from eval_pipeline.cli.output import say
from eval_pipeline.settings import Settings


@click.command("ui")
@click.option(
    "--port", default=3000, show_default=True, help="Where the web interface listens, on 127.0.0.1."
)
@with_store
def command(port: int, settings: Settings) -> None:
    """Open Dagster's web interface and its daemon on this project; Ctrl-C ends both."""
    from eval_pipeline.launch import open_ui

    open_ui(settings, port=port, notify=say)
