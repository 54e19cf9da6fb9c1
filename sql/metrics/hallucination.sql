-- keys: {hallucination_rate_unanswerable: "Whether an unanswerable question was answered all the same"}
-- about: "How often is an answer made up for a question without one? The complement of abstention_accuracy."
-- family: refusal
-- headline: []
-- version: 1
-- applies: not answerable and not is_error and is_abstained is not null
-- scale: binary
-- range: [0, 1]
-- direction: lower
-- aggregate: mean
-- why: docs/decisions.md#a2-16
-- examples:
--   - {answerable: false, answer: {abstained: true}} => {hallucination_rate_unanswerable: 0}
--   - {answerable: false, answer: {text: "It is 7.", abstained: false}} => {hallucination_rate_unanswerable: 1}
--   - {expected_doc_ids: [], answer: {text: "No idea"}, judge: {abstention: {abstained: true}}} => {hallucination_rate_unanswerable: 0}
--   - {answerable: false, answer: {text: "No idea"}} => {hallucination_rate_unanswerable: null}
--   - {answerable: false, answer: {abstained: true}, error: "late"} => {hallucination_rate_unanswerable: null}
--   - {answerable: true, expected_doc_ids: [], answer: {abstained: true}} => {hallucination_rate_unanswerable: null}
select
    outcomes.run_key,
    outcomes.query_key,
    cast(not outcomes.is_abstained as double) as hallucination_rate_unanswerable
from facts.outcomes as outcomes
inner join labels.answerable as answerable on outcomes.query_key = answerable.query_key
