"""Extraction over all cases of a run: the mean of the cases, and all fields pooled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from eval_pipeline.formulas.decorator import formula
from eval_pipeline.formulas.polars.aggregates.exact import rounded_by
from eval_pipeline.metrics import EXTRACTION_FORMULA_VERSION, compute_aggregate_metrics, is_target_met

AVERAGES = ("macro", "micro", "macro_strict", "micro_strict")
RATES = ("precision", "recall", "f1")
TOTALS = ("total_true_positives", "total_false_positives", "total_false_negatives", "eval_count")


@formula(
    reads=["raw.run_parts", "facts.extraction_outcomes", "metrics.extraction"],
    keys={
        "macro_precision": "Mean of the cases' precisions",
        "macro_recall": "Mean of the cases' recalls",
        "macro_f1": "Mean of the cases' F1s: the headline",
        "micro_precision": "Precision of all fields pooled",
        "micro_recall": "Recall of all fields pooled",
        "micro_f1": "F1 of all fields pooled",
        "macro_strict_precision": "As macro_precision",
        "macro_strict_recall": "Mean of the cases' strict recalls",
        "macro_strict_f1": "Mean of the cases' strict F1s",
        "micro_strict_precision": "As micro_precision",
        "micro_strict_recall": "Strict recall of all fields pooled",
        "micro_strict_f1": "Strict F1 of all fields pooled",
        "total_true_positives": "Correct fields of all cases",
        "total_false_positives": "Wrongly extracted fields of all cases",
        "total_false_negatives": "Missed fields of all cases",
        "eval_count": "Cases that were scored",
        "n_failed": "Cases that failed to run and are outside of everything above",
        "target": "What the headline should reach",
        "target_met": "Whether it does, before rounding",
        "formula_version": "The version that the formulas give themselves",
    },
    grain=["run_key"],
    about="How well were the fields extracted, over all cases?",
    family="extraction",
    headline="macro_f1",
    version=1,
    parameters={"target": 0.9, "rounding": "half_even"},
    choices={"rounding": ["half_even", "half_up"]},
    undefined="zeros, and a target that is not met, when no case was scored",
    why="docs/decisions.md#a1-9",
    examples=[
        "{extractions: [{ground_truth: {a: 1}, extracted: {a: 1}}, {ground_truth: {a: 1, b: 2, c: 3}}]} => "
        "{macro_f1: 0.5, micro_precision: 1, micro_recall: 0.25, micro_f1: 0.4, eval_count: 2, target_met: false}",
        "{extractions: [{ground_truth: {a: 1}, extracted: {a: 1}}, {error: crashed}]} => "
        "{macro_f1: 1, eval_count: 1, n_failed: 1, target_met: true}",
        "{extractions: []} => {macro_f1: 0, micro_f1: 0, eval_count: 0, target_met: false}",
    ],
)
def extraction_summary(
    run_parts: pl.DataFrame,
    extraction_outcomes: pl.DataFrame,
    cases: pl.DataFrame,
    *,
    target: float,
    rounding: str,
) -> pl.DataFrame:
    """One row per run that delivered extraction cases, be it none."""
    delivered = run_parts.filter(pl.col("part") == "extractions")["run_key"].sort().to_list()
    failed = extraction_outcomes.filter(pl.col("has_failed"))["run_key"].to_list()
    scored: dict[int, list[Mapping[str, Any]]] = {run_key: [] for run_key in delivered}
    for case in cases.drop_nulls("f1").iter_rows(named=True):
        scored[case["run_key"]].append({"metrics": with_whole_counts(case)})
    rows = [
        {"run_key": run_key, **summary_of(found, target, rounding), "n_failed": failed.count(run_key)}
        for run_key, found in scored.items()
    ]
    return pl.DataFrame(rows, schema=SCHEMA)


RATE_COLUMNS = [f"{average}_{rate}" for average in AVERAGES for rate in RATES]
SCHEMA = {
    "run_key": pl.Int32,
    **dict.fromkeys(RATE_COLUMNS, pl.Float64),
    **dict.fromkeys((*TOTALS, "n_failed"), pl.Int64),
    "target": pl.Float64,
    "target_met": pl.Boolean,
    "formula_version": pl.String,
}


def with_whole_counts(case: Mapping[str, Any]) -> dict[str, Any]:
    """A case of metrics.extraction, whose counts are stored as doubles like every metric."""
    counts = ("true_positives", "false_positives", "false_negatives", "total_gt_fields")
    return {**case, **{name: int(case[name]) for name in counts}}


def summary_of(evals: list[Mapping[str, Any]], target: float, rounding: str) -> dict[str, Any]:
    """One run's numbers, rounded for storage; the target is held against the unrounded headline."""
    aggregate = compute_aggregate_metrics(evals)
    values: Mapping[str, Any] = {**aggregate}
    rates = {
        f"{average}_{rate}": rounded_by(values[average][rate], rounding)
        for average in AVERAGES
        for rate in RATES
    }
    totals = {name: values[name] for name in TOTALS}
    met = is_target_met(aggregate, target=target)
    return {
        **rates,
        **totals,
        "target": float(target),
        "target_met": met,
        "formula_version": EXTRACTION_FORMULA_VERSION,
    }
