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
select
    results.run_key,
    results.query_key,
    results.judge_prompt_tokens,
    results.judge_completion_tokens
from raw.results as results
inner join labels.queries as queries on results.query_key = queries.query_key
