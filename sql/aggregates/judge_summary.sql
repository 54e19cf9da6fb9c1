-- keys:
--   is_judged: "Whether any result carries something a judge said"
--   groundedness_n: "How many valid groundedness scores there are"
--   correctness_n: "How many valid correctness scores there are"
--   inconsistent_n: "How many groundedness scores of 5 come with unsupported claims"
--   judge_tokens: "Tokens the judge model read and wrote; 0 when none was recorded"
--   judge_cost: "What its judgements cost in USD, else what the tokens cost at the run's prices per 1,000; null without a recorded token, or without the price of one"
--   spot_check_n: "How many questions were judged a second time; a delivered pair counts as one"
--   spot_check_pairs: "How many pairs of verdicts can be compared"
--   n_disagreeing: "How many of these pairs disagree"
--   disagreement_rate: "Their share; null without a comparable pair"
-- about: "How far the judge of a run can be trusted, and what it cost."
-- version: 2
-- parameters: {rounding: half_even}
-- choices: {rounding: [half_even, half_up]}
-- why: docs/decisions.md#a2-12
-- examples:
--   - {judge: {groundedness: {score: 5, unsupported_claims: [x]}, correctness: {score: "5"}}} => {is_judged: true, groundedness_n: 1, correctness_n: 0, inconsistent_n: 1, judge_tokens: 0, judge_cost: null}
--   - {judge: {tokens: {prompt: 3000, completion: 250}}, config: {judge_price_per_1k: {prompt: 0.5, completion: 2}}} => {judge_tokens: 3250, judge_cost: 2}
--   - {judge: {tokens: {prompt: 3000, completion: 250}}, config: {judge_price_per_1k: {prompt: 0.5}}} => {judge_tokens: 3250, judge_cost: null}
--   - {judge: {tokens: {prompt: 1000}}, config: {judge_price_per_1k: {prompt: 0.03125}}, parameters: {rounding: half_up}} => {judge_cost: 0.0313}
--   - {spot_checks: [{first: {score: 5}, second: {score: 3}}, {first: {score: 5}, second: {score: 4}}]} => {spot_check_n: 2, spot_check_pairs: 2, n_disagreeing: 1, disagreement_rate: 0.5}
--   - {answer: {text: x}, judgements: [{ask: groundedness, raw: '{"score": 5, "unsupported_claims": ["x"]}', usd: 0.002}, {ask: correctness, raw: "none", usd: 0.001}]} => {is_judged: true, groundedness_n: 1, correctness_n: 0, inconsistent_n: 1, judge_cost: 0.003}
--   - {judgements: [{ask: correctness, raw: '{"score": 5}'}, {ask: correctness, judge: b, purpose: spot_check, raw: '{"score": 3}'}]} => {spot_check_n: 1, spot_check_pairs: 1, n_disagreeing: 1, disagreement_rate: 1}
--   - {hits: [a]} => {is_judged: false, groundedness_n: 0, spot_check_n: 0, disagreement_rate: null}
with judged_runs as (
    select
        run_key,
        bool_or(ask = 'groundedness') as has_groundedness,
        bool_or(ask = 'correctness') as has_correctness
    from facts.verdicts
    where status <> 'skipped'
    group by run_key
),

judged as (
    select
        run_key,
        query_key,
        count(*) as n_judgements,
        max(score) filter (where ask = 'groundedness') as groundedness_score,
        max(n_unsupported) filter (where ask = 'groundedness') as n_unsupported,
        max(score) filter (where ask = 'correctness') as correctness_score
    from facts.verdicts
    where status <> 'skipped'
    group by run_key, query_key
),

-- Once a run has judgements for an ask, they alone score it.
scored as (
    select
        outcomes.run_key,
        outcomes.query_key,
        outcomes.is_error,
        judged.n_judgements,
        judged_runs.has_groundedness,
        judged.n_unsupported,
        case
            when judged_runs.has_groundedness then judged.groundedness_score else outcomes.groundedness_score
        end as groundedness_score,
        case
            when judged_runs.has_correctness then judged.correctness_score else outcomes.correctness_score
        end as correctness_score
    from facts.outcomes as outcomes
    left join judged_runs on outcomes.run_key = judged_runs.run_key
    left join judged on outcomes.run_key = judged.run_key and outcomes.query_key = judged.query_key
),

verdicts as (
    select
        results.run_key,
        bool_or(
            results.judge_groundedness is not null
            or results.supported_claims is not null
            or results.unsupported_claims is not null
            or results.judge_correctness is not null
            or results.judge_reasoning_key is not null
            or results.judge_abstained is not null
            or results.judge_acknowledged is not null
            or results.judge_prompt_tokens is not null
            or results.judge_completion_tokens is not null
            or results.judge_input_key is not null
            or results.judge_scores_delivered is not null
            or scored.n_judgements is not null
        ) as is_judged,
        count(scored.groundedness_score) filter (where not scored.is_error) as groundedness_n,
        count(scored.correctness_score) filter (where not scored.is_error) as correctness_n,
        count(*) filter (
            where scored.groundedness_score = 5
            and not scored.is_error
            and case
                when scored.has_groundedness then scored.n_unsupported else len(results.unsupported_claims)
            end > 0
        ) as inconsistent_n
    from scored
    inner join raw.results as results
        on scored.run_key = results.run_key and scored.query_key = results.query_key
    group by results.run_key
),

tokens as (
    select
        run_key,
        exact_list_sum(list(judge_prompt_tokens order by judge_prompt_tokens)) as n_prompt,
        exact_list_sum(list(judge_completion_tokens order by judge_completion_tokens)) as n_completion
    from metrics.judge_usage
    group by run_key
),

costs as (
    select
        run_key,
        exact_list_sum(list(usd order by usd)) as usd
    from (
        select
            run_key,
            case when from_cache then 0 else usd end as usd
        from raw.judgements
        where status <> 'skipped'
    ) as asked
    group by run_key
),

pairs as (
    select
        run_key,
        count(distinct case when check_no < 0 then query_key else -1 - check_no end) filter (where is_comparable) as spot_check_n,
        count(*) filter (where is_comparable) as spot_check_pairs,
        count(*) filter (where disagrees) as n_disagreeing
    from facts.spot_checks
    group by run_key
)

select
    runs.run_key,
    coalesce(verdicts.is_judged, false) as is_judged,
    coalesce(verdicts.groundedness_n, 0) as groundedness_n,
    coalesce(verdicts.correctness_n, 0) as correctness_n,
    coalesce(verdicts.inconsistent_n, 0) as inconsistent_n,
    coalesce(tokens.n_prompt, 0) + coalesce(tokens.n_completion, 0) as judge_tokens,
    rounded_by(
        case
            when costs.usd is not null then costs.usd
            when tokens.n_prompt is null then tokens.n_completion / 1000 * runs.judge_price_completion
            when tokens.n_completion is null then tokens.n_prompt / 1000 * runs.judge_price_prompt
            else
                tokens.n_prompt / 1000 * runs.judge_price_prompt
                + tokens.n_completion / 1000 * runs.judge_price_completion
        end,
        $rounding
    ) as judge_cost,
    coalesce(pairs.spot_check_n, 0) as spot_check_n,
    coalesce(pairs.spot_check_pairs, 0) as spot_check_pairs,
    coalesce(pairs.n_disagreeing, 0) as n_disagreeing,
    rounded_by(pairs.n_disagreeing / nullif(cast(pairs.spot_check_pairs as double), 0), $rounding) as disagreement_rate
from raw.runs as runs
left join verdicts on runs.run_key = verdicts.run_key
left join tokens on runs.run_key = tokens.run_key
left join costs on runs.run_key = costs.run_key
left join pairs on runs.run_key = pairs.run_key
