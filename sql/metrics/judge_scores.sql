-- keys:
--   judge_groundedness: "The judge's score of how far the answer's claims are supported, from 0 to 5; at most 4 for an answer without a citation"
--   judge_correctness: "The judge's score of how correct the answer is, from 0 to 5"
-- about: "What does the judge say of the answer?"
-- family: answers
-- headline: [judge_correctness, judge_groundedness]
-- version: 2
-- applies: not is_error
-- undefined: null for a score that is no number from 0 to 5
-- scale: ordinal
-- range: [0, 5]
-- direction: higher
-- aggregate: mean
-- why: docs/decisions.md#a2-12
-- examples:
--   - {answer: {text: x}, judge: {groundedness: {score: 4}, correctness: {score: 2.5}}} => {judge_groundedness: 4, judge_correctness: 2.5}
--   - {answer: {text: x}, judge: {groundedness: {score: 5}}} => {judge_groundedness: 4}
--   - {answer: {text: x, citations: [{citation: a}]}, judge: {groundedness: {score: 5}}} => {judge_groundedness: 5}
--   - {answer: {text: x, references: [{rel_path: a.md}]}, judge: {groundedness: {score: 5}}} => {judge_groundedness: 5}
--   - {answer: {text: x}, judgements: [{ask: groundedness, raw: '{"score": 5, "supported_claims": [{"claim": "c", "citations": [1]}]}'}]} => {judge_groundedness: 5}
--   - {answer: {text: x}, judge: {groundedness: {score: 0}}} => {judge_groundedness: 0, judge_correctness: null}
--   - {answer: {text: x}, judge: {groundedness: {score: "4"}, correctness: {score: 5.1}}} => {judge_groundedness: null, judge_correctness: null}
--   - {answer: {text: x, abstained: true}, judge: {groundedness: {score: 5}}} => {judge_groundedness: 5}
--   - {error: "late", judge: {groundedness: {score: 4}, correctness: {score: 4}}} => {judge_groundedness: null, judge_correctness: null}
--   - {judge: {groundedness: {score: 4}, correctness: {score: 2}}, judgements: [{ask: groundedness, raw: '{"score": 1}'}]} => {judge_groundedness: 1, judge_correctness: 2}
--   - {judge: {groundedness: {score: 4}}, judgements: [{ask: groundedness, raw: "I cannot say"}]} => {judge_groundedness: null}
--   - {judge: {groundedness: {score: 4}}, judgements: [{ask: groundedness, status: skipped}]} => {judge_groundedness: 4}
--   - {judge: {groundedness: {score: 4}}, judgements: [{query_id: another, ask: groundedness, raw: '{"score": 1}'}]} => {judge_groundedness: null}

-- Once a run has judgements for an ask, they alone score it: a row without one has no score.
with judged as (
    select
        run_key,
        bool_or(ask = 'groundedness') as has_groundedness,
        bool_or(ask = 'correctness') as has_correctness
    from facts.verdicts
    where status <> 'skipped'
    group by run_key
),

-- A 5 requires citations: of the answer, or of the contexts that the judge lists for a supported claim.
cited as (
    select
        run_key,
        query_key
    from raw.citations
    union
    select
        run_key,
        query_key
    from raw."references"
),

grounded as (
    select
        outcomes.run_key,
        outcomes.query_key,
        case when judged.has_groundedness then verdicts.score else outcomes.groundedness_score end as score,
        outcomes.has_answer
        and not coalesce(outcomes.is_abstained, false)
        and coalesce(verdicts.n_cited, 0) = 0
        and cited.run_key is null as is_uncited
    from facts.outcomes as outcomes
    left join judged on outcomes.run_key = judged.run_key
    left join facts.verdicts as verdicts
        on
            outcomes.run_key = verdicts.run_key
            and outcomes.query_key = verdicts.query_key
            and verdicts.ask = 'groundedness'
    left join cited on outcomes.run_key = cited.run_key and outcomes.query_key = cited.query_key
)

select
    outcomes.run_key,
    outcomes.query_key,
    case when grounded.is_uncited and grounded.score > 4 then 4 else grounded.score end as judge_groundedness,
    case when judged.has_correctness then correct.score else outcomes.correctness_score end as judge_correctness
from facts.outcomes as outcomes
inner join grounded on outcomes.run_key = grounded.run_key and outcomes.query_key = grounded.query_key
left join judged on outcomes.run_key = judged.run_key
left join facts.verdicts as correct
    on
        outcomes.run_key = correct.run_key
        and outcomes.query_key = correct.query_key
        and correct.ask = 'correctness'
