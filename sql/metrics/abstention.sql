-- keys: {abstention_accuracy: "Whether an unanswerable question was left unanswered"}
-- about: "Are questions left alone that nothing in the corpus answers?"
-- family: refusal
-- headline: abstention_accuracy
-- version: 1
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
select
    outcomes.run_key,
    outcomes.query_key,
    cast(outcomes.is_abstained as double) as abstention_accuracy
from facts.outcomes as outcomes
inner join labels.answerable as answerable on outcomes.query_key = answerable.query_key
