"""eval-pipeline explain"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.options import RUN_ID, as_json, choosing, with_store
from eval_pipeline.cli.output import print_json, print_line, table
from eval_pipeline.report.pages.html import in_line
from eval_pipeline.words import count, decimal, signed

if TYPE_CHECKING:
    from eval_pipeline.planning.named_runs import Chosen
    from eval_pipeline.planning.reports import ExplainReport
    from eval_pipeline.store.project import Project

WORDS = {
    "system": "other results from the system",
    "scorer": "another scorer; what the system did is part of it, since the first scorer did not score B",
    "formula": "another definition",
    "labels": "other labels",
    "data": "the same run delivered anew, or other archives",
    "interaction": "no order of the changes has values all along",
}


@click.command("explain")
@click.argument("metric")
@click.argument("runs", nargs=-1, required=True, type=RUN_ID, metavar="A [B]")
@click.option(
    "--as-of",
    multiple=True,
    metavar="DATE|FINGERPRINT",
    help="A point of time for A (and, given twice, for B); with one run, twice: from when to when.",
)
@choosing
@with_store
@as_json
def command(
    metric: str,
    runs: tuple[str, ...],
    as_of: tuple[str, ...],
    chosen: Chosen,
    project: Project,
    as_json: bool,
) -> None:
    """Say why METRIC moved between two runs, or for one run between two points of time (--as-of twice).

    The movement is split into system, scorer, formula, labels and data; the terms add up exactly, and B A is A B
    with the other sign. A and B may be @latest, @previous or @baseline.
    """
    from eval_pipeline.planning.explain import explain_movement
    from eval_pipeline.planning.named_runs import find_named

    if len(runs) > 2 or len(as_of) > 2 or (len(runs) == 1 and not as_of):
        raise click.UsageError(
            "give two runs, or one run and --as-of twice (a second --as-of left out means now)"
        )
    runs = find_named(project, runs, chosen)
    pair = (runs[0], runs[-1])
    points = (as_of[0] if as_of else None, as_of[1] if len(as_of) > 1 else None)
    document = explain_movement(project, metric, pair, as_of=points)
    if as_json:
        print_json(document)
    else:
        _print(document)


def _print(document: ExplainReport) -> None:
    a, b = document.a, document.b
    print_line(
        f"{in_line(document.metric)}: {decimal(a.value)} → {decimal(b.value)}, {signed(document.total)}"
    )
    for run_id, point in ((document.run_a, a), (document.run_b, b)):
        when = f" as of {point.as_of}" if point.as_of else ""
        print_line(f"  {run_id}{when}: n = {point.n:,}, {point.fingerprint}")
    if a.fingerprint != b.fingerprint:
        print_line("  The two values were made under different definitions: `formula` is what that did.")
    print_line()
    table(
        ["because of", "change", ""],
        [
            (term, signed(change), words)
            for term, words in WORDS.items()
            if (change := getattr(document, term)) is not None
            and (change or term not in ("scorer", "interaction"))
        ],
        numbers=["change"],
    )
    if document.contributors:
        print_line()
        table(
            ["query", "term", "change"],
            [(entry.query_id, entry.term, signed(entry.change)) for entry in document.contributors],
            numbers=["change"],
        )
        _print_rest(document)


def _print_rest(document: ExplainReport) -> None:
    """How many more queries moved a term than are listed."""
    shown = Counter(entry.term for entry in document.contributors)
    for term, n in document.n_contributors.items():
        if n > shown[term]:
            print_line(f"… and {count(n - shown[term], 'more query', plural='more queries')} ({term})")
