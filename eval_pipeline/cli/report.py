"""eval-pipeline report"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.options import RUN_ID, replacing, with_store
from eval_pipeline.cli.output import megabytes, print_line, progress_bar, say
from eval_pipeline.settings import default_file
from eval_pipeline.words import count

if TYPE_CHECKING:
    from eval_pipeline.store.project import Project


@click.command("report")
@click.argument("runs", nargs=-1, type=RUN_ID, metavar="[RUN_ID | A B]")
@click.option(
    "--suite",
    metavar="NAME",
    help="Without a run: only this suite's nights; else the suite that @latest is of.",
)
@click.option("--dataset", metavar="NAME", help="The dataset that @latest is of.  [any]")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where the page goes.  [a file named after the runs, in EVAL_PIPELINE_REPORTS]",
)
@click.option(
    "--site",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Instead: a folder of pages that lead to each other, for any static host: runs, each against the one before "
    "and the baseline, suites, questions, formulas. DIR is made, or replaced where it is such a site.",
)
@click.option(
    "--last",
    type=click.IntRange(min=0),
    metavar="N",
    help="Of --site: only the newest N nights of every suite; 0: all.  [60]",
)
@click.option("--open", "opens", is_flag=True, help="Show the page in the browser.")
@click.option(
    "--no-text", is_flag=True, help="Leave out questions, answers, errors and chunk texts; ids stay."
)
@replacing
@with_store
def command(
    runs: tuple[str, ...],
    suite: str | None,
    dataset: str | None,
    output: Path | None,
    site: Path | None,
    last: int | None,
    opens: bool,
    no_text: bool,
    project: Project,
) -> None:
    """Write one self-contained HTML page: of a run, of two runs side by side, or of all nights; or a whole site.

    The page opens from disk, asks the network for nothing, and prints. Its path is printed. RUN_ID, A and B may be
    @latest, @previous or @baseline.
    """
    if len(runs) > 2:
        raise click.UsageError(
            f"a report is of one run, of two, or (without any) of all nights, not of {len(runs)}"
        )
    if site is not None:
        _check_site(runs, dataset, output)
        _open(_write_site(project, site, suite=suite, last=last, with_text=not no_text), opens=opens)
        return
    if last is not None:
        raise click.UsageError("--last goes with --site")
    if not runs and dataset is not None:
        raise click.UsageError("--dataset goes with @latest; the report of all nights is chosen by --suite")
    from eval_pipeline.planning.named_runs import Chosen, find_named
    from eval_pipeline.report.pages.collect import pair_page, run_page, suite_page, write_page

    if runs:
        runs = find_named(project, runs, Chosen(suite, dataset))
    if not runs:
        page = suite_page(project, suite=suite, with_text=not no_text)
    elif len(runs) == 1:
        page = run_page(project, runs[0], with_text=not no_text)
    else:
        page = pair_page(project, runs[0], runs[1], with_text=not no_text)
    path = output or default_file(project.settings, runs, None if runs else suite)
    write_page(page, path)
    print_line(str(path))
    _open(path, opens=opens)


def _check_site(runs: tuple[str, ...], dataset: str | None, output: Path | None) -> None:
    if runs or dataset is not None or output is not None:
        raise click.UsageError(
            "--site is of all runs, or of those of a --suite: without runs, --dataset and --output"
        )


def _write_site(
    project: Project, folder: Path, *, suite: str | None, last: int | None, with_text: bool
) -> Path:
    from eval_pipeline.report.site.collect import NIGHTS
    from eval_pipeline.report.site.writing import write_site

    with progress_bar("pages") as progress:
        site = write_site(
            project,
            folder,
            suite=suite,
            last=NIGHTS if last is None else last,
            with_text=with_text,
            progress=progress,
        )
    for sentence in site.left_out:
        say(f"left out: {sentence}")
    print_line(str(site.index))
    say(f"{count(site.pages, 'page')}, {megabytes(site.bytes)}")
    return site.index


def _open(page: Path, *, opens: bool) -> None:
    """In the browser that the system, or BROWSER, names."""
    if not opens:
        return
    import webbrowser

    if not webbrowser.open(page.absolute().as_uri()):
        say("no browser could be opened; the page is written")
