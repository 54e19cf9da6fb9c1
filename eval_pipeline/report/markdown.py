"""Comparisons and gates as Markdown, in full and in short, and gates as JUnit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final
from xml.sax.saxutils import quoteattr

from eval_pipeline.comparing.documents import BETTER, WORSE, CompareReport, Counts, GateReport, GateRule
from eval_pipeline.report.comparison_rows import (
    QUERIES,
    Row,
    _defined_metrics,
    _note_of,
    left_out,
    moved_queries,
    rows_of,
    rules_worth_showing,
    shown_first,
)
from eval_pipeline.report.numbers import change, p_value, rank, value
from eval_pipeline.report.pages.html import visible
from eval_pipeline.report.verdict import Verdict, verdict_on
from eval_pipeline.words import count, decimal, decimals_of

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
    counts = f'tests="{len(cases)}" failures="{failures}" errors="0"'
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites {counts}>"]
    lines.append(f'  <testsuite name="gate" {counts} skipped="{skipped}">')
    lines += _properties({"candidate": gate.candidate, "baseline": gate.baseline, "verdict": gate.verdict})
    for outcome, group, title, reason in cases:
        head = f"    <testcase classname={_attribute(group)} name={_attribute(title)}"
        lines += (
            [f"{head} />"]
            if outcome == "passed"
            else [f"{head}>", f"      <{outcome} message={_attribute(reason)} />", "    </testcase>"]
        )
    return "\n".join([*lines, "  </testsuite>", "</testsuites>"]) + "\n"


def _properties(values: Mapping[str, str]) -> list[str]:
    inner = [f'      <property name="{name}" value={_attribute(one)} />' for name, one in values.items()]
    return ["    <properties>", *inner, "    </properties>"]


def _cases(gate: GateReport) -> Iterator[tuple[str, str, str, str]]:
    """(outcome, group, title, reason); a title says nothing of these two runs, as a server follows a test by it."""
    undecided = "failure" if gate.on_inconclusive == "fail" else "skipped"
    outcomes = {"pass": "passed", "fail": "failure", "inconclusive": undecided}
    if gate.preconditions:
        yield undecided, "gate", "preconditions", "\n".join(gate.preconditions)
    for rule in gate.rules:
        title = rule.metric if rule.kind == "drift" else rule.label
        yield outcomes[rule.verdict], f"gate.{rule.kind}", title, rule.reason
    if not gate.preconditions and not gate.rules:
        yield undecided, "gate", "no rule applies", "no rule applies"


def _attribute(text: str) -> str:
    return quoteattr(_UNSPEAKABLE.sub("�", text), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def render_report_md(report: CompareReport) -> str:
    """One Markdown file: aggregate deltas, and the wins, losses and regressions."""
    sections = [
        _head(report),
        _numbers(report),
        _verdicts(report) if report.asks_queries else "",
        _sensitivity(report),
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
    lines = [f"# {escaped(report.run_b)} against {escaped(report.run_a)}", "", *_said(verdict_on(report))]
    if report.causes:
        lines += ["", f"Known differences: {', '.join(report.causes)}."]
    if report.warnings:
        lines += ["", *(f"- **Warning:** {escaped(warning)}" for warning in report.warnings)]
    return "\n".join(lines)


def _said(verdict: Verdict) -> list[str]:
    """The verdict, what it rests on, and where to look: a paragraph each."""
    found = [f"**{escaped(verdict.sentence)}**"]
    if verdict.latency:
        found += ["", f"{escaped(verdict.latency)}."]
    if verdict.trust:
        found += ["", f"Trust: {escaped(verdict.trust)}."]
    if verdict.places:
        found += ["", f"Where: {escaped(' · '.join(place.words for place in verdict.places))}."]
    return found


def _numbers(report: CompareReport) -> str:
    """Every measure: worse first, then better, then what asks nothing itself."""
    rows = rows_of(report)
    if not rows:
        return ""
    has_bands = any(report.noise.values())
    columns = ["metric", "verdict", f"{escaped(report.run_a)}:", f"{escaped(report.run_b)}:", "change:"]
    columns += [
        "95 % interval:",
        "p:",
        "p adjusted:",
        "n:",
        "could show:",
        *(["noise:"] if has_bands else []),
    ]
    _, undefined = _defined_metrics(report)
    what = "queries, or cases," if report.asks_queries else "cases"
    lines = [
        "## Differences",
        "",
        _table(columns, [_cells(report, row, has_bands=has_bands) for row in rows]),
        "",
        f"Values, changes, intervals and p-values are over the {what} that both runs define; p adjusted by Simes "
        "inside a family of metrics and by Benjamini–Hochberg over the families. Could show: the smallest difference "
        "that so many reveal with 80 % power.",
    ]
    caveats = sorted({row.caveat for row in rows if row.caveat})
    if caveats:
        lines += ["", f"\\* Not to be taken at face value: {'; '.join(escaped(one) for one in caveats)}."]
    if report.asks_queries:
        lines += ["", _noise_floor(report, has_bands=has_bands)]
        lines += ["", f"Undefined in both runs: {escaped(', '.join(undefined))}."] if undefined else []
    return "\n".join(lines)


def gate_values(rule: GateRule) -> tuple[str, str, str]:
    """The printed baseline, candidate and change of a rule."""
    decimals = decimals_of(rule.baseline, rule.candidate)
    baseline, candidate = (value(number, decimals) for number in (rule.baseline, rule.candidate))
    return baseline, candidate, change(rule.delta, decimals)


def _noise_floor(report: CompareReport, *, has_bands: bool) -> str:
    if has_bands:
        return "Noise: how far identical runs differ; a change inside the band says nothing."
    pairs = report.identical_pairs
    return f"Noise floor: not known yet. Pairs of identical runs so far: {pairs.n}; needed: {pairs.needed}."


def _cells(report: CompareReport, row: Row, *, has_bands: bool) -> list[str]:
    verdict = row.verdict if row.verdict in (BETTER, WORSE) else ""
    cells = [
        escaped(row.name) + (" \\*" if row.caveat else ""),
        f"**{verdict}**" if verdict else "",
        row.a,
        row.b,
        row.change,
        row.interval,
        row.p_value,
        row.p_adjusted,
        row.n,
        row.could_show,
    ]
    return [*cells, _band(report, row)] if has_bands else cells


def _band(report: CompareReport, row: Row) -> str:
    band = report.noise.get(row.key) if row.part == QUERIES else None
    return "—" if band is None else f"±{decimal(band.high)}" + (" (inside)" if row.is_noise else "")


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
            escaped(_note_of(report, entry)),
        ]
        for entry in moved[:LISTED_QUERIES]
    ]
    ranks = [f"rank in {escaped(run_id)}:" for run_id in (report.run_a, report.run_b)]
    columns = ["query", "kind", *ranks, "regressed chunks", "note"]
    lines += ["", _table(columns, rows)]
    if len(moved) > LISTED_QUERIES:
        lines += ["", f"… and {left_out(moved, LISTED_QUERIES)} more: `--format json` lists all of them."]
    return "\n".join(lines)


def _sensitivity(report: CompareReport) -> str:
    metrics = report.fallback_metrics
    if metrics is None:
        return ""
    rows = [
        [f"{float(threshold):.0%}", *(f"{n:,}" for n in counts.by_kind().values())]
        for threshold, counts in (report.sensitivity or {}).items()
    ]
    return "\n".join(
        [
            "## By document and span",
            "",
            "The runs are not known to be chunked alike, so hits are matched by one criterion for both, over "
            f"{count(metrics.n_queries, 'query', plural='queries')} whose expected chunks have known spans.",
            "",
            "How the verdicts depend on the share of characters that a hit has to cover:",
            "",
            _table(["shared:", *(f"{kind}:" for kind in Counts.__struct_fields__)], rows),
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
            _table(["slice", "metric", "queries:", "change:", "p adjusted:"], rows),
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
    for run_id, ids in ((report.run_a, report.only_in_a), (report.run_b, report.only_in_b)):
        if ids:
            named = shown_first([escaped(query_id) for query_id in ids[:LISTED_QUERIES]], LISTED_QUERIES)
            lines.append(f"Only in {escaped(run_id)} ({len(ids):,}): {named}.")
    return "\n\n".join(["## Queries of one run only", *lines]) if lines else ""


def render_gate_md(gate: GateReport) -> str:
    """The gate's verdict for a pull request or a chat."""
    lines = [
        f"# Gate: {gate.verdict}",
        "",
        f"{escaped(gate.candidate)} against {escaped(gate.baseline)}.",
    ]
    if gate.preconditions:
        lines += ["", f"{'The gate cannot pass' if gate.rules else 'Nothing was decided'}, because:", ""]
        lines += [f"- {escaped(problem)}" for problem in gate.preconditions]
    shown, quiet = rules_worth_showing(gate)
    if shown:
        rows = [
            [
                rule.verdict if rule.verdict == "pass" else f"**{rule.verdict}**",
                escaped(rule.label),
                *gate_values(rule),
                "" if rule.margin is None else f"{rule.margin:g}",
                p_value(rule.p_adjusted),
                escaped(rule.reason) + ("" if rule.required else " (not required)"),
            ]
            for rule in shown
        ]
        columns = [
            "verdict",
            "rule",
            "baseline:",
            "candidate:",
            "delta:",
            "margin:",
            "p of a loss:",
            "reason",
        ]
        lines += ["", _table(columns, rows)]
        lines += [
            "",
            "One-sided tests; p of a loss by Simes inside a family of metrics, by Holm over the families of this gate.",
        ]
    if quiet:
        lines += ["", quiet]
    lines += [f"\nNote: {escaped(note)}." for note in gate.notes]
    if gate.skipped:
        lines += ["", f"Not judged: {escaped('; '.join(gate.skipped))}."]
    return "\n".join(lines) + "\n"


def render_short_md(report: CompareReport, gate: GateReport | None = None) -> str:
    """The verdict, the questions' numbers, the queries that moved most, and what to know before believing it."""
    verdict = verdict_on(report)
    known = f"Known differences: {', '.join(report.causes)}." if report.causes else ""
    sections = [
        f"**{escaped(report.run_b)} against {escaped(report.run_a)}**",
        "\n".join(_said(verdict)),
        known,
        "\n".join(f"- {escaped(warning)}" for warning in report.warnings),
        _short_numbers(report),
        _short_verdicts(report) if report.asks_queries else "",
        _queries(report),
        _gate(gate) if gate else "",
    ]
    return "\n\n".join(section for section in sections if section)


def _short_numbers(report: CompareReport) -> str:
    asked = [row for row in rows_of(report) if row.is_asked]
    cells = [
        [escaped(row.name), row.a, row.b, row.change, row.interval, row.p_adjusted, row.n] for row in asked
    ]
    columns = ["metric", f"{escaped(report.run_a)}:", f"{escaped(report.run_b)}:", "change:"]
    columns += ["95 % interval:", "p adj.:", "n:"]
    return _table(columns, cells) if asked else ""


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
    ranks = [f"rank in {escaped(run_id)}:" for run_id in (report.run_a, report.run_b)]
    return _table(["query", "verdict", *ranks, "lost chunk"], rows) + more


def _gate(gate: GateReport) -> str:
    reasons = [f"{one.label}: {one.reason}" for one in gate.not_passed]
    lines = [f"- {escaped(reason)}" for reason in [*gate.preconditions, *reasons]]
    return "\n".join([f"Gate: **{gate.verdict}**", *(["", *lines] if lines else [])])
