"""Writes the generated pages under docs/ anew: `python -m docs.build.commands`, or `make docs`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from docs.build.documents import documents_page, documents_schema
from docs.build.figures import statistics_figures
from docs.build.forms import forms_page
from docs.build.pages import NOTICE, generated_pages, project_root, shipped_registry
from docs.build.requirements import requirements_page
from docs.build.tools import tools_page

HELP_WIDTH = 88


def all_pages(programs: Mapping[str, click.Group]) -> dict[str, str]:
    """Every generated page: its place below the project, and its text."""
    return {
        **generated_pages(),
        **statistics_figures(),
        "docs/reference/commands.md": commands_page(programs),
        "docs/reference/documents.md": documents_page(),
        "docs/reference/documents.schema.json": documents_schema(),
        "docs/reference/files-going-out.md": NOTICE + forms_page(),
        "docs/reference/files-of-tools.md": NOTICE + tools_page(),
        "docs/requirements.md": requirements_page(shipped_registry(), project_root()),
    }


def write_pages(programs: Mapping[str, click.Group], root: Path) -> list[Path]:
    """Write every page that is out of date below the root; returns those."""
    written: list[Path] = []
    for place, text in all_pages(programs).items():
        path = root / place
        if path.is_file() and path.read_text("utf-8") == text:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        written.append(path)
    return written


def commands_page(programs: Mapping[str, click.Group]) -> str:
    """Every command's own help, once: what a second program names as well is not repeated."""
    lines = ["# Commands", "", "What `eval-pipeline COMMAND --help` and `kb eval --help` print.", ""]
    seen: set[click.Command] = set()
    for program, commands in programs.items():
        for name, text in _helps(commands, program, None, seen):
            lines += [f"## `{name}`", "", "```text", text, "```", ""]
    return NOTICE + "\n".join(lines)


def _helps(
    command: click.Command, name: str, parent: click.Context | None, seen: set[click.Command]
) -> Iterator[tuple[str, str]]:
    if command in seen:
        return
    seen.add(command)
    shape = {**command.context_settings, "terminal_width": HELP_WIDTH, "max_content_width": HELP_WIDTH}
    context = click.Context(command, info_name=name, parent=parent, **shape)
    yield context.command_path, command.get_help(context).rstrip()
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            if found is not None:
                yield from _helps(found, inner, context, seen)


if __name__ == "__main__":
    from eval_pipeline.cli.kb import PROGRAMS

    for written_page in write_pages(PROGRAMS, project_root()):
        print("wrote", written_page.relative_to(project_root()))
