-- keys:
--   judge_prompt_tokens: "Tokens the judge model read"
--   judge_completion_tokens: "Tokens the judge model wrote"
-- about: "How many tokens did the judge use?"
-- family: judge_usage
-- headline: []
-- version: 1
-- undefined: null where nothing was recorded
-- scale: count
-- range: [0, null]
-- direction: lower
-- aggregate: sum
-- why: docs/decisions.md#a2-19
-- examples:
--   - {judge: {tokens: {prompt: 300, completion: 40}}} => {judge_prompt_tokens: 300, judge_completion_tokens: 40}
--   - {judge: {tokens: {prompt: 300}}} => {judge_prompt_tokens: 300, judge_completion_tokens: null}
--   - {error: "no connection", judge: {tokens: {prompt: 300}}} => {judge_prompt_tokens: 300}
--   - {judge: {tokens: {prompt: 300}}, judgements: [{ask: correctness, raw: "none", usage: {prompt: 10}}, {ask: correctness, repeat: 1, usage: {prompt: 20}}]} => {judge_prompt_tokens: 30}
--   - {judgements: [{ask: correctness, from_cache: true, usage: {prompt: 10, completion: 1}}]} => {judge_prompt_tokens: 0, judge_completion_tokens: 0}

-- Of judgements every one counts that was asked for this run, whatever for; one that was there already took nothing.
with judged as (
    select
        run_key,
        query_key,
        sum(case when from_cache then 0 else prompt_tokens end) as prompt_tokens,
        sum(case when from_cache then 0 else completion_tokens end) as completion_tokens
    from raw.judgements
    where status <> 'skipped'
    group by run_key, query_key
)

select
    results.run_key,
    results.query_key,
    case
        when judged.query_key is null then results.judge_prompt_tokens else judged.prompt_tokens
    end as judge_prompt_tokens,
    case
        when judged.query_key is null then results.judge_completion_tokens else judged.completion_tokens
    end as judge_completion_tokens
from raw.results as results
inner join labels.queries as queries on results.query_key = queries.query_key
left join judged on results.run_key = judged.run_key and results.query_key = judged.query_key
