-- keys: {refusal_correctness: "Whether a query that should be refused got an answer that claims no grounds"}
-- about: "Are questions refused that should be refused?"
-- family: refusal
-- headline: refusal_correctness
-- version: 2
-- parameters: {refusal_no_answer: exclude}
-- choices: {refusal_no_answer: [exclude, zero]}
-- applies: n_expected = 0 and says_grounded and ((has_answer and not is_error) or $refusal_no_answer = 'zero')
-- undefined: 0 when the answer does not say whether it is grounded, and another answer of the run does
-- scale: binary
-- range: [0, 1]
-- direction: higher
-- aggregate: mean
-- why: docs/decisions.md#a3-10
-- examples:
--   - {expected_doc_ids: [], answer: {grounded: false}} => {refusal_correctness: 1}
--   - {expected_doc_ids: [], answer: {grounded: true}} => {refusal_correctness: 0}
--   - {expected_doc_ids: [], answer: {text: "no"}} => {refusal_correctness: null}
--   - {expected_doc_ids: [], hits: [a]} => {refusal_correctness: null}
--   - {expected_doc_ids: [a], answer: {grounded: false}} => {refusal_correctness: null}
--   - {expected_doc_ids: [], hits: [a], parameters: {refusal_no_answer: zero}} => {refusal_correctness: 0}
select
    outcomes.run_key,
    outcomes.query_key,
    cast(
        outcomes.has_answer and not outcomes.is_error and coalesce(not outcomes.is_grounded, false) as double
    ) as refusal_correctness
from facts.outcomes as outcomes
inner join facts.run_fields as fields on outcomes.run_key = fields.run_key
left join labels.expected_document_counts as counts on outcomes.query_key = counts.query_key
