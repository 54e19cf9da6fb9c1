-- keys:
--   judge_groundedness: "The judge's score of how far the answer's claims are supported, from 0 to 5"
--   judge_correctness: "The judge's score of how correct the answer is, from 0 to 5"
-- about: "What does the judge say of the answer?"
-- family: answers
-- headline: [judge_correctness, judge_groundedness]
-- version: 1
-- applies: not is_error
-- undefined: null for a score that is no number from 0 to 5
-- scale: ordinal
-- range: [0, 5]
-- direction: higher
-- aggregate: mean
-- why: docs/decisions.md#a2-12
-- examples:
--   - {answer: {text: x}, judge: {groundedness: {score: 4}, correctness: {score: 2.5}}} => {judge_groundedness: 4, judge_correctness: 2.5}
--   - {answer: {text: x}, judge: {groundedness: {score: 0}}} => {judge_groundedness: 0, judge_correctness: null}
--   - {answer: {text: x}, judge: {groundedness: {score: "4"}, correctness: {score: 5.1}}} => {judge_groundedness: null, judge_correctness: null}
--   - {answer: {text: x, abstained: true}, judge: {groundedness: {score: 5}}} => {judge_groundedness: 5}
--   - {error: "late", judge: {groundedness: {score: 4}, correctness: {score: 4}}} => {judge_groundedness: null, judge_correctness: null}
--   - {judge: {groundedness: {score: 4}, correctness: {score: 2}}, judgements: [{ask: groundedness, raw: '{"score": 1}'}]} => {judge_groundedness: 1, judge_correctness: 2}
--   - {judge: {groundedness: {score: 4}}, judgements: [{ask: groundedness, raw: "I cannot say"}]} => {judge_groundedness: null}

-- A judgement wins over what came with the result, also one without a score; one that was never asked is none.
select
    outcomes.run_key,
    outcomes.query_key,
    case
        when coalesce(grounded.status, 'skipped') = 'skipped' then outcomes.groundedness_score
        else grounded.score
    end as judge_groundedness,
    case
        when coalesce(correct.status, 'skipped') = 'skipped' then outcomes.correctness_score
        else correct.score
    end as judge_correctness
from facts.outcomes as outcomes
left join facts.verdicts as grounded
    on
        outcomes.run_key = grounded.run_key
        and outcomes.query_key = grounded.query_key
        and grounded.ask = 'groundedness'
left join facts.verdicts as correct
    on
        outcomes.run_key = correct.run_key
        and outcomes.query_key = correct.query_key
        and correct.ask = 'correctness'
