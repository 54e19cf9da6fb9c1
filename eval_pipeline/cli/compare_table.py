"""A comparison on a terminal of 80 columns."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from eval_pipeline.cli.main import COMMANDS
from eval_pipeline.cli.output import filled, print_line, table
from eval_pipeline.cli.show import _print_undefined
from eval_pipeline.comparing.documents import BETTER, WORSE, CompareReport
from eval_pipeline.report.comparison_rows import (
    Row,
    is_sure,
    left_out,
    moved_queries,
    rows_of,
    short_names,
    shown_first,
    surest_metric,
)
from eval_pipeline.report.markdown import LISTED_QUERIES
from eval_pipeline.report.numbers import change, p_value, rank
from eval_pipeline.report.pages.html import in_line
from eval_pipeline.report.verdict import Verdict, verdict_on
from eval_pipeline.words import count

SHOWN_QUERIES = 10
SHOWN_SLICES = 5
SHOWN_FLAKY = 5
LONGEST_NAME = 19
MARKS: Final = {BETTER: "▲ ", WORSE: "▼ "}

# Old, new, and the words that name their labels.
Files = tuple[str, str, str]


def print_comparison(
    report: CompareReport, *, every: bool = False, with_undefined: bool = False, files: Files | None = None
) -> None:
    """The verdict, what it rests on and where to look; then the numbers, with `every` also parts of questions."""
    print_line(f"{report.run_b} against {report.run_a}")
    _print_verdict(verdict_on(report))
    if report.causes:
        print_line(filled(f"known differences: {', '.join(report.causes)}"))
    for warning in report.warnings:
        print_line(filled(f"! {warning}"))
    _print_rows(report, every=every)
    if report.asks_queries:
        _print_undefined(report.undefined, is_listed=with_undefined)
        if report.fallback_metrics and report.counts.not_applicable < len(report.per_query):
            _print_sensitivity(report)
        _print_counts(report)
    _print_queries(report)
    _print_slices(report)
    _print_flaky(report)
    print_line("\nNext:")
    for line in _next(report) if files is None else _next_of_files(*files):
        print_line(f"  {line}")


def _print_verdict(verdict: Verdict) -> None:
    print_line(filled(verdict.sentence))
    if verdict.latency:
        print_line(filled(verdict.latency))
    if verdict.trust:
        print_line(filled(f"trust: {verdict.trust}"))
    if verdict.places:
        print_line(filled(f"where: {' · '.join(place.words for place in verdict.places)}"))


def _print_rows(report: CompareReport, *, every: bool) -> None:
    rows = rows_of(report)
    same = [row for row in rows if row.is_same]
    rows = [row for row in rows if not row.is_same]
    asked = [row for row in rows if row.is_asked]
    rest = [row for row in rows if row not in asked]
    if asked:
        print_line()
        _print_asked(report, asked)
    if every and rest:
        print_line()
        _print_others(report, rest)
    shown = [*asked, *rest] if every else asked
    if same and report.run_a != report.run_b:
        named = ", ".join(row.key for row in same)
        print_line(filled(f"computed from the same results, and therefore the same: {named}"))
    if any(row.is_noise for row in shown):
        print_line("~ no more than identical runs differ")
    caveats = sorted({row.caveat for row in shown if row.caveat})
    if caveats:
        print_line(f"* {'; '.join(caveats)}")
    if rest and not every:
        print_line(
            filled(f"{count(len(rest), 'more measure')} that ask nothing themselves: `--all` lists them")
        )


def _print_asked(report: CompareReport, rows: Sequence[Row]) -> None:
    cells = [
        (
            _broken(row.name + _name_marks(row)),
            row.a,
            row.b,
            MARKS.get(row.verdict or "", "") + row.change,
            row.interval,
            _narrow(row.p_adjusted + ("~" if row.is_noise else "")),
        )
        for row in rows
    ]
    columns = ["metric", *short_names(report.run_a, report.run_b), "change", "95 % interval", "p adj."]
    table(columns, cells, numbers=columns[1:])
    if any(row.verdict in MARKS for row in rows):
        print_line("  ".join(f"{mark}{verdict}" for verdict, mark in MARKS.items()))
    if any(row.tested.p_adjusted is not None for row in rows):
        print_line("p adj.: Simes inside a family of metrics, Benjamini–Hochberg over the families")
        print_line("(`metrics NAME` says which)")


def _print_others(report: CompareReport, rows: Sequence[Row]) -> None:
    """What asks no question of its own, with what it is a part of in place of a p-value."""
    cells = [
        (
            _broken(row.name + _name_marks(row)),
            row.a,
            row.b,
            row.change,
            "" if row.tested.p_value is None else _narrow(row.p_adjusted),
        )
        for row in rows
    ]
    columns = ["metric", *short_names(report.run_a, report.run_b), "change", "no p of its own"]
    table(columns, cells, numbers=columns[1:-1])


def _broken(name: str, *, most: int = LONGEST_NAME) -> tuple[str, ...]:
    """A name too long for its column goes on at one of its own joints."""
    if len(name) <= most:
        return (name,)
    place = max(name.rfind(joint, 0, most) for joint in "._") + 1
    return (name[:place], name[place:]) if place else (name,)


def _narrow(reason: str) -> tuple[str, ...]:
    """Why there is no adjusted p, in a column for numbers."""
    for joint, kept in (("part of extraction.", "part of"), ("too few ", "too few")):
        if reason.startswith(joint):
            return kept, reason.removeprefix(joint)
    return (reason,)


def _name_marks(row: Row) -> str:
    return "*" if row.caveat else ""


def _print_sensitivity(report: CompareReport) -> None:
    if report.sensitivity:
        told = [
            f"{float(threshold):.0%}: {counts.win} won, {counts.loss} lost"
            for threshold, counts in report.sensitivity.items()
        ]
        print_line(filled(f"by the share of characters that has to match: {'; '.join(told)}"))


def _print_counts(report: CompareReport) -> None:
    counts = report.counts.by_kind()
    told = [f"{number:,} {name.replace('_', ' ')}" for name, number in counts.items() if number]
    print_line("\n" + filled(f"queries: {', '.join(told) if told else 'none in both runs'}"))


def _print_queries(report: CompareReport) -> None:
    moved = moved_queries(report)
    if not moved:
        return
    rows = [
        (
            entry.query_id,
            entry.kind.replace("_", " "),
            rank(entry.a_hit_rank),
            rank(entry.b_hit_rank),
            shown_first(entry.regressed_chunk_ids, 1),
        )
        for entry in moved[:SHOWN_QUERIES]
    ]
    print_line()
    ranks = [f"rank {name}" for name in short_names(report.run_a, report.run_b)]
    table(["query", "", *ranks, "lost chunk"], rows, numbers=ranks)
    if len(moved) > SHOWN_QUERIES:
        told = f"… of {len(moved):,} that moved; left out: {left_out(moved, SHOWN_QUERIES)}"
        print_line(
            filled(f"{told} (--format {'md' if len(moved) <= LISTED_QUERIES else 'json'} lists them all)")
        )


def _print_slices(report: CompareReport) -> None:
    shown = [entry for entry in report.slices if is_sure(entry)] or report.slices[:SHOWN_SLICES]
    if not shown:
        return
    rows = [
        (
            f"{entry.slice} = {entry.slice_value}",
            entry.metric,
            f"{entry.n_queries:,}",
            change(entry.delta),
            p_value(entry.p_adjusted),
        )
        for entry in shown[:SHOWN_SLICES]
    ]
    print_line()
    table(["slice", "metric", "queries", "change", "p adj."], rows, numbers=["queries", "change", "p adj."])


def _print_flaky(report: CompareReport) -> None:
    flaky = report.flaky_queries
    if flaky:
        named = shown_first([entry.query_id for entry in flaky], SHOWN_FLAKY)
        print_line("\n" + filled(f"flaky between identical runs: {named}"))


def _next_of_files(old: str, new: str, labels: str) -> Iterator[str]:
    """The same where no store knows the runs."""
    yield f"eval-pipeline gate {new} --baseline {old}{labels}"
    yield f"eval-pipeline compare {old} {new}{labels} --output comparison.html"


def _next(report: CompareReport) -> Iterator[str]:
    """Commands that answer the question this comparison raises; only such as there are."""
    a, b = report.run_a, report.run_b
    if a == b:
        yield f"eval-pipeline show {a}"
        return
    if any("--all" in warning for warning in report.warnings):
        yield "eval-pipeline run --all"
    metric = surest_metric(report)
    if metric and "explain" in COMMANDS:
        yield in_line(f"eval-pipeline explain {shlex.quote(metric)} {a} {b}")
    yield f"eval-pipeline gate {b} --baseline {a}"
    yield f"eval-pipeline compare {a} {b} --output comparison.{'html' if 'report' in COMMANDS else 'md'}"
