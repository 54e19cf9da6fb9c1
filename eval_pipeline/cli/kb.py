"""kb: three commands of eval-pipeline, under the words of a knowledge base."""

from __future__ import annotations

import click

from eval_pipeline.cli.main import COMMANDS, LazyGroup, cli, run_program

ALIASES = ("compare", "run", "metrics")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--traceback", is_flag=True, help="On an internal error, print where it happened.")
def kb(traceback: bool) -> None:
    """Ask about evaluation runs in the words of a knowledge base.

    The same commands as those of `eval-pipeline`, with the same options, output and exit codes.
    """


@kb.group("eval", cls=LazyGroup, known={name: COMMANDS[name] for name in ALIASES})
def evaluation() -> None:
    """Compute and compare stored runs.

    `kb eval compare A B` is `eval-pipeline compare A B`, and so are the others. `kb eval run` computes metrics
    from stored results; it asks no system anything: results come in by `eval-pipeline load PATH`.
    """


PROGRAMS = {"eval-pipeline": cli, "kb": kb}


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    run_program(kb, "kb", arguments)
