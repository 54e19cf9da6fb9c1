-- keys:
--   "${stage}_n": "How many queries recorded a time for this stage: ${stage}"
--   "${stage}_p50_ms": "Half of the times are at most this: ${stage}"
--   "${stage}_p95_ms": "Of a hundred times ninety-five are at most this: ${stage}"
--   "${stage}_mean_ms": "Mean of the times: ${stage}"
--   total_suite_ms: "Time the whole run took: as recorded, else the sum of the queries' total times"
-- version: 1
-- parameters: {stages: [total, folder_selection, retrieval, generation, judge], percentile: linear, rounding: half_even}
-- choices: {percentile: [linear, nearest], rounding: [half_even, half_up]}
-- undefined: null where no time was recorded
-- scale: ms
-- direction: lower
-- why: docs/decisions.md#a2-19
-- examples:
--   - {results: [{latency_ms: {total: 10}}, {latency_ms: {total: 20}}]} => {total_n: 2, total_p50_ms: 15, total_p95_ms: 19.5, total_mean_ms: 15, total_suite_ms: 30, judge_n: 0, judge_p50_ms: null}
--   - {results: [{latency_ms: {total: 10}}, {latency_ms: {total: 20}}], parameters: {percentile: nearest}} => {total_p50_ms: 10, total_p95_ms: 20}
--   - {latency_ms: {total: 0.03125}} => {total_p50_ms: 0.0312}
--   - {latency_ms: {total: 0.03125}, parameters: {rounding: half_up}} => {total_p50_ms: 0.0313}
--   - {latency_ms: {total: 10}, run: {suite_time_ms: 12.5}} => {total_mean_ms: 10, total_suite_ms: 12.5}
--   - {hits: [a]} => {total_n: 0, total_p95_ms: null, total_suite_ms: null}
with latencies as (
    select
        run_key,
        "latency_${stage}_ms" as "$stage",
    from metrics.latency
),

recorded as (
    select
        run_key,
        list("$stage" order by "$stage") filter (where "$stage" is not null) as "$stage",
    from latencies
    group by run_key
),

complete as (
    select
        runs.run_key,
        runs.suite_time_ms,
        coalesce(recorded."$stage", []) as "$stage",
    from raw.runs as runs
    left join recorded on runs.run_key = recorded.run_key
)

select
    run_key,
    len("$stage") as "${stage}_n",
    rounded_by(percentile_of("$stage", 0.5, $percentile), $rounding) as "${stage}_p50_ms",
    rounded_by(percentile_of("$stage", 0.95, $percentile), $rounding) as "${stage}_p95_ms",
    rounded_by(exact_list_sum("$stage") / nullif(len("$stage"), 0), $rounding) as "${stage}_mean_ms",
    rounded_by(coalesce(suite_time_ms, exact_list_sum(total)), $rounding) as total_suite_ms
from complete
