"""eval-pipeline load"""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path

import click

from eval_pipeline.cli.options import as_json, with_store
from eval_pipeline.cli.output import count, print_json, progress_bar, say
from eval_pipeline.settings import Settings

QUARANTINED = 3


@click.command("load")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH…")
@with_store
@as_json
def command(paths: tuple[Path, ...], settings: Settings, as_json: bool) -> None:
    """Take bundles in: folders with datasets/, inventories/ or runs/ in them, or one run's folder.

    The same bytes again change nothing; a part delivered again takes the place of that part. What cannot be taken
    goes to quarantine (exit code 3) and stops nothing else.
    """
    from eval_pipeline.pipeline.load import load_bundles

    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    with progress_bar("loading runs") as progress:
        report = load_bundles(list(paths), settings, now=now, tell=say, progress=progress)
    document = {
        "format": 1,
        "golden_sets": report.golden_sets,
        "archives": report.archives,
        "runs": report.runs,
        "results": report.results,
        "unchanged": report.unchanged,
        "rejected": report.rejected,
        "quarantined": report.quarantined,
    }
    if as_json:
        print_json(document)
    else:
        taken = [
            count(len(report.runs), "run"),
            count(report.results, "result"),
            count(len(report.golden_sets), "golden set"),
            count(len(report.archives), "archive"),
        ]
        print("Loaded " + ", ".join(taken) + f"; {count(report.unchanged, 'part')} unchanged.")
        for problem in report.problems[:3]:
            place = f"{problem.path}:{problem.line}" if problem.line else problem.path
            say(f"  {place}: {problem.field + ': ' if problem.field else ''}{problem.reason}")
        if report.quarantined:
            say(
                f"{count(report.quarantined, 'row')} quarantined: `eval-pipeline quarantine` shows all of them."
            )
        if report.runs:
            say("Next: `eval-pipeline run` computes their metrics.")
    if report.quarantined:
        sys.exit(QUARANTINED)
