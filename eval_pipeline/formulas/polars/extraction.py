"""The extraction metrics of each case."""

from __future__ import annotations

from typing import Any, Literal

import polars as pl

from eval_pipeline.formulas.decorator import formula
from eval_pipeline.metrics import ERROR_TYPES, compute_metrics


@formula(
    reads=["facts.extraction_outcomes"],
    keys={
        "precision": "Of the extracted fields, the share that is correct",
        "recall": "Correct fields among the correct and the missed ones; fn_policy table counts wrong ones as missed",
        "f1": "Harmonic mean of the two",
        "recall_strict": "Of the fields that should be there, the share that is correct",
        "f1_strict": "Harmonic mean of precision and recall_strict",
        "true_positives": "Correct fields",
        "false_positives": "Extracted fields that are wrong or should not be there",
        "false_negatives": "Fields that are missing; under fn_policy table also those that are wrong",
        "total_gt_fields": "Fields that should be there",
        "correct_fields": "Correct fields, under their other name",
    },
    grain=["run_key", "case_key"],
    about="Which fields of a document were extracted rightly?",
    family="extraction",
    headline=[],
    version=1,
    parameters={"fn_policy": "code"},
    choices={"fn_policy": ["code", "table"]},
    applies="not has_failed",
    undefined="0 for every division by zero",
    scale="fraction",
    range=[0, None],
    direction="higher",
    aggregate="mean",
    why="docs/decisions.md#a1-1",
    examples=[
        "{extractions: [{ground_truth: {a: 1, b: 2}, extracted: {a: 1, b: 2}}]} => {precision: 1, recall: 1, f1: 1}",
        "{extractions: [{ground_truth: {a: 1, b: 2}, extracted: {a: 1, b: 3}}]} => "
        "{precision: 0.5, recall: 1, recall_strict: 0.5, false_negatives: 0}",
        "{extractions: [{ground_truth: {a: 1, b: 2}, extracted: {a: 1, b: 3}}], parameters: {fn_policy: table}} => "
        "{precision: 0.5, recall: 0.5, recall_strict: 0.5, false_negatives: 1}",
        "{extractions: [{ground_truth: {a: 1, b: 2}}]} => {precision: 0, recall: 0, f1: 0, false_negatives: 2}",
        "{extractions: [{total_gt_fields: 3, discrepancies: [{field: x, error_type: hallucination}]}]} => "
        "{precision: 0.75, recall: 1, true_positives: 3, false_positives: 1}",
        "{extractions: [{ground_truth: {a: 1}, error: crashed}]} => {precision: null, f1: null}",
    ],
)
def extraction(extraction_outcomes: pl.DataFrame, *, fn_policy: Literal["code", "table"]) -> pl.DataFrame:
    """One row per case, without numbers where the case failed to run."""
    rows = [
        {"run_key": case["run_key"], "case_key": case["case_key"], **metrics_of(case, fn_policy)}
        for case in extraction_outcomes.iter_rows(named=True)
    ]
    return pl.DataFrame(rows, schema=SCHEMA)


SCHEMA = {
    "run_key": pl.Int32,
    "case_key": pl.Int32,
    "precision": pl.Float64,
    "recall": pl.Float64,
    "f1": pl.Float64,
    "recall_strict": pl.Float64,
    "f1_strict": pl.Float64,
    "true_positives": pl.Int64,
    "false_positives": pl.Int64,
    "false_negatives": pl.Int64,
    "total_gt_fields": pl.Int64,
    "correct_fields": pl.Int64,
}


def metrics_of(case: dict[str, Any], fn_policy: Literal["code", "table"]) -> dict[str, Any]:
    """What compute_metrics says of the case's counts."""
    if case["has_failed"]:
        return {}
    found = ({"error_type": name} for name in ERROR_TYPES for _ in range(case[f"n_{name}"]))
    return dict(compute_metrics(case["total_gt_fields"], found, fn_policy=fn_policy))
