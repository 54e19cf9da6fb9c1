"""eval-pipeline serve"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.options import with_store
from eval_pipeline.cli.ui import PORT, serve_until_stopped

if TYPE_CHECKING:
    from eval_pipeline.store.project import Project


@click.command("serve")
@click.option(
    "--port",
    type=PORT,
    default=3000,
    show_default=True,
    help="Where the web interface listens, on 127.0.0.1; 0: any free port.",
)
@click.option(
    "--health-port",
    type=PORT,
    default=3001,
    show_default=True,
    help="Where /healthz answers, on 127.0.0.1; 0: any free port.",
)
@with_store
def command(port: int, health_port: int, project: Project) -> None:
    """Keep Dagster's web server, daemon and code server running, on a machine without a screen.

    What ends is started again after a pause that doubles; what ends a sixth time within a minute ends the command,
    with exit code 70, or 2 where the disk under DAGSTER_HOME is full. TERM ends it with 0. Runs whose process died
    are marked as failed. /healthz answers 200 where web server, daemon and code location answer, else 503 with what
    is wrong. Both addresses are printed once they answer.
    """
    serve_until_stopped(project, port, health_port=health_port)
