"""How long the queries of a run took, stage by stage."""

from __future__ import annotations

import polars as pl

from eval_pipeline.formulas.decorator import formula
from eval_pipeline.formulas.polars.aggregates.exact import exact_mean, exact_sum, percentile_of, rounded


@formula(
    reads={
        "raw.runs": ["run_key", "suite_time_ms"],
        "metrics.latency": [
            "run_key",
            "latency_total_ms",
            "latency_folder_selection_ms",
            "latency_retrieval_ms",
            "latency_generation_ms",
            "latency_judge_ms",
        ],
    },
    keys={
        "${stage}_n": "How many queries recorded a time for this stage: ${stage}",
        "${stage}_p50_ms": "Half of the times are at most this: ${stage}",
        "${stage}_p95_ms": "Of a hundred times ninety-five are at most this: ${stage}",
        "${stage}_mean_ms": "Mean of the times: ${stage}",
        "total_suite_ms": "Time the whole run took: as recorded, else the sum of the queries' total times",
    },
    grain=["run_key"],
    about="How long did the queries of a run take, stage by stage?",
    family="latency",
    headline=[],
    version=1,
    parameters={
        "stages": ["total", "folder_selection", "retrieval", "generation", "judge"],
        "percentile": "linear",
        "rounding": "half_even",
    },
    choices={"percentile": ["linear", "nearest"], "rounding": ["half_even", "half_up"]},
    undefined="null where no time was recorded",
    scale="ms",
    direction="lower",
    why="docs/decisions.md#a2-19",
    examples=[
        "{results: [{latency_ms: {total: 10}}, {latency_ms: {total: 20}}]} => {total_n: 2, total_p50_ms: 15, "
        "total_p95_ms: 19.5, total_mean_ms: 15, total_suite_ms: 30, judge_n: 0, judge_p50_ms: null}",
        "{results: [{latency_ms: {total: 10}}, {latency_ms: {total: 20}}], parameters: {percentile: nearest}} => "
        "{total_p50_ms: 10, total_p95_ms: 20}",
        "{latency_ms: {total: 0.03125}} => {total_p50_ms: 0.0312}",
        "{latency_ms: {total: 0.03125}, parameters: {rounding: half_up}} => {total_p50_ms: 0.0313}",
        "{latency_ms: {total: 10}, run: {suite_time_ms: 12.5}} => {total_mean_ms: 10, total_suite_ms: 12.5}",
        "{hits: [a]} => {total_n: 0, total_p95_ms: null, total_suite_ms: null}",
    ],
)
def latency_summary(
    runs: pl.DataFrame, latency: pl.DataFrame, *, stages: list[str], percentile: str, rounding: str
) -> pl.DataFrame:
    """One row per run, also of one whose queries recorded no time."""
    times = {stage: pl.col(f"latency_{stage}_ms") for stage in stages}
    found = latency.group_by("run_key").agg(
        exact_sum(pl.col("latency_total_ms")).alias("recorded_ms"),
        *(one.count().cast(pl.Int64).alias(f"{stage}_n") for stage, one in times.items()),
        *(percentile_of(one, 0.5, percentile).alias(f"{stage}_p50_ms") for stage, one in times.items()),
        *(percentile_of(one, 0.95, percentile).alias(f"{stage}_p95_ms") for stage, one in times.items()),
        *(exact_mean(one).alias(f"{stage}_mean_ms") for stage, one in times.items()),
    )
    total = pl.coalesce("suite_time_ms", "recorded_ms").alias("total_suite_ms")
    return (
        runs.join(found, on="run_key", how="left")
        .with_columns(pl.col("^.*_n$").fill_null(0), total)
        .drop("suite_time_ms", "recorded_ms")
        .with_columns(rounded(pl.col("^.*_ms$"), rounding))
    )
