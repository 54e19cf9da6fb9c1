"""Whether an answer says what it must and nothing it must not."""

from __future__ import annotations

import polars as pl

from eval_pipeline.formulas.decorator import formula


@formula(
    reads=["facts.outcomes", "facts.string_checks"],
    keys={"groundedness": "Whether the answer contains every required text and no forbidden one"},
    about="Does the answer say what it must and nothing that it must not?",
    family="answers",
    headline="groundedness",
    version=1,
    parameters={"unlabelled_groundedness": "exclude"},
    choices={"unlabelled_groundedness": ["exclude", "include"]},
    applies=(
        "has_answer and not is_error and (n_required + n_forbidden > 0 or $unlabelled_groundedness = 'include')"
    ),
    scale="binary",
    range=[0, 1],
    direction="higher",
    aggregate="mean",
    why="docs/decisions.md#a3-8",
    examples=[
        '{must_contain: [Paris], answer: {text: "It is Paris."}} => {groundedness: 1}',
        '{must_contain: [Paris, Rome], answer: {text: "It is Paris."}} => {groundedness: 0}',
        '{forbidden: [London], answer: {text: "It is London."}} => {groundedness: 0}',
        '{answer: {text: "It is Paris."}} => {groundedness: null}',
        '{answer: {text: "It is Paris."}, parameters: {unlabelled_groundedness: include}} => {groundedness: 1}',
        '{must_contain: [Paris], answer: {text: "Paris"}, error: "late"} => {groundedness: null}',
    ],
)
def answer_strings(outcomes: pl.DataFrame, string_checks: pl.DataFrame) -> pl.DataFrame:
    """One row per answer; `applies` leaves out those that no label asks anything of."""
    says_everything = pl.col("n_required_found") == pl.col("n_required")
    says_nothing_forbidden = pl.col("n_forbidden_found") == 0
    return outcomes.join(string_checks, on=["run_key", "query_key"]).select(
        "run_key",
        "query_key",
        (says_everything & says_nothing_forbidden).cast(pl.Float64).alias("groundedness"),
    )
