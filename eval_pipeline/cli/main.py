"""eval-pipeline: the group of commands, its exit codes; commands are imported when called."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any

import click

from eval_pipeline.errors import EvalPipelineError

INTERNAL_ERROR = 70
INTERRUPTED = 130

COMMANDS = {
    "demo": "Load the shipped example, run everything, and show what to try.",
    "init": "Look at a file of results and write a mapping for it.",
    "load": "Load bundles, or one file of results.",
    "evaluate": "Ask the system under test and the judges, load, compute.",
    "rejudge": "Judge stored answers again.",
    "judges": "Show the judges, try one, hold one against known answers.",
    "calls": "Show what was asked and paid.",
    "run": "Compute what is missing or was delivered again.",
    "status": "Show what is fresh, stale (and why), or missing.",
    "plan": "Show what recomputing would touch, cost and change.",
    "apply": "Compute exactly what `plan` lists.",
    "runs": "List the runs: what they answered, whether they hold.",
    "show": "Show a run's aggregates and slices.",
    "compare": "Compare two runs: what moved, how sure that is, which queries.",
    "diff": "Show what differs between two runs' configurations.",
    "gate": "Say whether a run is good enough: pass, fail or inconclusive, for CI.",
    "explain": "Say why a number moved between two runs, or two points of time.",
    "report": "Write a self-contained HTML page, or a site of all of them.",
    "view": "Show all pages and any two runs in the browser, read-only.",
    "metrics": "Show the catalogue: formulas, versions, parameters, examples.",
    "export": "Write a run's numbers to files.",
    "quarantine": "Show what was rejected and why.",
    "forget": "Remove a run or a dataset, or only its texts, for good.",
    "compact": "Rewrite the store file without what was removed from it.",
    "rebuild": "Rebuild a broken store from the kept deliveries.",
    "backup": "Copy the store and its kept deliveries, verified.",
    "doctor": "Find what is wrong with this installation and store.",
    "query": "Ask the store in SQL, read-only.",
    "ui": "Open Dagster's web interface on this project.",
    "serve": "Keep Dagster's servers running, on a machine without a screen.",
}


class LazyGroup(click.Group):
    """A group whose commands live in one file each, read when they are called."""

    def __init__(self, *arguments: Any, known: Mapping[str, str] = COMMANDS, **others: Any) -> None:
        super().__init__(*arguments, **others)
        self.known = known

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.known)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.known:
            return None
        module = importlib.import_module(f"eval_pipeline.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.known.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.known:
            import difflib

            close = difflib.get_close_matches(args[0], self.known, n=1)
            hint = f" Did you mean {close[0]}?" if close else f" There is: {', '.join(self.known)}."
            raise click.UsageError(f"No command named {args[0]!r}.{hint}", ctx=ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="eval-pipeline", prog_name="eval-pipeline")
@click.option("--traceback", is_flag=True, help="On an internal error, print where it happened.")
def cli(traceback: bool) -> None:
    """Know whether an AI system got better.

    Evaluation results in DuckDB: exact metrics per query, recomputed exactly where a formula, a label or the data
    changed.

    \b
    Exit codes: 0 done · 1 the answer is no · 2 wrong usage or unknown name · 3 done, input was quarantined ·
    4 inconclusive · 5 refused · 6 not finished, the same command goes on · 70 internal error
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    run_program(cli, "eval-pipeline", arguments)


def run_program(program: click.Group, name: str, arguments: list[str] | None = None) -> None:
    """Run a program of ours under its name and leave with its exit code; without arguments those of the process."""
    code = _run(program, name, sys.argv[1:] if arguments is None else arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _stop_writing()
    sys.exit(code)


def _run(program: click.Group, name: str, words: list[str]) -> int:
    try:
        code = program.main(args=words, prog_name=name, standalone_mode=False)
    except SystemExit as left:
        code = left.code
    except (click.exceptions.Abort, KeyboardInterrupt):
        code = _fail("interrupted", INTERRUPTED)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except EvalPipelineError as error:
        code = _fail(str(error), error.exit_code)
    except BrokenPipeError:
        _stop_writing()
        code = 0
    except Exception as error:
        if "--traceback" in words:
            raise
        code = _fail(
            f"internal error: {type(error).__name__}: {error}\n"
            f"Nothing was half written. `{name} --traceback …` shows where it happened.",
            INTERNAL_ERROR,
        )
    return code if isinstance(code, int) else 0


def _stop_writing() -> None:
    """Whoever read our output has seen enough; the interpreter's own last flush must not complain either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: int) -> int:
    from eval_pipeline.report.pages.html import visible

    sys.stderr.write(visible(f"error: {message}\n"))
    return code
