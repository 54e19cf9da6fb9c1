"""The parts of a run's page that are about the whole run: extraction, speed, the judge, indexing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from eval_pipeline.report.numbers import value
from eval_pipeline.report.pages._page import Section
from eval_pipeline.report.pages._widgets import (
    Column,
    badge,
    bullets,
    callout,
    data_table,
    more,
    named_ids,
    tiles,
)
from eval_pipeline.report.pages.figures import _figure
from eval_pipeline.report.pages.html import Child, Html, _data_text, _join, tag
from eval_pipeline.report.pages.run_charts import _field_chart, _stage_chart, latency_chart
from eval_pipeline.showing.blocks import UNSTABLE_ABOVE, judge_lines, kappa_words
from eval_pipeline.showing.run_report import (
    Coverage,
    Extraction,
    ExtractionCase,
    FieldAccuracy,
    Indexing,
    JudgeCoverage,
    JudgeReliability,
    Performance,
    RunReport,
)
from eval_pipeline.words import DECIMALS, count, each_counted, target_words

LISTED_CASES: Final = 500
LISTED_FIELDS: Final = 300
ERROR_TYPES: Final = ("omission", "hallucination", "format_error", "wrong_value")
AVERAGES: Final = {
    "macro": "Macro: mean of the documents",
    "micro": "Micro: all fields pooled",
    "macro_strict": "Macro, strict recall",
    "micro_strict": "Micro, strict recall",
}


def extraction_section(
    extraction: Extraction, field_errors: Mapping[str, Mapping[str, int]], guide_version: str
) -> list[Child]:
    """Macro and micro, strict beside, the target, the fields and the cases."""
    if extraction.eval_count is None:
        return [tag("p", "Delivered, and not computed yet: ", tag("code", "eval-pipeline run"), ".")]
    failed, missing = extraction.failed_cases, extraction.missing_in_words
    return [
        _verdict(extraction),
        callout(tag("p", _data_text(f"{missing}."))) if missing else None,
        tag("p", f"Computed as the Metric Computation Guide says, version {guide_version}."),
        _averages(extraction),
        _join(
            tag("h3", f"Failed cases ({len(failed):,})"),
            tag("p", "They did not run and count nowhere."),
            named_ids(failed),
        )
        if failed
        else None,
        _fields(extraction.fields, field_errors),
        _cases(extraction.cases),
    ]


def _verdict(extraction: Extraction) -> Html:
    if not extraction.eval_count:
        return callout(tag("p", "No case was scored."))
    is_met = extraction.target_met
    return tag(
        "p",
        badge(f"target {target_words(is_met)}", {True: "good", False: "bad", None: None}[is_met]),
        f" Macro F1 is {value(extraction.macro.f1)} over {count(extraction.eval_count, 'document')}; the "
        f"target is {extraction.target:.2f}.",
        class_="lead",
    )


def _averages(extraction: Extraction) -> Html:
    rows = [
        [title, value(rates.precision), value(rates.recall), value(rates.f1)]
        for average, title in AVERAGES.items()
        if (rates := getattr(extraction, average))
    ]
    columns = [Column("average"), *(Column(rate, is_number=True) for rate in ("precision", "recall", "F1"))]
    totals = (
        f"{extraction.total_true_positives:,} fields correct, {extraction.total_false_positives:,} wrong or not "
        f"asked for, {extraction.total_false_negatives:,} counted as missed. Strict recall also misses what is "
        "there and wrong."
    )
    return data_table("extraction", totals, columns, rows)


def _fields(fields: Mapping[str, FieldAccuracy], errors: Mapping[str, Mapping[str, int]]) -> Html | None:
    if not fields:
        return None
    ordered = sorted(
        fields.items(), key=lambda item: (item[1].accuracy is None, item[1].accuracy or 0, item[0])
    )
    rows: list[list[Child]] = [
        [
            _data_text(name, most=120),
            value(entry.accuracy),
            f"{entry.n:,}",
            *(f"{errors.get(name, {}).get(kind, 0):,}" for kind in ERROR_TYPES),
        ]
        for name, entry in ordered[:LISTED_FIELDS]
    ]
    columns = [Column("field"), Column("accuracy", is_number=True), Column("n", is_number=True)]
    columns += [Column(kind.replace("_", " "), is_number=True) for kind in ERROR_TYPES]
    caption = "Share of the documents with the field in which it is right, and how often it went wrong in which way."
    table = data_table("field-accuracy", caption, columns, rows)
    chart = _field_chart(fields)
    return _join(tag("h3", "Fields"), _figure(chart, table) if chart else table)


def _cases(cases: Mapping[str, ExtractionCase]) -> Html | None:
    if not cases:
        return None
    ordered = sorted(cases.items(), key=lambda item: (item[1].f1, item[0]))
    keys = ("precision", "recall", "f1", "recall_strict", "f1_strict")
    counts = ("true_positives", "false_positives", "false_negatives", "total_gt_fields")
    rows: list[list[Child]] = [
        [
            _data_text(name, most=120),
            *(value(getattr(entry, key)) for key in keys),
            *(f"{getattr(entry, key):,}" for key in counts),
        ]
        for name, entry in ordered[:LISTED_CASES]
    ]
    columns = [
        Column("document"),
        *(Column(key.replace("_", " "), is_number=True) for key in (*keys, *counts)),
    ]
    shown = (
        f"the weakest {LISTED_CASES} of {len(cases):,}"
        if len(cases) > LISTED_CASES
        else f"all {len(cases):,}"
    )
    return more(f"Each document ({shown})", data_table("cases", "Weakest first.", columns, rows))


def latency_section(performance: Performance, latencies: Sequence[float]) -> Iterator[Section]:
    """How long it took, where that was recorded."""
    whole = performance.latency_ms
    stages = _stage_chart(performance.latency_breakdown_ms)
    if not whole.n and stages is None:
        return
    entries = {"total": whole, **performance.latency_breakdown_ms}
    rows = [
        [name.replace("_", " "), f"{entry.n:,}", _whole(entry.p50), _whole(entry.p95), _whole(entry.mean)]
        for name, entry in entries.items()
        if entry.n
    ]
    columns = [
        Column("stage"),
        *(Column(name, is_number=True) for name in ("n", "p50 ms", "p95 ms", "mean ms")),
    ]
    suite = performance.total_suite_ms
    caption = "Failed queries and timeouts count like all others." + (
        f" The whole run took {_whole(suite)} ms." if suite else ""
    )
    table = data_table("latency-numbers", caption, columns, rows)
    drawn = (
        _figure(latency_chart(latencies, whole.p50 or 0.0, whole.p95 or 0.0))
        if latencies and whole.n
        else None
    )
    yield Section("latency", "Time", [drawn, _figure(stages, table) if stages else table])


def _whole(number: float | None) -> str:
    return "—" if number is None else f"{number:,.0f}"


def judge_section(document: RunReport) -> Iterator[Section]:
    """How much was judged, at what cost, and how far the judge can be believed."""
    coverage, reliability = document.judge_coverage, document.judge_reliability
    performance, problems = document.performance, document.judge_config_problems
    is_judged = any(msgspec.structs.astuple(coverage)) or reliability.spot_check_n or performance.judge_tokens
    if not is_judged and not problems:
        return
    yield Section(
        "judge",
        "The judge",
        [
            tiles(
                [
                    ("groundedness scores", f"{coverage.groundedness_n:,}", _inconsistent(coverage)),
                    ("correctness scores", f"{coverage.correctness_n:,}", None),
                    ("disagreement", _rate(reliability.disagreement_rate), _checked(reliability)),
                    ("tokens", f"{performance.judge_tokens or 0:,}", _cost(performance.judge_cost)),
                ]
            ),
            _statuses(document),
            _reliability(reliability),
            _join(tag("h3", "Problems of its configuration"), bullets(_data_text(one) for one in problems))
            if problems
            else None,
        ],
    )


def _statuses(document: RunReport) -> Html | None:
    """List the judges, and the judgements by status."""
    statuses = document.judge_coverage.judgements or {}
    lines = judge_lines(document.judges)
    lines += [f"{ask}: {each_counted(counted)}" for ask, counted in statuses.items()]
    return _join(tag("h3", "Judgements"), bullets(map(_data_text, lines))) if lines else None


def _inconsistent(coverage: JudgeCoverage) -> str | None:
    doubts = {
        "in spite of unsupported claims": coverage.inconsistent_n,
        "without a citation or reference": coverage.uncited_fives,
    }
    return ", ".join(f"{count(n, 'full score')} {words}" for words, n in doubts.items() if n) or None


def _rate(rate: float | None) -> str:
    return "—" if rate is None else f"{rate:.1%}"


def _checked(reliability: JudgeReliability) -> str:
    n = reliability.spot_check_pairs or reliability.spot_check_n
    return f"of {count(n, 'spot check')}{kappa_words(reliability)}" if n else "no spot check"


def _cost(cost: float | None) -> str:
    return "cost not known" if cost is None else f"cost {cost:,.{DECIMALS}f}"


def _reliability(reliability: JudgeReliability) -> Html | None:
    rate = reliability.disagreement_rate
    if rate is None or rate <= UNSTABLE_ABOVE:
        return None
    return callout(
        tag(
            "p",
            f"The judge is unstable: second verdicts disagree with the first in {rate:.1%} of the pairs.",
        ),
    )


def indexing_section(indexing: Indexing) -> list[Child]:
    """What the indexer made of the documents, and what it left out."""
    if indexing.docs_processed is None:
        return [tag("p", "Delivered, and not computed yet: ", tag("code", "eval-pipeline run"), ".")]
    types = indexing.by_doc_type
    rows = [
        ["all", *_coverage(indexing)],
        *([_data_text(name, most=80), *_coverage(entry)] for name, entry in types.items()),
    ]
    names = (
        "documents",
        "without chunks",
        "rate",
        "chunks",
        "embedded",
        "skipped",
        "over context",
        "tokens min",
        "mean",
        "p95",
        "max",
    )
    columns = [Column("document type"), *(Column(name, is_number=True) for name in names)]
    reasons = [_join(_data_text(reason, most=120), f": {n:,}") for reason, n in indexing.skip_reasons.items()]
    version = indexing.index_version_info
    return [
        data_table("coverage", _join("Index: ", _versions(version)), columns, rows),
        _join(tag("h3", "Why chunks were skipped"), bullets(reasons)) if reasons else None,
    ]


def _versions(version: Mapping[str, str | None]) -> Html:
    known = [f"{name.replace('_', ' ')} {value}" for name, value in version.items() if value is not None]
    return _data_text(", ".join(known) or "no versions recorded")


def _coverage(entry: Coverage) -> list[Child]:
    tokens = entry.tokens_per_chunk
    return [
        f"{entry.docs_processed:,}",
        f"{entry.docs_with_0_chunks:,}",
        value(entry.no_chunks_generated_rate),
        f"{entry.chunks_attempted:,}",
        f"{entry.chunks_embedded:,}",
        f"{entry.chunks_skipped:,}",
        value(entry.chunks_skipped_context_rate),
        *(_whole(length) for length in (tokens.min, tokens.mean, tokens.p95, tokens.max)),
    ]
