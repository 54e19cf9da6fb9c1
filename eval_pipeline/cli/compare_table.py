"""A comparison on a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eval_pipeline.cli.main import COMMANDS
from eval_pipeline.cli.output import filled, print_line, table
from eval_pipeline.cli.show import _print_undefined
from eval_pipeline.comparing.documents import (
    NOT_ASKED,
    CompareReport,
    FallbackMetrics,
    SliceMoved,
    Tested,
)
from eval_pipeline.comparing.options import SIGNIFICANT
from eval_pipeline.report.comparison_rows import (
    OF_FEWER,
    OF_FEWER_SAID,
    defined_metrics,
    has_fewer,
    is_of_fewer,
    left_out,
    moved_queries,
    paired_delta,
    part_cells,
    shown_first,
    surest_metric,
    within_noise,
)
from eval_pipeline.report.markdown import LISTED_QUERIES
from eval_pipeline.report.numbers import adjusted_p, change, interval, p_value, rank, value
from eval_pipeline.words import count

SHOWN_QUERIES = 10
SHOWN_SLICES = 5
SHOWN_FLAKY = 5
LONGEST_NAME = 23
LONGEST_MEASURE = 19

MODES = {"exact": "by chunk id (exact)", "fallback_doc_span": "by document and span (fallback_doc_span)"}

# Old, new, and the words that name their labels.
Files = tuple[str, str, str]


def print_comparison(
    report: CompareReport, *, with_undefined: bool = False, files: Files | None = None
) -> None:
    """What moved, how sure that is, where it moved most, and what to run next; of files by their names."""
    mode = report.mode
    print_line(f"{report.run_a} → {report.run_b}")
    if report.asks_queries:
        n = count(len(report.per_query), "query", plural="queries")
        print_line(f"{n} in both runs, matched {MODES[mode]}")
    if report.causes:
        print_line(filled(f"known differences: {', '.join(report.causes)}"))
    for warning in report.warnings:
        print_line(filled(f"! {warning}"))
    if report.asks_queries:
        print_line()
        _print_deltas(report)
        _print_undefined(report.undefined, is_listed=with_undefined)
    if report.fallback_metrics:
        _print_fallback(report, report.fallback_metrics)
    _print_parts(report)
    if report.asks_queries:
        _print_counts(report)
    _print_queries(report)
    _print_slices(report)
    _print_flaky(report)
    print_line("\nNext:")
    for line in _next(report) if files is None else _next_of_files(*files):
        print_line(f"  {line}")


def _print_deltas(report: CompareReport) -> None:
    defined, _ = defined_metrics(report)
    unchanged = [
        metric
        for metric in defined
        if report.significance[metric].test == "identical" and not report.delta_of(metric)
    ]
    shown = [metric for metric in defined if metric not in unchanged]
    asked = [metric for metric in shown if not _is_part(report.significance[metric])]
    _print_asked(report, asked)
    _print_part_of(report, [metric for metric in shown if metric not in asked])
    if any(is_of_fewer(report, metric) for metric in defined):
        print_line(filled(f"{OF_FEWER} {OF_FEWER_SAID}"))
    for line in _unchanged(report, unchanged):
        print_line(filled(line))
    if any(report.noise.values()):
        print_line("~ no more than identical runs differ")
    if report.caveats:
        print_line(f"* {'; '.join(sorted(set(report.caveats.values())))}")


def _print_asked(report: CompareReport, metrics: Sequence[str]) -> None:
    rows = [
        (
            *_values(report, metric),
            interval(report.significance[metric].ci_low, report.significance[metric].ci_high),
            _narrow(adjusted_p(report.significance[metric])) + _mark(report, metric),
        )
        for metric in metrics
    ]
    columns = ["metric", "a", "b", "b − a", "95 % interval", "p adj."]
    if rows:
        table(columns, rows, numbers=columns[1:])
        print_line("p adj.: over the queries of both runs; Simes inside a family of metrics,")
        print_line("Benjamini–Hochberg over the families (`metrics NAME` says which)")


def _print_part_of(report: CompareReport, metrics: Sequence[str]) -> None:
    """What asks no question of its own, with what it is a part of in place of a p-value."""
    rows = [(*_values(report, metric), report.significance[metric].adjusted_as or "") for metric in metrics]
    columns = ["metric", "a", "b", "b − a", "no p of its own"]
    if rows:
        print_line()
        table(columns, rows, numbers=columns[1:-1])


def _values(report: CompareReport, metric: str) -> tuple[str, str, str, str]:
    return (
        _broken(metric + _name_marks(report, metric)),
        value(report.aggregate_a[metric]),
        value(report.aggregate_b[metric]),
        change(paired_delta(report, metric)),
    )


def _is_part(tested: Tested) -> bool:
    """Whether another key asks for it, or none."""
    return tested.p_value is not None and (tested.adjusted_as or "").startswith(("part of ", NOT_ASKED))


def _unchanged(report: CompareReport, metrics: Sequence[str]) -> Iterator[str]:
    """The metrics that cannot differ; of a run with itself none, which is said already."""
    if metrics and report.run_a != report.run_b:
        yield f"computed from the same results, and therefore the same: {', '.join(metrics)}"


def _broken(name: str, *, most: int = LONGEST_NAME) -> str:
    """A name too long for its column goes on at one of its own joints."""
    if len(name) <= most:
        return name
    place = max(name.rfind(joint, 0, most) for joint in "._") + 1
    return f"{name[:place]}\n{name[place:]}" if place else name


def _narrow(reason: str) -> str:
    """Why there is no adjusted p, in a column for numbers."""
    return reason.replace("few ", "few\n").replace("part of extraction.", "part of\n")


def _name_marks(report: CompareReport, metric: str) -> str:
    return ("*" if metric in report.caveats else "") + (OF_FEWER if is_of_fewer(report, metric) else "")


def _mark(report: CompareReport, metric: str) -> str:
    return "~" if within_noise(report, metric) and paired_delta(report, metric) else ""


def _print_fallback(report: CompareReport, metrics: FallbackMetrics) -> None:
    tested = report.fallback_significance or {}
    print_line(
        f"\nby document and span, {count(metrics.n_queries, 'query', plural='queries')} with known spans"
    )
    columns = ["metric", "a", "b", "b − a", "95 % interval", "p adj."]
    rows = [
        (
            metric,
            value(metrics.a[metric]),
            value(metrics.b[metric]),
            change(delta),
            interval(tested[metric].ci_low, tested[metric].ci_high),
            adjusted_p(tested[metric]),
        )
        for metric, delta in metrics.deltas.items()
    ]
    table(columns, rows, numbers=columns[1:])
    told = [
        f"{float(threshold):.0%}: {counts.win} won, {counts.loss} lost"
        for threshold, counts in (report.sensitivity or {}).items()
    ]
    print_line(filled(f"by the share of characters that has to match: {'; '.join(told)}"))


def _print_parts(report: CompareReport) -> None:
    rows = [
        (_broken(name, most=LONGEST_MEASURE), *cells[:-2], _narrow(cells[-2]))
        for name, cells in part_cells(report)
    ]
    if rows:
        columns = ["the runs as a whole", "a", "b", "b − a", "95 % interval", "p adj."]
        print_line()
        table(columns, rows, numbers=columns[1:])
        if has_fewer(cell for row in rows for cell in row):
            print_line(filled(f"{OF_FEWER} {OF_FEWER_SAID}"))


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
    table(["query", "", "rank a", "rank b", "lost chunk"], rows, numbers=["rank a", "rank b"])
    if len(moved) > SHOWN_QUERIES:
        told = f"… of {len(moved):,} that moved; left out: {left_out(moved, SHOWN_QUERIES)}"
        print_line(
            filled(f"{told} (--format {'md' if len(moved) <= LISTED_QUERIES else 'json'} lists them all)")
        )


def _print_slices(report: CompareReport) -> None:
    shown = [entry for entry in report.slices if _is_sure(entry)] or report.slices[:SHOWN_SLICES]
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
    table(["slice", "metric", "queries", "b − a", "p adj."], rows, numbers=["queries", "b − a", "p adj."])


def _is_sure(entry: SliceMoved) -> bool:
    return entry.p_adjusted is not None and bool(entry.p_adjusted < SIGNIFICANT)


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
        yield f"eval-pipeline explain {metric} {a} {b}"
    yield f"eval-pipeline gate {b} --baseline {a}"
    yield f"eval-pipeline compare {a} {b} --output comparison.{'html' if 'report' in COMMANDS else 'md'}"
