"""What `show` prints of the parts of a run beside its metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from eval_pipeline.cli.output import filled, number, print_line, table
from eval_pipeline.report.numbers import amount
from eval_pipeline.report.pages.html import in_line
from eval_pipeline.words import count, each_counted, target_words

if TYPE_CHECKING:
    from eval_pipeline.showing.run_report import (
        Extraction,
        Indexing,
        Latency,
        OtherReading,
        Performance,
        RunReport,
    )


def print_parts(report: RunReport) -> None:
    """Extraction, speed, the judge and indexing, each where there is something to say."""
    if report.extraction is not None:
        _print_extraction(report.extraction)
    _print_readings(report.readings)
    lines = [
        *_latency_lines(report.performance),
        *_judge_lines(report),
        *_indexing_lines(report.indexing),
    ]
    if lines:
        print_line()
        print_line("\n".join(map(in_line, lines)))


def _print_extraction(extraction: Extraction) -> None:
    print_line()
    rows = [
        (label, number(rates.precision), number(rates.recall), number(rates.f1))
        for label, rates in (
            ("macro", extraction.macro),
            ("micro", extraction.micro),
            ("macro, strict recall", extraction.macro_strict),
            ("micro, strict recall", extraction.micro_strict),
        )
    ]
    table(["extraction", "precision", "recall", "f1"], rows, numbers=["precision", "recall", "f1"])
    print_line(_verdict(extraction))
    if extraction.missing_in_words:
        print_line(filled(f"! {extraction.missing_in_words}"))
    if extraction.failed_cases:
        failed = extraction.failed_cases
        shown = ", ".join(failed[:5]) + (" …" if len(failed) > 5 else "")
        print_line(f"{count(len(failed), 'case')} failed to run and count nowhere: {in_line(shown)}")
    empty = [case_id for case_id, case in extraction.cases.items() if not case.total_gt_fields]
    if empty:
        print_line(
            f"no field is expected, which looks like an error in the data: {in_line(', '.join(empty[:5]))}"
        )
    weakest = [
        (name, entry) for name, entry in extraction.fields.items() if entry.accuracy not in (None, 1.0)
    ]
    weakest.sort(key=lambda item: (item[1].accuracy, item[0]))
    if weakest:
        listed = ", ".join(f"{name} {entry.accuracy:.0%} of {entry.n}" for name, entry in weakest[:3])
        print_line(in_line(f"weakest fields: {listed}"))


def _verdict(extraction: Extraction) -> str:
    if extraction.eval_count is None:
        return "extraction has not been computed yet"
    cases = count(extraction.eval_count, "case")
    if not extraction.eval_count:
        return "no case was scored"
    return f"macro F1 over {cases}: target {extraction.target:.2f} {target_words(extraction.target_met)}"


def _latency_lines(performance: Performance) -> Iterator[str]:
    whole = performance.latency_ms
    if whole.n:
        yield f"latency: {_milliseconds(whole)} over {whole.n:,}; suite {performance.total_suite_ms:,.0f} ms"
    for stage, entry in performance.latency_breakdown_ms.items():
        if entry.n:
            yield f"  {stage.replace('_', ' ')}: {_milliseconds(entry)} over {entry.n:,}"


def _milliseconds(entry: Latency) -> str:
    return f"p50 {entry.p50:,.0f} ms, p95 {entry.p95:,.0f} ms, mean {entry.mean:,.0f} ms"


def _judge_lines(report: RunReport) -> Iterator[str]:
    from eval_pipeline.showing.blocks import UNSTABLE_ABOVE, judge_lines, kappa_words

    coverage, reliability = report.judge_coverage, report.judge_reliability
    performance = report.performance
    if performance.judge_tokens:
        cost = "" if performance.judge_cost is None else f", cost {performance.judge_cost:,}"
        yield f"judge: {performance.judge_tokens:,} tokens{cost}"
    yield from (f"judge: {line}" for line in judge_lines(report.judges))
    for ask, statuses in (coverage.judgements or {}).items():
        yield f"judge: {ask}: {each_counted(statuses)}"
    if coverage.inconsistent_n:
        scores = count(coverage.inconsistent_n, "full score")
        yield f"judge: {scores} for groundedness in spite of unsupported claims"
    if coverage.uncited_fives:
        scores = count(coverage.uncited_fives, "full score")
        yield f"judge: {scores} for groundedness of answers without a citation or reference, counted as 4"
    rate = reliability.disagreement_rate
    if rate is not None:
        unstable = ": the judge is unstable" if rate > UNSTABLE_ABOVE else ""
        pairs = count(reliability.spot_check_pairs or reliability.spot_check_n, "spot check")
        yield f"judge: {rate:.0%} disagreement in {pairs}{kappa_words(reliability)}{unstable}"
    for problem in report.judge_config_problems:
        yield f"judge: {problem}"


def _indexing_lines(indexing: Indexing | None) -> Iterator[str]:
    if indexing is None or indexing.docs_processed is None:
        return
    yield (
        f"indexing: {count(indexing.docs_processed, 'document')}, {indexing.docs_with_0_chunks:,} without "
        f"chunks; {count(indexing.chunks_attempted or 0, 'chunk')}, {indexing.chunks_embedded:,} embedded, "
        f"{indexing.chunks_skipped:,} skipped"
    )
    if indexing.skip_reasons:
        reasons = ", ".join(f"{reason} {n:,}" for reason, n in indexing.skip_reasons.items())
        yield f"  skipped because of: {reasons}"


def _print_readings(readings: Mapping[str, OtherReading]) -> None:
    """Readings of one's own, beside what they are readings of."""
    rows = [
        (name, entry.reading_of, key, amount(value))
        for name, entry in readings.items()
        for key, value in entry.values.items()
        if value is not None
    ]
    if rows:
        print_line()
        table(["reading", "of", "measure", "value"], rows, numbers=["value"])
