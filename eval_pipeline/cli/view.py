"""eval-pipeline view"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.options import showing, with_store
from eval_pipeline.cli.output import print_line, say
from eval_pipeline.view.addresses import PORT

if TYPE_CHECKING:
    from eval_pipeline.store.project import Project


@click.command("view")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Where the pages are, on 127.0.0.1; 0: any free port.",
)
@with_store
def command(port: int, project: Project) -> None:
    """Show all pages in the browser, drawn when they are asked for: any two runs, suites, questions, formulas.

    Read-only and for this machine alone; search, and SQL with limits, are there too. The address is printed. Ctrl-C
    ends it.
    """
    from eval_pipeline.errors import StoreBusy
    from eval_pipeline.store.project import project_of
    from eval_pipeline.view.serving import serve

    # What is no store is said here and not by every page; one that somebody is writing to will be there later.
    with contextlib.suppress(StoreBusy), project.read():
        pass

    def started(address: str) -> None:
        print_line(address)
        sys.stdout.flush()
        say("Ctrl-C ends it")

    serve(lambda: showing(project_of(project.settings, notify=say)), port, notify=say, started=started)
