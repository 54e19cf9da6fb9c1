"""eval-pipeline ui"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.options import with_store
from eval_pipeline.cli.output import print_line, say

if TYPE_CHECKING:
    from eval_pipeline.store.project import Project

PORT = click.IntRange(0, 65535)
INTERRUPTED = 130


@click.command("ui")
@click.option(
    "--port",
    type=PORT,
    default=3000,
    show_default=True,
    help="Where the web interface listens, on 127.0.0.1; 0: any free port.",
)
@with_store
def command(port: int, project: Project) -> None:
    """Open Dagster's web interface and its daemon on this project; Ctrl-C ends both.

    The address is printed once it answers. What ends unasked is started again; what ends a sixth time within a minute
    ends the command, with exit code 70, or 2 where the disk under DAGSTER_HOME is full.
    """
    serve_until_stopped(project, port, then="Ctrl-C ends it")


def serve_until_stopped(
    project: Project, port: int, *, health_port: int | None = None, then: str | None = None
) -> None:
    """Print where the servers answer; `then` is said once they do. Ctrl-C is how they are meant to end: no error."""
    from eval_pipeline.serving.servers import serve

    def started(address: str) -> None:
        print_line(address)
        sys.stdout.flush()
        if then:
            say(then)

    try:
        serve(project, port, health_port=health_port, started=started)
    except KeyboardInterrupt:
        say("stopped")
        sys.exit(INTERRUPTED)
