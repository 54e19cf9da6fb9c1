"""What became of every field of an extraction case."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from eval_pipeline.formulas.decorator import formula
from eval_pipeline.metrics import find_discrepancies, flatten_fields

CASES_AT_ONCE = 20_000
SCHEMA = {"run_key": pl.Int32, "case_key": pl.Int32, "field": pl.String, "outcome": pl.String}


@formula(
    reads=["raw.extraction_cases"],
    keys={"outcome": "correct, omission, hallucination, format_error or wrong_value"},
    grain=["run_key", "case_key", "field"],
    about="What became of every field of an extraction case.",
    version=1,
    why="docs/decisions.md#a1-5",
    examples=[
        "{extractions: [{ground_truth: {a: 1, b: 2}, extracted: {a: 1.0, c: 3}}]} => "
        "[{field: a, outcome: correct}, {field: b, outcome: omission}, {field: c, outcome: hallucination}]",
        '{extractions: [{ground_truth: {a: {b: 1, c: [1, 2]}}, extracted: {a: {b: "1", c: [2, 1]}}}]} => '
        "[{field: a.b, outcome: format_error}, {field: a.c, outcome: wrong_value}]",
        "{extractions: [{ground_truth: {a: x, b: null, c: {}}}]} => [{field: a, outcome: omission}]",
        "{extractions: [{ground_truth: {a: x}, discrepancies: [{field: a, error_type: wrong_value}]}]} => "
        "[{field: a, outcome: wrong_value}]",
        "{extractions: [{ground_truth: {a: x}, error: crashed}]} => []",
    ],
)
def field_outcomes(extraction_cases: pl.DataFrame) -> pl.DataFrame:
    """One row per field that is expected, extracted or complained of; none for a case that failed to run."""
    scored = extraction_cases.filter(~pl.col("has_failed"))
    frames = [outcomes_of_cases(cases) for cases in scored.iter_slices(CASES_AT_ONCE)]
    return pl.concat([pl.DataFrame(schema=SCHEMA), *frames])


def outcomes_of_cases(cases: pl.DataFrame) -> pl.DataFrame:
    """So many at once as fit into memory as Python objects."""
    rows = [
        (case["run_key"], case["case_key"], field, outcome)
        for case in cases.iter_rows(named=True)
        for field, outcome in outcomes_of(case).items()
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def outcomes_of(case: dict[str, Any]) -> dict[str, str]:
    """Given discrepancies are taken; without any the two documents are compared."""
    ground_truth, extracted, given = (
        json.loads(case[name]) if case[name] is not None else None
        for name in ("ground_truth", "extracted", "discrepancies")
    )
    outcomes: dict[str, str] = dict.fromkeys(flatten_fields(ground_truth), "correct")
    if given is None:
        return outcomes | {one.field: one.error_type for one in find_discrepancies(ground_truth, extracted)}
    return outcomes | {one["field"]: one["error_type"] for one in given}
