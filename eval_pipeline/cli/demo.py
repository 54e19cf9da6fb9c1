"""eval-pipeline demo"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.options import with_store
from eval_pipeline.cli.output import (
    end_where_failed,
    number,
    print_line,
    progress_bar,
    say,
    table,
)
from eval_pipeline.errors import UsageError
from eval_pipeline.words import count

if TYPE_CHECKING:
    from eval_pipeline.store.project import Project


LIVE_SUITE = "handbook-live"


@click.command("demo")
@click.option("--live", is_flag=True, help="Listen as the example's system, for `evaluate handbook-live`.")
@click.option(
    "--port", type=click.IntRange(0, 65535), metavar="N", help="Where it listens; 0: any free port.  [3002]"
)
@with_store
def command(live: bool, port: int | None, project: Project) -> None:
    """Load the shipped example (a handbook, 89 questions, eleven nights), run everything, and show what to try.

    Where no eval-pipeline.toml is, one is written with the suite handbook-live. It asks the example's system, which
    listens on 127.0.0.1 while `demo --live` runs, and has its answers judged by counting words in common.
    """
    if live:
        _listen(port)
    elif port is not None:
        raise UsageError("--port says where --live listens")
    else:
        _load(project)


def _listen(port: int | None) -> None:
    from eval_pipeline.demo.live import HOST, PLACE, PORT, listening

    for ending in (signal.SIGINT, signal.SIGTERM):
        # Nothing is written, so that a signal may end the process as it stands.
        signal.signal(ending, signal.SIG_DFL)
    with listening(PORT if port is None else port, asked=say) as server:
        print_line(f"http://{HOST}:{server.server_port}{PLACE}")
        sys.stdout.flush()
        say(f"In another terminal: `{_program()} evaluate handbook-live`. Ctrl-C ends it.")
        server.serve_forever()


def _load(project: Project) -> None:
    from eval_pipeline.computing.ledger import NEW_DATA_REASONS
    from eval_pipeline.demo import BUNDLE_FOLDER
    from eval_pipeline.formulas.catalogue import IN_BRIEF
    from eval_pipeline.launch import run_in_dagster
    from eval_pipeline.loading.load import load_bundles
    from eval_pipeline.showing.runs import headline_table

    say("Loading the example …")
    report = load_bundles([BUNDLE_FOLDER], project)
    # Without one `doctor` would find fault with what this has made.
    with suppress(OSError):
        project.settings.inbox.mkdir(parents=True, exist_ok=True)
    _write_config(project.settings.config)
    with progress_bar("computing cells") as progress:
        summary = run_in_dagster(project, run_ids=None, reasons=NEW_DATA_REASONS, progress=progress)
    print_line(
        f"{count(len(report.runs), 'run')} loaded, {count(report.quarantined, 'row')} quarantined, "
        f"{count(sum(summary.computed.cells.values()), 'cell')} computed.\n"
    )
    rows = headline_table(project, IN_BRIEF)
    table(
        ["run", *IN_BRIEF],
        [(run_id, *map(number, values)) for run_id, values in rows],
        numbers=IN_BRIEF,
    )
    print_line(_next_commands(str(project.settings.db)))
    end_where_failed(summary.failed)


def _write_config(path: Path) -> None:
    """The suite handbook-live, where nothing is set up yet; what somebody has written stays as it is."""
    from eval_pipeline.config import load_config
    from eval_pipeline.demo import CONFIG_FILE

    if not path.exists():
        text = CONFIG_FILE.read_text("utf-8")
        # Where nothing can be written the example is still worth a look.
        with suppress(OSError):
            path.write_text(text.replace("eval-pipeline demo", f"{_program()} demo"), "utf-8")
    elif LIVE_SUITE not in load_config(path).suites:
        say(f"{path} stays as it is: the suite {LIVE_SUITE} is not in it, its lines are in {CONFIG_FILE}")


def _next_commands(db: str) -> str:
    program = _program()
    return f"""
Four things to try:

  {program} show nightly-2026-09-17 --no-slices
      the night with the bug: what failed, and which question was quarantined
  {program} metrics mrr
      a formula: what it asks, its edge cases and worked examples
  printf '\\n[formulas.reciprocal_rank]\\ncutoff = 3\\n' >> eval-pipeline.toml
  {program} plan --preview
      change a formula: see what became stale and what it would do to the numbers,
      then `{program} apply --reason "try three"`; remove the lines to go back
  {program} demo --live
      the example's system, listening on this machine: `{program} evaluate {LIVE_SUITE}`
      in another terminal asks it all 89 questions and has the answers judged

The store is {db}; `{program} ui` shows its lineage."""


def _program() -> str:
    """How this program is called from here: by its name where the shell finds it, else by its path."""
    called = Path(sys.argv[0])
    found = shutil.which("eval-pipeline")
    if called.name != "eval-pipeline":
        return "python -m eval_pipeline"
    if found and Path(found).resolve() == called.resolve():
        return "eval-pipeline"
    return os.path.relpath(called)
