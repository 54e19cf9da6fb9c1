"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from eval_pipeline.cli.output import say
from eval_pipeline.settings import check_places, load_settings

if TYPE_CHECKING:
    from eval_pipeline.store.project import Project

EXAMINING = ("doctor",)
F = TypeVar("F", bound=Callable[..., Any])


def with_store(command: F) -> F:
    """--db PATH, handed on as the project."""
    option = click.option(
        "--db",
        "project",
        # Whoever opens the store says what is in its way, and what to do.
        type=click.Path(dir_okay=False, readable=False, path_type=Path),
        metavar="PATH",
        help="The store's file.  [EVAL_PIPELINE_DB, data/eval.duckdb]",
        callback=_project,
    )
    return option(command)


def _project(context: click.Context, _parameter: click.Parameter, value: Path | None) -> Project:
    from eval_pipeline.store.project import project_of

    settings = load_settings(db=value)
    # What examines the settings says itself what is wrong with them.
    if context.info_name not in EXAMINING:
        check_places(settings)
    return project_of(settings, notify=say)


def with_labels(command: F) -> F:
    """--labels: what files are scored by."""
    option = click.option(
        "--labels",
        type=click.Path(exists=True, path_type=Path),
        metavar="FILE",
        help="What is expected: qrels, a golden set, a BEIR folder.  [what the files or the dataset say]",
    )
    return option(command)


def as_json(command: F) -> F:
    """--json."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def writing(formats: Sequence[str]) -> Callable[[F], F]:
    """--format and --output: what to write, and where to."""
    form = click.option(
        "--format",
        "wanted",
        type=click.Choice(formats),
        help="What to write.  [table, or by the suffix of FILE]",
    )
    place = click.option(
        "--output",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Where to.  [standard output]",
    )
    return lambda command: form(place(command))


def selecting(command: F) -> F:
    """--only, --runs, --since and --pinned: which of the stale cells."""
    options = [
        click.option(
            "--only",
            multiple=True,
            metavar="NAME",
            help="Only this definition and what it feeds; repeatable.",
        ),
        click.option("--runs", multiple=True, metavar="RUN_ID", help="Only this run; repeatable."),
        click.option("--since", metavar="DATE", help="Only runs from the start of that UTC day on."),
        click.option("--pinned", is_flag=True, help="Also what was left on an older definition on purpose."),
    ]
    for option in reversed(options):
        command = option(command)
    return command
