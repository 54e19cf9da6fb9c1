"""eval-pipeline show"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.options import RUN_ID, as_json, choosing, with_store
from eval_pipeline.cli.output import (
    filled,
    number,
    print_json,
    print_json_line,
    print_line,
    table,
)
from eval_pipeline.cli.show_parts import print_parts
from eval_pipeline.documents import UNSET
from eval_pipeline.formulas.catalogue import CORE, SLICED
from eval_pipeline.report.pages.html import in_line
from eval_pipeline.words import count

if TYPE_CHECKING:
    from eval_pipeline.planning.named_runs import Chosen
    from eval_pipeline.showing.run_report import Extraction, Metric, RunReport
    from eval_pipeline.store.project import Project

NAMED = 5
PART_WORDS = {
    "results": "result",
    "extractions": "extraction case",
    "judge_spot_check": "spot check line",
    "index_report": "index report",
}


@click.command("show")
@click.argument("run_id", type=RUN_ID)
@click.option("--per-query", is_flag=True, help="One line per query, unrounded, in golden order.")
@click.option("--slices/--no-slices", default=True, help="With or without the slices.  [with]")
@click.option(
    "--undefined",
    "with_undefined",
    is_flag=True,
    help="List every metric without a value, and why it has none.",
)
@click.option(
    "--as-of",
    metavar="DATE|FINGERPRINT",
    help="As the values were at the end of that UTC day (or at that time), or under the formula of that fingerprint.",
)
@choosing
@with_store
@as_json
def command(
    run_id: str,
    per_query: bool,
    slices: bool,
    with_undefined: bool,
    as_of: str | None,
    chosen: Chosen,
    project: Project,
    as_json: bool,
) -> None:
    """Show a run's aggregates and slices; with --per-query one JSON line a query.

    RUN_ID may be @latest, @previous or @baseline.
    """
    from eval_pipeline.planning.named_runs import find_named
    from eval_pipeline.showing.show import show_queries, show_run

    (run_id,) = find_named(project, [run_id], chosen)
    if per_query:
        for line in show_queries(project, run_id):
            print_json_line(line)
        return
    report = show_run(project, run_id, as_of=as_of)
    if as_json:
        print_json(report)
    else:
        _print(report, with_slices=slices, with_undefined=with_undefined)


def _print(report: RunReport, *, with_slices: bool, with_undefined: bool) -> None:
    asks_queries = not report.is_without_results
    asked = _queries_in_words(report) if asks_queries else _cases_in_words(report.extraction)
    print_line(f"{report.run_id} on {report.dataset}: {asked}")
    for name in ("missing", "unknown") if asks_queries else ():
        ids = getattr(report, f"{name}_query_ids")
        if ids:
            print_line(f"{name}: {in_line(', '.join(ids[:5]))}{' …' if len(ids) > 5 else ''} ({len(ids):,})")
    if report.state == "implausible":
        print_line(filled(f"implausible: {report.plausibility_in_words}"))
    _print_standing(report)
    _print_as_of(report)
    shown = {key: entry for key, entry in report.metrics.items() if entry.n}
    if asks_queries:
        _print_metrics(report, shown)
        _print_undefined(report.undefined, is_listed=with_undefined)
    frozen = [name for name, entry in report.formulas.items() if entry.frozen is True]
    if frozen:
        print_line(
            filled(f"frozen (the texts behind them were forgotten, the values stay): {', '.join(frozen)}")
        )
    _print_states(report)
    print_parts(report)
    if with_slices and asks_queries:
        _print_slices(report, [*(key for key in (*CORE, *SLICED) if key in shown), *shown])


def _queries_in_words(report: RunReport) -> str:
    queries = count(report.total_queries, "query", plural="queries")
    return f"{queries}, {report.failed_queries:,} failed"


def _cases_in_words(extraction: Extraction | None) -> str:
    scored, failed = (len(extraction.cases), len(extraction.failed_cases)) if extraction else (0, 0)
    return f"{count(scored + failed, 'extraction case')}, {failed:,} failed"


def _print_metrics(report: RunReport, shown: Mapping[str, Metric]) -> None:
    print_line()
    values = [number(entry.value) for entry in shown.values()]
    counts = [report.coverage_of(key) or f"{entry.n:,}" for key, entry in shown.items()]
    table(["metric", "value", "n"], list(zip(shown, values, counts, strict=True)), numbers=["value", "n"])
    if any(map(report.coverage_of, shown)):
        print_line("n of m: only n of the m answers that need the score have one")


def _print_undefined(undefined: dict[str, str], *, is_listed: bool) -> None:
    from eval_pipeline.showing.undefined import in_short

    if undefined and is_listed:
        print_line()
        table(["undefined", "why"], list(undefined.items()))
        return
    # Of formulas that failed each is told by itself.
    others = {key: why for key, why in undefined.items() if not why.startswith("failed: ")}
    if others:
        print_line(filled(f"{in_short(others)}; `--undefined` lists them"))


def _print_standing(report: RunReport) -> None:
    """What a reader has to know of the run as an attempt at its night, and of what was rejected of it."""
    night = report.night
    if not night.is_complete and night.golden_queries:
        why = (
            "golden queries are without a result"
            if report.missing_query_ids
            else "not finished by `evaluate`"
        )
        print_line(f"incomplete: {why}, so it does not stand for its night")
    if night.not_asked:
        asked = count(night.not_asked, "query", plural="queries")
        print_line(f"not asked: {asked} that joined the golden set later")
    if night.superseded_by:
        print_line(f"replaced by {night.superseded_by}")
    elif night.is_complete and not night.is_last_complete:
        print_line(f"not the last complete attempt of {night.night}")
    if report.quarantined:
        rejected = sorted((PART_WORDS.get(part, part), n) for part, n in report.quarantined.items())
        print_line("in quarantine: " + ", ".join(count(n, word) for word, n in rejected))


def _print_as_of(report: RunReport) -> None:
    """What is not the present, and must not be held beside it without a word."""
    if report.as_of:
        older = report.older_definitions or []
        meanings = f"not the ones that hold now: {', '.join(older)}" if older else "the ones that hold now"
        print_line(filled(f"as of {report.as_of}; definitions: {meanings}"))


def _print_states(report: RunReport) -> None:
    """Which tables do not hold any more, and which are left as they are; frozen formulas are told above."""
    marked: dict[str, list[str]] = {}
    for entry in report.states or ():
        if entry.state != "frozen":
            if entry.state == "failed":
                print_line(filled(f"{entry.table.split('.', 1)[1]} failed: {entry.reason}"))
                continue
            reason = f" ({entry.reason})" if entry.reason else ""
            marked.setdefault(entry.state + reason, []).append(entry.table.split(".", 1)[1])
    for mark, tables in marked.items():
        rest = f" and {len(tables) - NAMED} more" if len(tables) > NAMED else ""
        print_line(f"{mark}: {', '.join(tables[:NAMED])}{rest}")
    if any(not mark.startswith("pinned") for mark in marked):
        print_line("`eval-pipeline run --all` computes what is stale or missing.")


def _milliseconds(value: float | None) -> str:
    return "—" if value is None else f"{value:,.0f}"


def _print_slices(report: RunReport, keys: list[str]) -> None:
    # More would leave no room for the names of the slices.
    timed = any(
        entry.performance is not UNSET for values in report.slices.values() for entry in values.values()
    )
    keys = list(dict.fromkeys(keys))[: 2 if timed else 3]
    times = {"p50 ms": "p50_ms", "p95 ms": "p95_ms"} if timed else {}
    rows = [
        (
            name,
            value,
            f"{entry.n_queries:,}{'*' if entry.is_small else ' '}",
            *(number(entry.metrics[key].value) for key in keys),
            *(_milliseconds(getattr(entry.performance, name, None)) for name in times.values()),
        )
        for name, values in report.slices.items()
        for value, entry in values.items()
    ]
    if rows:
        print_line()
        table(["slice", "", "queries", *keys, *times], rows, numbers=["queries", *keys, *times])
        if any(entry.is_small for values in report.slices.values() for entry in values.values()):
            print_line("* few queries: a single one moves a value by more than a tenth")
