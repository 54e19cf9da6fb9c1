"""eval-pipeline compare"""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.options import (
    RUN_OR_FILE,
    as_json,
    choosing,
    showing,
    with_labels,
    with_store,
    writing,
)
from eval_pipeline.cli.output import progress_bar, say
from eval_pipeline.documents import Document
from eval_pipeline.documents import as_json as as_builtins

if TYPE_CHECKING:
    from eval_pipeline.cli.compare_table import Files
    from eval_pipeline.comparing.documents import CompareReport
    from eval_pipeline.planning.compare_files import Sides
    from eval_pipeline.planning.named_runs import Chosen
    from eval_pipeline.store.project import Project

FORMATS = ("table", "json", "md", "html")
BY_SUFFIX = {".json": "json", ".md": "md", ".markdown": "md", ".html": "html", ".htm": "html"}


@click.command("compare")
@click.argument("run_a", metavar="[A", required=False, type=RUN_OR_FILE)
@click.argument("run_b", metavar="B]", required=False, type=RUN_OR_FILE)
@click.option(
    "--strict-chunker-version",
    is_flag=True,
    help="Refuse (exit code 5) runs that are not of one chunker version.",
)
@click.option(
    "--undefined",
    "with_undefined",
    is_flag=True,
    help="List every metric without a value, and why it has none.",
)
@click.option(
    "--all", "every", is_flag=True, help="Also the measures that ask nothing themselves, as parts of others."
)
@with_labels
@writing(FORMATS)
@choosing
@with_store
@as_json
def command(
    run_a: str | None,
    run_b: str | None,
    labels: Path | None,
    strict_chunker_version: bool,
    with_undefined: bool,
    every: bool,
    wanted: str | None,
    output: Path | None,
    chosen: Chosen,
    project: Project,
    as_json: bool,
) -> None:
    """Compare two runs or files: what moved from A to B, how sure that is, and which queries it was.

    A and B are runs of the store, or files of results that `load` takes (bundles, too): then nothing is stored, and the
    labels are those of --labels, else of the dataset of the run on the other side, else of the files. A name that is a
    file's and a run's is ./NAME or run:NAME. A run may also be @latest, @previous or @baseline; without A and B the
    newest complete run is compared with the one before.

    Runs of different chunker versions are matched by document and span instead of by chunk id.
    """
    form = format_of(wanted, output, as_json=as_json)
    run_a, run_b = _two_of(run_a, run_b)
    with prepared(project, run_a, run_b, labels, chosen=chosen) as sides:
        if not sides.is_temporary:
            # Two runs are stored numbers; files are computed, which takes every definition.
            sides = replace(sides, project=showing(project))
        document = sides.compared(strict_chunker_version=strict_chunker_version)
        if form == "html":
            from eval_pipeline.report.pages.collect import pair_page

            write(pair_page(sides.project, document.run_a, document.run_b, document=document), output)
        else:
            words = words_of(run_a, run_b, labels) if sides.is_temporary else None
            text = _text(document, form, every=every, with_undefined=with_undefined, files=words)
            write(text, output)


def _two_of(run_a: str | None, run_b: str | None) -> tuple[str, str]:
    if run_a is None:
        return "@previous", "@latest"
    if run_b is None:
        raise click.UsageError(
            f"two are compared: `eval-pipeline compare {run_a} B`, `compare @previous {run_a}` against the run before "
            "it, or neither for the newest complete run against the one before"
        )
    return run_a, run_b


def words_of(old: str, new: str, labels: Path | None) -> Files:
    """What was typed, as a shell takes it."""
    said = "" if labels is None else f" --labels {shlex.quote(str(labels))}"
    return shlex.quote(old), shlex.quote(new), said


@contextlib.contextmanager
def prepared(
    project: Project,
    old: str | None,
    new: str,
    labels: Path | None,
    *,
    chosen: Chosen,
    config_file: Path | None = None,
) -> Iterator[Sides]:
    """Both sides as runs, whatever they are given as, with a bar where that takes computing."""
    from eval_pipeline.planning.compare_files import side_by_side

    with contextlib.ExitStack() as stack:
        with progress_bar("computing cells") as progress:
            sides = stack.enter_context(
                side_by_side(
                    project, old, new, labels, chosen=chosen, config_file=config_file, progress=progress
                )
            )
        yield sides


def format_of(
    wanted: str | None, output: Path | None, *, as_json: bool, by_suffix: Mapping[str, str] = BY_SUFFIX
) -> str:
    """The format that was asked for, by one way or another."""
    if as_json:
        if wanted not in (None, "json"):
            raise click.UsageError(f"--json and --format {wanted} contradict each other")
        return "json"
    if wanted:
        return wanted
    if output is None or not output.suffix:
        return "table"
    suffix = output.suffix.lower()
    if suffix not in by_suffix and suffix != ".txt":
        raise click.UsageError(
            f"{output}: {suffix!r} does not say what to write; known are .txt, {', '.join(by_suffix)}; or name it with "
            "--format"
        )
    return by_suffix.get(suffix, "table")


def _text(
    document: CompareReport, chosen: str, *, every: bool, with_undefined: bool, files: Files | None
) -> str | Callable[[], None]:
    if chosen == "json":
        return json_text(document)
    if chosen == "md":
        from eval_pipeline.report.markdown import render_report_md

        return render_report_md(document)
    from eval_pipeline.cli.compare_table import print_comparison

    return lambda: print_comparison(document, every=every, with_undefined=with_undefined, files=files)


def json_text(document: Document) -> str:
    """The same document is the same text everywhere."""
    return json.dumps(as_builtins(document), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def write(text: str | Callable[[], None], output: Path | None) -> None:
    """To the file, or to standard output; a table is printed by a function."""
    if output is None:
        if callable(text):
            text()
        else:
            sys.stdout.write(text)
        return
    if callable(text):
        captured = io.StringIO()
        with contextlib.redirect_stdout(captured):
            text()
        text = captured.getvalue()
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"{output} cannot be written: {error.strerror}") from error
    say(f"wrote {output}")
