"""Comparisons and gates as Markdown, in full and in short, and gates as JUnit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import quoteattr

from eval_pipeline.comparing.documents import EXACT, CompareReport, Counts, GateReport, Tested
from eval_pipeline.report.comparison_rows import (
    OF_FEWER,
    OF_FEWER_SAID,
    _marked_change,
    defined_metrics,
    has_fewer,
    is_of_fewer,
    left_out,
    moved_queries,
    paired_delta,
    part_cells,
    rules_worth_showing,
    shown_first,
    within_noise,
)
from eval_pipeline.report.numbers import adjusted_p, change, interval, p_value, rank, value
from eval_pipeline.report.pages.html import visible
from eval_pipeline.showing.headlines import HEADLINES
from eval_pipeline.words import count, decimal

# What XML 1.0 cannot hold in any spelling.
_UNSPEAKABLE: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
LISTED_QUERIES: Final = 1_000
LISTED_FLAKY: Final = 20
QUERIES_SHOWN: Final = 10
_LINE_BREAKS: Final = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
# What Markdown gives a meaning in the middle of a line; an underscore only where a word begins or ends.
_SPECIAL: Final = re.compile(r"[\\|`*~\[\]]|(?<!\w)_|_(?!\w)")
# A tag, or what would be read as a character reference.
_MARKUP: Final = re.compile(r"<|&(?=#?\w+;)")


def render_gate_junit(gate: GateReport) -> str:
    """One test case per rule; an inconclusive rule is skipped, or a failure where the gate is configured to fail."""
    cases = list(_cases(gate))
    failures = sum(outcome == "failure" for outcome, _, _, _ in cases)
    skipped = sum(outcome == "skipped" for outcome, _, _, _ in cases)
    name = _attribute(f"gate {gate.candidate} against {gate.baseline}")
    counts = f'tests="{len(cases)}" failures="{failures}" errors="0" skipped="{skipped}"'
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites {counts}>"]
    lines.append(f"  <testsuite name={name} {counts}>")
    for outcome, group, title, reason in cases:
        head = f"    <testcase classname={_attribute(group)} name={_attribute(title)}"
        lines += (
            [f"{head} />"]
            if outcome == "passed"
            else [f"{head}>", f"      <{outcome} message={_attribute(reason)} />", "    </testcase>"]
        )
    return "\n".join([*lines, "  </testsuite>", "</testsuites>"]) + "\n"


def _cases(gate: GateReport) -> Iterator[tuple[str, str, str, str]]:
    """(outcome, group, title, reason)"""
    undecided = "failure" if gate.on_inconclusive == "fail" else "skipped"
    outcomes = {"pass": "passed", "fail": "failure", "inconclusive": undecided}
    for problem in gate.preconditions:
        yield undecided, "gate.preconditions", problem, problem
    for rule in gate.rules:
        yield outcomes[rule.verdict], f"gate.{rule.kind}", rule.label, rule.reason
    if not gate.preconditions and not gate.rules:
        yield undecided, "gate", "no rule applies", "no rule applies"


def _attribute(text: str) -> str:
    return quoteattr(_UNSPEAKABLE.sub("�", text), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def render_report_md(report: CompareReport) -> str:
    """One Markdown file: aggregate deltas, and the wins, losses and regressions."""
    sections = [
        _head(report),
        _deltas(report) if report.asks_queries else "",
        _parts(report),
        _verdicts(report) if report.asks_queries else "",
        _fallback(report),
        _slices(report),
        _flaky(report),
        _unpaired(report),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def escaped(text: object) -> str:
    """Text that stays inside its cell and means itself, whatever an id is made of."""
    plain = _MARKUP.sub(lambda found: "&lt;" if found.group() == "<" else "&amp;", str(text))
    return visible(_LINE_BREAKS.sub("↵", _SPECIAL.sub(r"\\\g<0>", plain)))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a column whose name ends in `:` is aligned to the right. Cells are escaped already."""
    names = [column.removesuffix(":") for column in columns]
    rules = ["---:" if column.endswith(":") else "---" for column in columns]
    return "\n".join(_row(cells) for cells in [names, rules, *rows])


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _head(report: CompareReport) -> str:
    mode = report.mode
    matched = {
        "exact": "exact: both runs were chunked alike, expected chunks are matched by id",
        "fallback_doc_span": "fallback_doc_span: the runs are not known to be chunked alike, expected chunks are "
        "matched by document and span",
    }[mode]
    lines = [f"# {escaped(report.run_a)} → {escaped(report.run_b)}"]
    if report.asks_queries:
        n = count(len(report.per_query), "query", plural="queries")
        lines += ["", f"{n} in both runs. Matching {escaped(matched)}."]
    if report.causes:
        lines += ["", f"Known differences: {', '.join(report.causes)}."]
    if report.warnings:
        lines += ["", *(f"- **Warning:** {escaped(warning)}" for warning in report.warnings)]
    return "\n".join(lines)


def _deltas(report: CompareReport) -> str:
    defined, undefined = defined_metrics(report)
    has_bands = any(report.noise.values())
    columns = [
        "metric",
        "a:",
        "b:",
        "delta (b − a):",
        "95 % interval:",
        "p:",
        "p adjusted:",
        "n:",
        "could show:",
    ]
    rows = [_delta_row(report, metric, has_bands=has_bands) for metric in defined]
    lines = [
        "## Aggregate deltas",
        "",
        _table([*columns, "noise:"] if has_bands else columns, rows),
        "",
        "Deltas, intervals and p-values are of the queries that both runs define; p adjusted by Simes inside a family "
        "of metrics and by Benjamini–Hochberg over the families. Could show: the smallest difference that so many "
        "queries reveal with 80 % power.",
    ]
    lines += _fewer_said(rows)
    if report.caveats:
        reasons = sorted(set(report.caveats.values()))
        lines += ["", f"\\* Not to be taken at face value: {'; '.join(escaped(one) for one in reasons)}."]
    lines += ["", _noise_floor(report, has_bands=has_bands)]
    if undefined:
        lines += ["", f"Undefined in both runs: {escaped(', '.join(undefined))}."]
    return "\n".join(lines)


def _noise_floor(report: CompareReport, *, has_bands: bool) -> str:
    if has_bands:
        return "Noise: how far identical runs differ; a delta inside the band says nothing."
    pairs = report.identical_pairs
    return f"Noise floor: not known yet. Pairs of identical runs so far: {pairs.n}; needed: {pairs.needed}."


def _delta_row(report: CompareReport, metric: str, *, has_bands: bool) -> list[str]:
    tested = report.significance[metric]
    mark = " \\*" if metric in report.caveats else ""
    cells = [
        escaped(metric) + mark,
        value(report.aggregate_a[metric]),
        value(report.aggregate_b[metric]),
        _marked_change(report, metric),
        interval(tested.ci_low, tested.ci_high),
        p_value(tested.p_value),
        adjusted_p(tested),
        f"{tested.n:,}",
        value(tested.mde),
    ]
    return [*cells, _band(report, metric)] if has_bands else cells


def _band(report: CompareReport, metric: str) -> str:
    band = report.noise[metric]
    if band is None:
        return "—"
    return f"±{decimal(band.high)}" + (" (inside)" if within_noise(report, metric) else "")


def _parts(report: CompareReport) -> str:
    rows = [[escaped(name), *cells] for name, cells in part_cells(report)]
    columns = ["measure", "a:", "b:", "delta (b − a):", "95 % interval:", "p adjusted:", "n:"]
    return (
        "\n".join(["## The runs as a whole", "", _table(columns, rows), *_fewer_said(rows)]) if rows else ""
    )


def _fewer_said(rows: Iterable[Sequence[str]]) -> list[str]:
    """What the mark of a difference means, where there is one."""
    return ["", f"{OF_FEWER} {OF_FEWER_SAID}."] if has_fewer(cell for row in rows for cell in row) else []


def _verdicts(report: CompareReport) -> str:
    counts = report.counts.by_kind()
    lines = [
        "## Wins, losses, regressions",
        "",
        _table([f"{name}:" for name in counts], [[f"{number:,}" for number in counts.values()]]),
    ]
    moved = moved_queries(report)
    if not moved:
        return "\n".join([*lines, "", "No query won, lost, regressed or changed its rank."])
    rows = [
        [
            escaped(entry.query_id),
            entry.kind + (", regression" if entry.regression and entry.kind != "regression" else ""),
            rank(entry.a_hit_rank),
            rank(entry.b_hit_rank),
            ", ".join(escaped(chunk_id) for chunk_id in entry.regressed_chunk_ids),
            escaped(entry.note or ""),
        ]
        for entry in moved[:LISTED_QUERIES]
    ]
    lines += ["", _table(["query", "kind", "rank in a:", "rank in b:", "regressed chunks", "note"], rows)]
    if len(moved) > LISTED_QUERIES:
        lines += ["", f"… and {left_out(moved, LISTED_QUERIES)} more: `--format json` lists all of them."]
    return "\n".join(lines)


def _fallback(report: CompareReport) -> str:
    metrics, tested = report.fallback_metrics, report.fallback_significance
    if metrics is None or tested is None:
        return ""
    rows = [
        [
            escaped(metric),
            value(metrics.a[metric]),
            value(metrics.b[metric]),
            change(metrics.deltas[metric]),
            interval(tested[metric].ci_low, tested[metric].ci_high),
            p_value(tested[metric].p_value),
            adjusted_p(tested[metric]),
        ]
        for metric in metrics.deltas
    ]
    columns = ["metric", "a:", "b:", "delta (b − a):", "95 % interval:", "p:", "p adjusted:"]
    sensitivity = [
        [f"{float(threshold):.0%}", *(f"{n:,}" for n in counts.by_kind().values())]
        for threshold, counts in (report.sensitivity or {}).items()
    ]
    return "\n".join(
        [
            "## By document and span",
            "",
            "Both runs by the same criterion, over "
            f"{count(metrics.n_queries, 'query', plural='queries')} whose expected chunks have known spans.",
            "",
            _table(columns, rows),
            "",
            "How the verdicts depend on the share of characters that a hit has to cover:",
            "",
            _table(["shared:", *(f"{kind}:" for kind in Counts.__struct_fields__)], sensitivity),
        ]
    )


def _slices(report: CompareReport) -> str:
    if not report.slices:
        return ""
    rows = [
        [
            f"{escaped(entry.slice)} = {escaped(entry.slice_value)}",
            escaped(entry.metric),
            f"{entry.n_queries:,}",
            change(entry.delta),
            p_value(entry.p_adjusted),
        ]
        for entry in report.slices
    ]
    return "\n".join(
        [
            "## Slices that moved most",
            "",
            _table(["slice", "metric", "queries:", "delta:", "p adjusted:"], rows),
            "",
            "Sign tests, adjusted by Benjamini–Hochberg over every slice and metric with enough movement to test.",
        ]
    )


def _flaky(report: CompareReport) -> str:
    flaky = report.flaky_queries
    if not flaky:
        return ""
    listed = [f"{escaped(entry.query_id)} ({entry.flips} of {entry.pairs})" for entry in flaky[:LISTED_FLAKY]]
    return "\n".join(
        [
            "## Flaky queries",
            "",
            f"Found by one of two identical runs and not by the other: {shown_first(listed, LISTED_FLAKY)}"
            + (f" and {len(flaky) - LISTED_FLAKY:,} more." if len(flaky) > LISTED_FLAKY else "."),
        ]
    )


def _unpaired(report: CompareReport) -> str:
    lines = []
    for side, ids in (("a", report.only_in_a), ("b", report.only_in_b)):
        if ids:
            named = shown_first([escaped(query_id) for query_id in ids[:LISTED_QUERIES]], LISTED_QUERIES)
            lines.append(f"Only in {side} ({len(ids):,}): {named}.")
    return "\n\n".join(["## Queries of one run only", *lines]) if lines else ""


def render_gate_md(gate: GateReport) -> str:
    """The gate's verdict for a pull request or a chat."""
    lines = [
        f"# Gate: {gate.verdict}",
        "",
        f"{escaped(gate.candidate)} against {escaped(gate.baseline)}.",
    ]
    if gate.preconditions:
        lines += ["", "Nothing was decided, because:", ""]
        lines += [f"- {escaped(problem)}" for problem in gate.preconditions]
    shown, quiet = rules_worth_showing(gate)
    if shown:
        rows = [
            [
                rule.verdict if rule.verdict == "pass" else f"**{rule.verdict}**",
                escaped(rule.label),
                value(rule.baseline),
                value(rule.candidate),
                change(rule.delta),
                "" if rule.margin is None else f"{rule.margin:g}",
                p_value(rule.p_adjusted),
                escaped(rule.reason) + ("" if rule.required else " (not required)"),
            ]
            for rule in shown
        ]
        columns = ["verdict", "rule", "baseline:", "candidate:", "delta:", "margin:", "p adjusted:", "reason"]
        lines += ["", _table(columns, rows)]
        lines += [
            "",
            "One-sided tests; p by Simes inside a family of metrics, by Holm over the families of this gate.",
        ]
    if quiet:
        lines += ["", quiet]
    lines += [f"\nNote: {escaped(note)}." for note in gate.notes]
    if gate.skipped:
        lines += ["", f"Not judged: {escaped('; '.join(gate.skipped))}."]
    return "\n".join(lines) + "\n"


def render_short_md(report: CompareReport, gate: GateReport | None = None) -> str:
    """Headline changes, the verdicts, the queries that moved most, and what is to be known before believing it."""
    sections = [
        _short_head(report),
        "\n".join(f"- {escaped(warning)}" for warning in report.warnings),
        _short_deltas(report),
        _short_verdicts(report) if report.asks_queries else _parts(report),
        _queries(report),
        _gate(gate) if gate else "",
    ]
    return "\n\n".join(section for section in sections if section)


class Headline(NamedTuple):
    """A headline metric of two runs, with how sure its difference is; marked where a and b do not come to it."""

    name: str
    a: float | None
    b: float | None
    delta: float | None
    tested: Tested
    is_marked: bool = False


def headline_deltas(report: CompareReport) -> Iterator[Headline]:
    """The headlines that moved or could have: by document and span where chunkers differ."""
    fallback, by_span = report.fallback_metrics, report.fallback_significance or {}
    if fallback:
        for metric, delta in fallback.deltas.items():
            name = f"{metric} by document and span"
            yield Headline(name, fallback.a[metric], fallback.b[metric], delta, by_span[metric])
    for metric in HEADLINES:
        if report.delta_of(metric) is not None and metric not in report.caveats:
            a, b, delta = report.aggregate_a[metric], report.aggregate_b[metric], paired_delta(report, metric)
            yield Headline(metric, a, b, delta, report.significance[metric], is_of_fewer(report, metric))


def _short_head(report: CompareReport) -> str:
    exact = report.mode == EXACT
    known = f" Known differences: {escaped(', '.join(report.causes))}." if report.causes else ""
    runs = f"**{escaped(report.run_a)} → {escaped(report.run_b)}**"
    if not report.asks_queries:
        return f"{runs}.{known}"
    return (
        f"{runs}: {count(len(report.per_query), 'query', plural='queries')} in both runs, matched "
        f"{'by chunk id' if exact else 'by document and span'}.{known}"
    )


def _short_deltas(report: CompareReport) -> str:
    rows = [
        [
            escaped(one.name),
            value(one.a),
            value(one.b),
            change(one.delta) + (OF_FEWER if one.is_marked else ""),
            interval(one.tested.ci_low, one.tested.ci_high),
            adjusted_p(one.tested),
            f"{one.tested.n:,}",
        ]
        for one in headline_deltas(report)
    ]
    columns = ["metric", "a:", "b:", "b − a:", "95 % interval:", "p adj.:", "n:"]
    return "\n".join([_table(columns, rows), *_fewer_said(rows)]) if rows else ""


def _short_verdicts(report: CompareReport) -> str:
    told = [f"{n:,} {kind.replace('_', ' ')}" for kind, n in report.counts.by_kind().items() if n]
    return f"Queries: {', '.join(told)}." if told else "No query is in both runs."


def _queries(report: CompareReport) -> str:
    moved = moved_queries(report)
    if not moved:
        return ""
    rows = [
        [
            escaped(entry.query_id),
            entry.kind.replace("_", " "),
            rank(entry.a_hit_rank),
            rank(entry.b_hit_rank),
            escaped(shown_first(entry.regressed_chunk_ids, 1)),
        ]
        for entry in moved[:QUERIES_SHOWN]
    ]
    rest = left_out(moved, QUERIES_SHOWN)
    more = f"\n\n… of {len(moved):,} that moved; left out: {rest}." if rest else ""
    return _table(["query", "verdict", "rank a:", "rank b:", "lost chunk"], rows) + more


def _gate(gate: GateReport) -> str:
    reasons = [f"{one.label}: {one.reason}" for one in gate.not_passed]
    lines = [f"- {escaped(reason)}" for reason in [*gate.preconditions, *reasons]]
    return "\n".join([f"Gate: **{gate.verdict}**", *(["", *lines] if lines else [])])
