-- keys:
--   n: "How many queries of the slice recorded a total time"
--   p50_ms: "Half of the total times are at most this"
--   p95_ms: "Of a hundred total times ninety-five are at most this"
--   judge_tokens: "Tokens that the judges read and wrote; null where none was recorded"
--   judge_cost: "What these cost; null without a recorded token or the price of one"
-- grain: [run_key, slice, slice_value]
-- about: "How long did the queries of every slice take, and what did judging them cost?"
-- family: latency
-- headline: []
-- version: 1
-- parameters: {percentile: linear, rounding: half_even}
-- choices: {percentile: [linear, nearest], rounding: [half_even, half_up]}
-- undefined: null where nothing was recorded
-- why: docs/decisions.md#s2-30
-- examples:
--   - {tags: [a], category: c, results: [{latency_ms: {total: 10}}, {latency_ms: {total: 20}}]} => [{slice: answerable, n: 2}, {slice: category, slice_value: c, n: 2, p50_ms: 15, p95_ms: 19.5, judge_tokens: null}, {slice: difficulty}, {slice: tag, slice_value: a, p50_ms: 15}, {slice: vault}]
--   - {judge: {tokens: {prompt: 1000, completion: 500}}, config: {judge_price_per_1k: {prompt: 0.01, completion: 0.02}}} => [{n: 0, p50_ms: null, judge_tokens: 1500, judge_cost: 0.02}, {judge_cost: 0.02}, {judge_cost: 0.02}, {judge_cost: 0.02}, {judge_cost: 0.02}]
--   - {judgements: [{ask: correctness, usd: 0.5}, {ask: groundedness, usd: 0.25}]} => [{judge_cost: 0.75}, {judge_cost: 0.75}, {judge_cost: 0.75}, {judge_cost: 0.75}, {judge_cost: 0.75}]

-- Costs are those of the judgements if any of the run has one, as in aggregates.judge_summary.
with judged as (
    select
        run_key,
        query_key,
        exact_list_sum(list(case when from_cache then 0 else usd end order by usd)) as usd
    from raw.judgements
    where status <> 'skipped'
    group by run_key, query_key
),

charged as (
    select distinct run_key
    from judged
    where usd is not null
),

queries as (
    select
        latency.run_key,
        latency.query_key,
        latency.latency_total_ms as total_ms,
        case
            when usage.judge_prompt_tokens is not null or usage.judge_completion_tokens is not null
                then coalesce(usage.judge_prompt_tokens, 0) + coalesce(usage.judge_completion_tokens, 0)
        end as tokens,
        case
            when charged.run_key is not null then judged.usd
            when usage.judge_prompt_tokens is null
                then usage.judge_completion_tokens / 1000 * runs.judge_price_completion
            when usage.judge_completion_tokens is null
                then usage.judge_prompt_tokens / 1000 * runs.judge_price_prompt
            else
                usage.judge_prompt_tokens / 1000 * runs.judge_price_prompt
                + usage.judge_completion_tokens / 1000 * runs.judge_price_completion
        end as usd
    from metrics.latency as latency
    inner join raw.runs as runs on latency.run_key = runs.run_key
    left join metrics.judge_usage as usage
        on latency.run_key = usage.run_key and latency.query_key = usage.query_key
    left join judged on latency.run_key = judged.run_key and latency.query_key = judged.query_key
    left join charged on latency.run_key = charged.run_key
),

gathered as (
    select
        queries.run_key,
        slices.slice,
        slices.slice_value,
        coalesce(
            list(queries.total_ms order by queries.total_ms) filter (where queries.total_ms is not null), []
        ) as times,
        exact_list_sum(list(queries.tokens order by queries.tokens)) as tokens,
        exact_list_sum(list(queries.usd order by queries.usd)) as usd
    from queries
    inner join labels.slices as slices on queries.query_key = slices.query_key
    group by queries.run_key, slices.slice, slices.slice_value
)

select
    run_key,
    slice,
    slice_value,
    len(times) as n,
    rounded_by(percentile_of(times, 0.5, $percentile), $rounding) as p50_ms,
    rounded_by(percentile_of(times, 0.95, $percentile), $rounding) as p95_ms,
    tokens as judge_tokens,
    rounded_by(usd, $rounding) as judge_cost
from gathered
