"""Writes the generated pages under docs/ anew: `python -m docs.build.commands`, or `make docs`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from docs.build.pages import NOTICE, generated_pages, project_root

HELP_WIDTH = 88


def all_pages(commands: click.Group) -> dict[str, str]:
    """Every generated page: its place below the project, and its text."""
    return {**generated_pages(), "docs/reference/commands.md": commands_page(commands)}


def write_pages(commands: click.Group, root: Path) -> list[Path]:
    """Write every page that is out of date below the root; returns those."""
    written: list[Path] = []
    for place, text in all_pages(commands).items():
        path = root / place
        if path.is_file() and path.read_text("utf-8") == text:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        written.append(path)
    return written


def commands_page(commands: click.Group) -> str:
    """Every command's own help."""
    lines = ["# Commands", "", "What `eval-pipeline COMMAND --help` prints.", ""]
    for name, text in _helps(commands, "eval-pipeline", None):
        lines += [f"## `{name}`", "", "```text", text, "```", ""]
    return NOTICE + "\n".join(lines)


def _helps(command: click.Command, name: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    shape = {**command.context_settings, "terminal_width": HELP_WIDTH, "max_content_width": HELP_WIDTH}
    context = click.Context(command, info_name=name, parent=parent, **shape)
    yield context.command_path, command.get_help(context).rstrip()
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            if found is not None:
                yield from _helps(found, inner, context)


if __name__ == "__main__":
    from eval_pipeline.cli.main import cli

    for written_page in write_pages(cli, project_root()):
        print("wrote", written_page.relative_to(project_root()))
