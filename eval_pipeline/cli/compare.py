"""eval-pipeline compare"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.options import as_json, with_store, writing
from eval_pipeline.cli.output import say
from eval_pipeline.documents import Document
from eval_pipeline.documents import as_json as as_builtins

if TYPE_CHECKING:
    from eval_pipeline.comparing.documents import CompareReport
    from eval_pipeline.store.project import Project

FORMATS = ("table", "json", "md", "html")
BY_SUFFIX = {".json": "json", ".md": "md", ".markdown": "md", ".html": "html", ".htm": "html"}


@click.command("compare")
@click.argument("run_a", metavar="A")
@click.argument("run_b", metavar="B")
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
@writing(FORMATS)
@with_store
@as_json
def command(
    run_a: str,
    run_b: str,
    strict_chunker_version: bool,
    with_undefined: bool,
    wanted: str | None,
    output: Path | None,
    project: Project,
    as_json: bool,
) -> None:
    """Compare two runs: what moved from A to B, how sure that is, and which queries it was.

    Runs of different chunker versions are matched by document and span instead of by chunk id.
    """
    from eval_pipeline.comparing.compare import compare

    chosen = format_of(wanted, output, as_json=as_json)
    document = compare(project, run_a, run_b, strict_chunker_version=strict_chunker_version)
    if chosen == "html":
        from eval_pipeline.report.pages.collect import pair_page

        write(pair_page(project, run_a, run_b, document=document), output)
    else:
        write(_text(document, chosen, with_undefined=with_undefined), output)


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


def _text(document: CompareReport, chosen: str, *, with_undefined: bool) -> str | Callable[[], None]:
    if chosen == "json":
        return json_text(document)
    if chosen == "md":
        from eval_pipeline.report.markdown import render_report_md

        return render_report_md(document)
    from eval_pipeline.cli.compare_table import print_comparison

    return lambda: print_comparison(document, with_undefined=with_undefined)


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
