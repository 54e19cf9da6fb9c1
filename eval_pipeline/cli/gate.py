"""eval-pipeline gate"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.compare import format_of, json_text, prepared, write
from eval_pipeline.cli.options import RUN_OR_FILE, as_json, choosing, with_labels, with_store, writing
from eval_pipeline.cli.output import Cell, filled, print_line, table

if TYPE_CHECKING:
    from eval_pipeline.comparing.documents import GateReport
    from eval_pipeline.planning.named_runs import Chosen
    from eval_pipeline.store.project import Project

BY_SUFFIX = {".json": "json", ".md": "md", ".markdown": "md", ".xml": "junit"}
FAILED = 1
INCONCLUSIVE = 4
LONGEST_RULE = 14


@click.command("gate")
@click.argument("candidate", required=False, type=RUN_OR_FILE)
@click.option(
    "--baseline",
    type=RUN_OR_FILE,
    metavar="RUN_ID|FILE",
    help="What it is held against.  [table baselines of eval-pipeline.toml]",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where [gate] and [baselines] stand.  [EVAL_PIPELINE_CONFIG, eval-pipeline.toml]",
)
@with_labels
@writing(("table", "json", "md", "junit"))
@click.option("--no-store", is_flag=True, help="Do not keep the verdict in the store.")
@choosing
@with_store
@as_json
def command(
    candidate: str | None,
    baseline: str | None,
    config_file: Path | None,
    labels: Path | None,
    wanted: str | None,
    output: Path | None,
    no_store: bool,
    chosen: Chosen,
    project: Project,
    as_json: bool,
) -> None:
    """Say whether CANDIDATE is good enough: exit code 0 pass, 1 fail, 4 inconclusive.

    A rule fails when the loss exceeds its margin and is hardly chance, passes when a larger loss can be ruled out, and
    is inconclusive otherwise. With on_inconclusive = "fail" in [gate], inconclusive leaves with 1. The verdict is kept
    for the report of the suite, where the store can be written.

    CANDIDATE and --baseline are runs of the store, or files of results that `load` takes: then no verdict is kept, and
    the labels are those of --labels, else of the dataset of the run on the other side, else of the files.
    A run may also be @latest, @previous or @baseline. Without CANDIDATE it is the newest complete run, held against its
    configured baseline, else against the one before.
    """
    from eval_pipeline.comparing.stored import keep_verdict
    from eval_pipeline.planning.named_runs import LATEST, default_baseline, is_name

    form = format_of(wanted, output, as_json=as_json, by_suffix=BY_SUFFIX)
    candidate = candidate or LATEST
    if baseline is None and is_name(candidate):
        baseline = default_baseline(project, candidate, chosen, config_file)
    with prepared(project, baseline, candidate, labels, chosen=chosen, config_file=config_file) as sides:
        document = sides.judged(config_file)
    if form == "json":
        write(json_text(document), output)
    elif form == "md":
        from eval_pipeline.report.markdown import render_gate_md

        write(render_gate_md(document), output)
    elif form == "junit":
        from eval_pipeline.report.markdown import render_gate_junit

        write(render_gate_junit(document), output)
    else:
        write(lambda: _print(document), output)
    if not no_store and not sides.is_temporary:
        keep_verdict(project, document)
    sys.exit(exit_code(document))


def exit_code(document: GateReport) -> int:
    """What continuous integration looks at."""
    if document.verdict == "pass":
        return 0
    if document.verdict == "fail" or document.on_inconclusive == "fail":
        return FAILED
    return INCONCLUSIVE


def _print(document: GateReport) -> None:
    from eval_pipeline.cli.compare_table import _broken
    from eval_pipeline.report.comparison_rows import rules_worth_showing
    from eval_pipeline.report.markdown import gate_values
    from eval_pipeline.report.numbers import p_value

    print_line(f"{document.verdict.upper()}: {document.candidate} against {document.baseline}")
    for problem in document.preconditions:
        print_line(filled(f"! {problem}"))
    shown, quiet = rules_worth_showing(document)
    if shown:
        rows = [
            (
                rule.verdict,
                _broken(rule.label, most=LONGEST_RULE),
                *gate_values(rule),
                "" if rule.margin is None else f"{rule.margin:g}",
                p_value(rule.p_adjusted),
            )
            for rule in shown
        ]
        columns: list[Cell] = ["", "rule", "baseline", "candidate", "change", "margin", ("p of", "a loss")]
        print_line()
        table(columns, rows, numbers=columns[2:])
        print_line("p of a loss: one-sided; Simes inside a family of metrics, Holm over the families\n")
        for rule in sorted(shown, key=lambda rule: bool(rule.verdict != "fail")):
            if rule.verdict != "pass":
                aside = "" if rule.required else " (not required)"
                print_line(filled(f"{rule.label}{aside}: {rule.reason}"))
    if quiet:
        print_line(quiet)
    for note in document.notes:
        print_line(filled(f"note: {note}"))
    if document.skipped:
        print_line(filled(f"not judged: {'; '.join(document.skipped)}"))
