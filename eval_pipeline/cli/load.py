"""eval-pipeline load"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eval_pipeline.cli.options import as_json, with_store
from eval_pipeline.cli.output import print_json, print_line, progress_bar, say, waiting_sentence
from eval_pipeline.errors import UsageError
from eval_pipeline.words import count

if TYPE_CHECKING:
    from eval_pipeline.loading.context import LoadReport
    from eval_pipeline.store.project import Project

QUARANTINED = 3
INTERRUPTED = 130
SHOWN = 3


@click.command("load")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH…")
@click.option(
    "--mapping",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="What the columns of a results file mean; `eval-pipeline init` writes it.",
)
@click.option("--run-id", metavar="RUN_ID", help="For a results file: the run it becomes.")
@click.option(
    "--dataset", metavar="DATASET", help="For a results file: the dataset whose golden set scores it."
)
@click.option("--created-at", metavar="TIME", help="For a results file: when the run was made.")
@click.option("--suite", metavar="NAME", help="For a results file: the suite the run belongs to.")
@click.option(
    "--dry-run", is_flag=True, help="Read and check everything, say what would happen, write nothing."
)
@click.option(
    "--no-text",
    is_flag=True,
    help="Neither store nor keep what was asked, said, retrieved or extracted, nor errors and reasons in words.",
)
@with_store
@as_json
def command(
    paths: tuple[Path, ...],
    mapping: Path | None,
    run_id: str | None,
    dataset: str | None,
    created_at: str | None,
    suite: str | None,
    dry_run: bool,
    no_text: bool,
    project: Project,
    as_json: bool,
) -> None:
    """Load bundles: folders with datasets/, inventories/ or runs/ in them, or one run's folder.

    Or one file of results, as a run: JSON Lines or Parquet with the bundle's own columns, or with --mapping any
    JSON, JSON Lines, CSV or Parquet.

    The same bytes again change nothing; a part delivered again takes the place of that part. What cannot be taken
    goes to quarantine (exit code 3) and stops nothing else. Ctrl-C stops after the runs that are being written; the
    same command then goes on from there.

    With --no-text what needs a text (required and forbidden texts, snippets) is undefined for what is loaded so, and
    rows in quarantine are recorded without their text. It does not remove what was stored before: `forget --text`
    does. The same bytes with and without texts are two deliveries, the later one stands.
    """
    from eval_pipeline.loading.context import LoadOptions
    from eval_pipeline.loading.file import RunNamed, load_results_file
    from eval_pipeline.loading.load import load_bundles

    named = {"--mapping": mapping, "--run-id": run_id, "--dataset": dataset, "--created-at": created_at}
    file = _results_file(paths, {**named, "--suite": suite})
    options = LoadOptions(dry_run=dry_run, no_text=no_text)
    if file is not None:
        run = RunNamed(run_id or "", dataset or "", created_at, suite)
        with _interruption_named():
            report = load_results_file(file, run, project, mapping=mapping, options=options)
    else:
        with progress_bar("loading runs") as progress, _stopped_by_ctrl_c() as stop:
            report = load_bundles(list(paths), project, progress=progress, options=options, stop=stop)
    if as_json:
        print_json(_document(report, dry_run=dry_run))
    else:
        _print_report(report, dry_run=dry_run)
    if report.stopped:
        _say_what_is_left(report)
        sys.exit(INTERRUPTED)
    if report.quarantined:
        sys.exit(QUARANTINED)


def _results_file(paths: tuple[Path, ...], given: dict[str, Any]) -> Path | None:
    """The one file that is a run's results, if it is one; options that do not fit are refused."""
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path} is not there; give a bundle's folder or a file of results")
    files = [path for path in paths if not path.is_dir()]
    if not files:
        odd = [name for name, value in given.items() if value is not None]
        if odd:
            raise UsageError(f"{', '.join(odd)} goes with a file of results, and {paths[0]} is a folder")
        return None
    if len(paths) > 1:
        raise UsageError(f"{files[0]} is a file of results: load it by itself, as one run")
    missing = [name for name in ("--run-id", "--dataset") if not given[name]]
    if missing:
        raise UsageError(
            f"{files[0]} is a file of results, and {' and '.join(missing)} is not said: "
            f"eval-pipeline load {files[0]} --run-id RUN_ID --dataset DATASET [--mapping mapping.toml]"
        )
    return files[0]


@contextmanager
def _stopped_by_ctrl_c() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C asks the load to end after its batch; the second one ends it at once."""
    asked = False

    def ask(_signal: int, _frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        say("\nStopping when the runs that are read are written; Ctrl-C again stops at once.")

    before = signal.signal(signal.SIGINT, ask)
    try:
        with _interruption_named():
            yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _interruption_named() -> Iterator[None]:
    """Ctrl-C in the middle of a statement, which the database reports as an error of its own."""
    try:
        yield
    except RuntimeError as error:
        if "interrupted" in str(error).lower():
            raise KeyboardInterrupt from error
        raise


def _document(report: LoadReport, *, dry_run: bool) -> dict[str, Any]:
    return {
        "format": 1,
        "golden_sets": report.golden_sets,
        "archives": report.archives,
        "runs": report.runs,
        "replaced": report.replaced,
        "results": report.results,
        "unchanged": report.unchanged,
        "rejected": report.rejected,
        "forgotten": report.forgotten,
        "quarantined": report.quarantined,
        "warnings": [one.entry() for one in report.warnings],
        "dry_run": dry_run,
        "stopped": report.stopped,
        "case_lists": report.case_lists,
    }


def _print_report(report: LoadReport, *, dry_run: bool) -> None:
    taken = [
        count(len(report.runs), "run"),
        count(report.results, "result"),
        count(len(report.golden_sets), "golden set"),
        count(len(report.archives), "archive"),
        *(
            [count(len(report.case_lists), "list of cases", plural="lists of cases")]
            if report.case_lists
            else []
        ),
    ]
    word = "Would load" if dry_run else "Loaded"
    print_line(f"{word} {', '.join(taken)}; {count(report.unchanged, 'part')} unchanged.")
    if dry_run and report.replaced:
        shown = ", ".join(report.replaced[:SHOWN]) + (", …" if len(report.replaced) > SHOWN else "")
        print_line(f"Would replace parts of {count(len(report.replaced), 'run')}: {shown}.")
    for problem in report.problems[:SHOWN]:
        place = f"{problem.path}:{problem.line}" if problem.line else problem.path
        say(f"  {place}: {problem.field + ': ' if problem.field else ''}{problem.reason}")
    if report.quarantined and dry_run:
        say(f"{count(report.quarantined, 'row')} would be quarantined.")
    elif report.quarantined:
        say(f"{count(report.quarantined, 'row')} quarantined: `eval-pipeline quarantine` shows all of them.")
    _say_warnings(report)
    if report.forgotten:
        shown = ", ".join(report.forgotten[:SHOWN]) + (", …" if len(report.forgotten) > SHOWN else "")
        say(
            f"Left out, because forgotten on purpose: {shown}; `eval-pipeline forget NAME --lift` lets it in again."
        )
    if dry_run:
        say("Nothing was written.")
        return
    if report.waiting:
        say(waiting_sentence(report.waiting))
    if len(report.runs) > len(report.waiting) and not report.stopped:
        say("Next: `eval-pipeline run` computes their metrics.")


def _say_warnings(report: LoadReport) -> None:
    """Odd labels and ranks: they change nothing, so they are told and not counted as faults."""
    for one in report.warnings[:SHOWN]:
        say(
            f"  warning: {one.dataset or one.run_id}: {f'{one.query_id!r} ' if one.query_id else ''}{one.words}"
        )
    if report.warnings:
        say(
            f"{count(len(report.warnings), 'warning')}, nothing was left out: `eval-pipeline status --lint` shows "
            "all of them."
        )


def _say_what_is_left(report: LoadReport) -> None:
    say(
        f"Interrupted: {count(len(report.runs), 'run')} loaded and complete, {count(report.runs_left, 'run')} left. "
        "The same command goes on from there."
    )
