"""A comparison in short, as Markdown: the few things somebody looks at first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from eval_pipeline.report.families import HEADLINES
from eval_pipeline.report.markdown import escaped, table
from eval_pipeline.report.movements import moved_queries, shown_first
from eval_pipeline.report.numbers import change, interval, p_value, rank, value
from eval_pipeline.words import count

QUERIES_SHOWN: Final = 10

Report = Mapping[str, Any]


def render_short_md(report: Report, gate: Report | None = None) -> str:
    """Headline changes, the verdicts, the queries that moved most, and what is to be known before believing it."""
    sections = [
        _head(report),
        "\n".join(f"- {escaped(warning)}" for warning in report["warnings"]),
        _deltas(report),
        _verdicts(report),
        _queries(report),
        _gate(gate) if gate else "",
    ]
    return "\n\n".join(section for section in sections if section)


def headline_deltas(report: Report) -> Iterator[tuple[str, Report]]:
    """(name, values) of the headlines that moved or could have: by document and span where chunkers differ."""
    fallback = report["fallback_metrics"]
    if fallback:
        for metric, delta in fallback["deltas"].items():
            values = {"a": fallback["a"][metric], "b": fallback["b"][metric], "delta": delta}
            yield f"{metric} by document and span", values | report["fallback_significance"][metric]
    for metric in HEADLINES:
        delta = report["deltas"].get(metric)
        if delta is not None and metric not in report["caveats"]:
            values = {"a": report["aggregate_a"][metric], "b": report["aggregate_b"][metric], "delta": delta}
            yield metric, values | report["significance"][metric]


def _head(report: Report) -> str:
    exact = report["deltas"]["chunker_version_match"] == "exact"
    known = f" Known differences: {escaped(', '.join(report['causes']))}." if report["causes"] else ""
    return (
        f"**{escaped(report['run_a'])} → {escaped(report['run_b'])}**: "
        f"{count(len(report['per_query']), 'query', plural='queries')} in both runs, matched "
        f"{'by chunk id' if exact else 'by document and span'}.{known}"
    )


def _deltas(report: Report) -> str:
    rows = [
        [
            escaped(name),
            value(one["a"]),
            value(one["b"]),
            change(one["delta"]),
            interval(one["ci_low"], one["ci_high"]),
            p_value(one["p_adjusted"]),
            f"{one['n']:,}",
        ]
        for name, one in headline_deltas(report)
    ]
    columns = ["metric", "a:", "b:", "b − a:", "95 % interval:", "p adj.:", "n:"]
    return table(columns, rows) if rows else ""


def _verdicts(report: Report) -> str:
    told = [f"{n:,} {kind.replace('_', ' ')}" for kind, n in report["counts"].items() if n]
    return f"Queries: {', '.join(told)}." if told else "No query is in both runs."


def _queries(report: Report) -> str:
    moved = moved_queries(report)
    if not moved:
        return ""
    rows = [
        [
            escaped(entry["query_id"]),
            entry["kind"].replace("_", " "),
            rank(entry["a_hit_rank"]),
            rank(entry["b_hit_rank"]),
            escaped(shown_first(entry["regressed_chunk_ids"], 1)),
        ]
        for entry in moved[:QUERIES_SHOWN]
    ]
    more = f"\n\n… of {len(moved):,} that moved." if len(moved) > QUERIES_SHOWN else ""
    return table(["query", "verdict", "rank a:", "rank b:", "lost chunk"], rows) + more


def _gate(gate: Report) -> str:
    reasons = [f"{one['label']}: {one['reason']}" for one in gate["rules"] if one["verdict"] != "pass"]
    lines = [f"- {escaped(reason)}" for reason in [*gate["preconditions"], *reasons]]
    return "\n".join([f"Gate: **{gate['verdict']}**", *(["", *lines] if lines else [])])
