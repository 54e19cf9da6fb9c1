-- keys: {abstention_accuracy: "Whether an unanswerable question was left unanswered"}
-- about: "Are questions left alone that nothing in the corpus answers?"
-- family: refusal
-- headline: abstention_accuracy
-- version: 2
-- applies: not answerable and not is_error and is_abstained is not null
-- scale: binary
-- range: [0, 1]
-- direction: higher
-- aggregate: mean
-- why: docs/decisions.md#a2-15
-- examples:
--   - {answerable: false, answer: {abstained: true}} => {abstention_accuracy: 1}
--   - {answerable: false, answer: {text: "It is 7.", abstained: false}} => {abstention_accuracy: 0}
--   - {expected_doc_ids: [], answer: {text: "No idea"}, judge: {abstention: {abstained: true}}} => {abstention_accuracy: 1}
--   - {answerable: false, answer: {text: "No idea"}} => {abstention_accuracy: null}
--   - {answerable: false, answer: {abstained: true}, error: "late"} => {abstention_accuracy: null}
--   - {answerable: true, expected_doc_ids: [], answer: {abstained: true}} => {abstention_accuracy: null}
--   - {answerable: false, answer: {text: "No idea"}, judgements: [{ask: abstention, raw: '{"abstained": true}'}]} => {abstention_accuracy: 1}
--   - {answerable: false, answer: {text: "No idea", abstained: true}, judgements: [{ask: abstention, raw: '{"abstained": false}'}]} => {abstention_accuracy: 1}

-- The answer's own statement, else the judgement. A delivered verdict counts only in a run without such judgements.
with judged_runs as (
    select distinct run_key
    from facts.verdicts
    where ask = 'abstention' and status <> 'skipped'
),

said as (
    select
        outcomes.run_key,
        outcomes.query_key,
        outcomes.is_error,
        case
            when results.abstained is not null or judged_runs.run_key is null then outcomes.is_abstained
            else judged.verdict
        end as is_abstained
    from facts.outcomes as outcomes
    inner join raw.results as results
        on outcomes.run_key = results.run_key and outcomes.query_key = results.query_key
    left join judged_runs on outcomes.run_key = judged_runs.run_key
    left join facts.verdicts as judged
        on
            outcomes.run_key = judged.run_key
            and outcomes.query_key = judged.query_key
            and judged.ask = 'abstention'
)

select
    said.run_key,
    said.query_key,
    cast(said.is_abstained as double) as abstention_accuracy
from said
inner join labels.answerable as answerable on said.query_key = answerable.query_key
