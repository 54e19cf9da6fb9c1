"""Whether two verdicts about the same answer agree."""

from __future__ import annotations

import polars as pl

from eval_pipeline.formulas.decorator import formula


@formula(
    reads={
        "raw.spot_checks": [
            "run_key",
            "check_no",
            "query_key",
            "first_score",
            "first_binary",
            "second_score",
            "second_binary",
        ],
        "raw.judgements": ["run_key", "judgement_no", "query_key", "ask", "purpose"],
        "facts.judgements": ["run_key", "judgement_no", "score", "verdict"],
        "facts.verdicts": ["run_key", "query_key", "ask", "score", "verdict"],
    },
    keys={
        "query_key": "The question; null if the pair names none",
        "is_comparable": "Both sides have a score from 0 to 5, or both have a verdict of yes or no",
        "disagrees": "The scores are further apart than ${tolerance}, or the verdicts differ; "
        "null when neither can be compared",
    },
    grain=["run_key", "check_no"],
    about="Whether two verdicts about the same answer agree.",
    version=2,
    parameters={"tolerance": 1},
    why="docs/decisions.md#a2-21",
    examples=[
        "{spot_checks: [{first: {score: 4}, second: {score: 2}}]} => {is_comparable: true, disagrees: true}",
        "{spot_checks: [{first: {score: 4}, second: {score: 3}}]} => {disagrees: false}",
        "{spot_checks: [{first: {score: 4, binary: true}, second: {score: 4, binary: false}}]} => {disagrees: true}",
        "{spot_checks: [{first: {score: 4}, second: {binary: true}}]} => {is_comparable: false, disagrees: null}",
        "{spot_checks: [{first: {score: 9}, second: {score: 1}}]} => {is_comparable: false, disagrees: null}",
        """{judgements: [{ask: correctness, raw: '{"score": 4}'}, """
        """{ask: correctness, judge: second, purpose: spot_check, raw: '{"score": 2}'}]} => {disagrees: true}""",
        """{judgements: [{ask: correctness, judge: second, purpose: spot_check, raw: '{"score": 2}'}]} => """
        "{is_comparable: false}",
    ],
)
def spot_checks(
    delivered: pl.DataFrame,
    judgements: pl.DataFrame,
    parsed: pl.DataFrame,
    scored: pl.DataFrame,
    *,
    tolerance: float,
) -> pl.DataFrame:
    """One row per pair of verdicts; that of two judgements is numbered after the second, below 0."""
    pairs = pl.concat([delivered, second_judgements(judgements, parsed, scored)])
    first, second = pl.col("first_score"), pl.col("second_score")
    are_scores = first.is_between(0, 5) & second.is_between(0, 5)
    scores_differ = pl.when(are_scores).then((first - second).abs() > tolerance)
    verdicts_differ = pl.col("first_binary") != pl.col("second_binary")
    return pairs.select(
        "run_key",
        "check_no",
        "query_key",
        pl.coalesce(scores_differ, verdicts_differ).is_not_null().alias("is_comparable"),
        pl.max_horizontal(scores_differ, verdicts_differ).alias("disagrees"),
    )


def second_judgements(judgements: pl.DataFrame, parsed: pl.DataFrame, scored: pl.DataFrame) -> pl.DataFrame:
    """Judgements of a spot check beside those that score the same answers."""
    of_checks = judgements.filter(pl.col("purpose") == "spot_check")
    seconds = of_checks.join(parsed, on=["run_key", "judgement_no"])
    both = seconds.join(scored, on=["run_key", "query_key", "ask"], how="left", suffix="_first")
    return both.sort("run_key", "judgement_no").select(
        "run_key",
        (-pl.col("judgement_no")).alias("check_no"),
        "query_key",
        pl.col("score_first").alias("first_score"),
        pl.col("verdict_first").alias("first_binary"),
        pl.col("score").alias("second_score"),
        pl.col("verdict").alias("second_binary"),
    )
