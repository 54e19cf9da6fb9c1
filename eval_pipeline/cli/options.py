"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from eval_pipeline.cli.output import say
from eval_pipeline.settings import check_overwriting, check_places, load_settings

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from eval_pipeline.store.project import Project

EXAMINING = ("doctor",)
# What shows stored numbers does so beside a definition that cannot be read.
SHOWING = ("show", "runs", "report", "export")
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
    project = project_of(settings, notify=say)
    return showing(project) if context.info_name in SHOWING else project


class RunId(click.ParamType):  # type: ignore[type-arg]  # Generic since click 8.5 alone.
    """The id of a run, or a name such as @latest; a shell completes it from the store."""

    name = "run_id"

    def __init__(self, *, or_file: bool = False, with_names: bool = True) -> None:
        self.or_file = or_file
        self.with_names = with_names

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The names, and the runs of the store that --db names; none where it cannot be read at once."""
        from click.shell_completion import CompletionItem

        from eval_pipeline.planning.named_runs import NAMES, runs_at_once

        project = ctx.params.get("project")
        known = [*(NAMES if self.with_names else ()), *(runs_at_once(project) if project else ())]
        found = [CompletionItem(one) for one in known if one.startswith(incomplete)]
        return [*found, *([CompletionItem(incomplete, type="file")] if self.or_file else [])]


RUN_ID = RunId()
RUN_OR_FILE = RunId(or_file=True)


def choosing(command: F) -> F:
    """--suite and --dataset, handed on as `chosen`: what @latest is of."""

    @wraps(command)
    def with_chosen(*arguments: Any, suite: str | None, dataset: str | None, **others: Any) -> Any:
        from eval_pipeline.planning.named_runs import Chosen

        return command(*arguments, chosen=Chosen(suite, dataset), **others)

    suite = click.option("--suite", metavar="NAME", help="The suite that @latest is of.  [any]")
    dataset = click.option("--dataset", metavar="NAME", help="The dataset that @latest is of.  [any]")
    return suite(dataset(with_chosen))  # type: ignore[return-value]


def showing(project: Project) -> Project:
    """The project for a command that only shows stored numbers: without definitions that cannot be read."""
    from eval_pipeline.formulas.readable import readable_definitions

    return replace(project, definitions=readable_definitions(project.settings, say))


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


def replacing(command: F) -> F:
    """Add --force, and check --output before the command computes anything."""

    @wraps(command)
    def with_checked_output(
        *arguments: Any, output: Path | None, force: bool, project: Project, **others: Any
    ) -> Any:
        if output is not None:
            check_overwriting(project.settings, output, force=force)
        return command(*arguments, output=output, project=project, **others)

    option = click.option(
        "--force", is_flag=True, help="Also replace a file that this program did not write. Stores stay."
    )
    return option(with_checked_output)  # type: ignore[return-value]


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
    return lambda command: form(place(replacing(command)))


def selecting(command: F) -> F:
    """--only, --runs, --since and --pinned: which of the stale cells."""
    options = [
        click.option(
            "--only",
            multiple=True,
            metavar="NAME",
            help="Only this definition and what it feeds; repeatable.",
        ),
        click.option(
            "--runs", multiple=True, type=RUN_ID, metavar="RUN_ID", help="Only this run; repeatable."
        ),
        click.option("--since", metavar="DATE", help="Only runs from the start of that UTC day on."),
        click.option("--pinned", is_flag=True, help="Also what was left on an older definition on purpose."),
    ]

    @wraps(command)
    def with_runs(*arguments: Any, runs: tuple[str, ...], project: Project, **others: Any) -> Any:
        from eval_pipeline.planning.named_runs import find_named

        return command(*arguments, runs=find_named(project, runs), project=project, **others)

    selecting_command: Any = with_runs
    for option in reversed(options):
        selecting_command = option(selecting_command)
    return selecting_command  # type: ignore[no-any-return]
