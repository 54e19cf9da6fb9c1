"""eval-pipeline quarantine"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from eval_pipeline.cli.options import RUN_ID, as_json, with_store
from eval_pipeline.cli.output import print_json, print_line, say, table
from eval_pipeline.words import count

if TYPE_CHECKING:
    from eval_pipeline.store.project import Project


STILL_QUARANTINED = 3
SHOWN = 10
CLIPPED = 160

Row = Mapping[str, Any]


@click.command("quarantine")
@click.option(
    "--run", "runs", multiple=True, type=RUN_ID, metavar="RUN_ID", help="Only of this run; repeatable."
)
@click.option(
    "--dataset",
    "datasets",
    multiple=True,
    metavar="DATASET",
    help="Only of this dataset, its golden set, its archives and its runs; repeatable.",
)
@click.option("--resolved", is_flag=True, help="What was in quarantine and has been put right since.")
@click.option(
    "--retry",
    is_flag=True,
    help="After a fix: read the files again and load what is good now; exit with 3 when something is not.",
)
@click.option("--no-text", is_flag=True, help="With --retry: load no questions, answers and passages.")
@with_store
@as_json
def command(
    runs: tuple[str, ...],
    datasets: tuple[str, ...],
    resolved: bool,
    retry: bool,
    no_text: bool,
    project: Project,
    as_json: bool,
) -> None:
    """Show what was rejected: file, line, field, reason and the text as it was delivered.

    A row leaves quarantine when its part is delivered again without the fault, or by --retry.
    """
    if no_text and not retry:
        raise click.UsageError("--no-text says how to read again: give --retry with it")
    if resolved and retry:
        raise click.UsageError("--resolved only looks, --retry reads again: give one of them")
    from eval_pipeline.planning.named_runs import find_named

    runs = find_named(project, runs)
    asked: dict[str, Any] = {"run_ids": list(runs) or None, "datasets": list(datasets) or None}
    if retry:
        _retry(project, asked, no_text=no_text, as_json=as_json)
    else:
        _show(project, asked, resolved=resolved, as_json=as_json)


def _show(project: Project, asked: Mapping[str, Any], *, resolved: bool, as_json: bool) -> None:
    from eval_pipeline.loading.quarantine import count_resolved, find_quarantine

    rows = find_quarantine(project, **asked, resolved=resolved)
    if as_json:
        print_json({"format": 1, "rows": rows})
        return
    where = " for what you asked" if asked["run_ids"] or asked["datasets"] else ""
    if not rows:
        print_line(f"Nothing was resolved{where}." if resolved else f"Nothing is in quarantine{where}.")
    else:
        _print_reasons(rows)
        print_line()
        _print_rows(rows)
    earlier = 0 if resolved else count_resolved(project, **asked)
    if earlier:
        say(f"{count(earlier, 'row')} resolved since: --resolved shows them")
    if rows and not resolved:
        say("Next: correct the files, then `eval-pipeline quarantine --retry`.")


def _retry(project: Project, asked: Mapping[str, Any], *, no_text: bool, as_json: bool) -> None:
    from eval_pipeline.loading.quarantine import retry_quarantine

    document = retry_quarantine(project, **asked, no_text=no_text)
    if as_json:
        print_json(document)
    else:
        _print_retry(document)
    if document["rows"]:
        sys.exit(STILL_QUARANTINED)


def _print_retry(document: Mapping[str, Any]) -> None:
    mended, rows = document["mended"], document["rows"]
    if not mended and not rows:
        print_line("Nothing is in quarantine.")
        return
    print_line(f"{count(len(mended), 'row')} mended, {len(rows):,} still in quarantine.")
    for row in mended[:SHOWN]:
        print_line(f"mended: {_place(row)}: {_fault(row)}")
    if len(mended) > SHOWN:
        print_line(f"… and {count(len(mended) - SHOWN, 'row')} more")
    if rows:
        print_line()
        _print_reasons(rows)
        print_line()
        _print_rows(rows)
    for one in document["unread"]:
        say(f"{one['path']} {one['why']}")
    if document["taken_in"]:
        say("Next: `eval-pipeline run` computes what was taken in.")


def _print_reasons(rows: Sequence[Row]) -> None:
    """How often each fault, and in how many runs or sources."""
    grouped: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        grouped.setdefault((row["field"] or "", row["reason"]), []).append(row)
    ordered = sorted(grouped.items(), key=lambda item: (-len(item[1]), item[0]))
    columns = ["rows", "field", "reason", "in"]
    shown = [
        (f"{len(group):,}", field, reason[:CLIPPED], _owners(group))
        for (field, reason), group in ordered[: 2 * SHOWN]
    ]
    # Where everything is of one run, every line below says which.
    n_columns = 3 if len({_owners([row]) for row in rows}) == 1 else 4
    table(columns[:n_columns], [row[:n_columns] for row in shown], numbers=["rows"])
    if len(ordered) > 2 * SHOWN:
        print_line(f"… and {count(len(ordered) - 2 * SHOWN, 'reason')} more")


def _owners(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(row["run_id"] or row["dataset"] or "a bundle" for row in rows))
    return names[0] + (f" and {len(names) - 1:,} more" if len(names) > 1 else "")


def _print_rows(rows: Sequence[Row]) -> None:
    for row in rows[:SHOWN]:
        print_line(_place(row))
        print_line(f"    {_fault(row)}")
        if row["text"]:
            print_line(f"    {_clipped(row['text'])}")
    if len(rows) > SHOWN:
        print_line(f"… and {count(len(rows) - SHOWN, 'row')} more: --json prints all of them")


def _place(row: Row) -> str:
    return f"{row['path']}:{row['line']}" if row["line"] else str(row["path"])


def _fault(row: Row) -> str:
    return f"{row['field'] + ': ' if row['field'] else ''}{row['reason']}"


def _clipped(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= CLIPPED else line[:CLIPPED] + " …"
