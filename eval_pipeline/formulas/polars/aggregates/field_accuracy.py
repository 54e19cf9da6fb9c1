"""How often a run gets each field of its extraction cases right, and what goes wrong with it."""

from __future__ import annotations

import polars as pl

from eval_pipeline.formulas.decorator import formula
from eval_pipeline.formulas.polars.aggregates.exact import rounded

ERRORS = ("omission", "hallucination", "format_error", "wrong_value")


@formula(
    reads={
        "facts.field_outcomes": ["run_key", "case_key", "field", "outcome"],
        "facts.extraction_outcomes": ["run_key", "case_key", "has_ground_truth"],
    },
    keys={
        "accuracy": "Of the cases that should have the field, the share in which it is correct",
        "n": "How many cases should have it",
        "n_omission": "In how many of all cases it is missing",
        "n_hallucination": "In how many it was extracted and should not be there",
        "n_format_error": "In how many its value has the wrong type",
        "n_wrong_value": "In how many its value is wrong",
    },
    grain=["run_key", "field"],
    about="Which fields are extracted rightly, and how do the others go wrong?",
    family="extraction",
    headline=[],
    version=1,
    parameters={"rounding": "half_even"},
    choices={"rounding": ["half_even", "half_up"]},
    undefined="null when no case that shows its ground truth has the field",
    why="docs/decisions.md#a1-5",
    examples=[
        "{extractions: [{ground_truth: {a: 1}, extracted: {a: 1}}, {ground_truth: {a: 1}, extracted: {a: 2}}]} => "
        "[{field: a, accuracy: 0.5, n: 2, n_wrong_value: 1}]",
        "{extractions: [{ground_truth: {a: 1}, extracted: {a: 1, b: 1}}]} => "
        "[{field: a, accuracy: 1, n: 1}, {field: b, accuracy: null, n: 0, n_hallucination: 1}]",
        "{extractions: [{total_gt_fields: 2, discrepancies: [{field: a, error_type: omission}]}]} => "
        "[{field: a, accuracy: null, n: 0, n_omission: 1}]",
    ],
)
def field_accuracy(fields: pl.DataFrame, cases: pl.DataFrame, *, rounding: str) -> pl.DataFrame:
    """One row per run and field that any of its cases expects, gives or is said to get wrong."""
    outcome = pl.col("outcome")
    is_expected = pl.col("has_ground_truth") & (outcome != "hallucination")
    counted = (
        fields.join(cases, on=["run_key", "case_key"])
        .group_by("run_key", "field")
        .agg(
            (is_expected & (outcome == "correct")).sum().alias("n_correct"),
            is_expected.sum().cast(pl.Int64).alias("n"),
            *((outcome == error).sum().cast(pl.Int64).alias(f"n_{error}") for error in ERRORS),
        )
    )
    share = pl.when(pl.col("n") > 0).then(pl.col("n_correct") / pl.col("n"))
    return counted.with_columns(rounded(share, rounding).alias("accuracy")).drop("n_correct")
