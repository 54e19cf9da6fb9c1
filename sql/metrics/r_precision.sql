-- keys: {rprec: "Share of relevant ids among as many hits as there are relevant ids"}
-- about: "Of as many hits as there are relevant passages, how many are relevant?"
-- family: retrieval
-- headline: []
-- slices: false
-- version: 1
-- parameters: {retrieval_error: zero}
-- choices: {retrieval_error: [zero, exclude]}
-- applies: n_relevant > 0 and ($retrieval_error = 'zero' or not is_error)
-- scale: fraction
-- range: [0, 1]
-- direction: higher
-- aggregate: mean
-- why: docs/decisions.md#g-4
-- examples:
--   - {grades: {a: 1, b: 2}, hits: [a, x, b]} => {rprec: 0.5}
--   - {expected_chunk_ids: [a], hits: [a]} => {rprec: 1}
--   - {expected_chunk_ids: [], hits: [a]} => {rprec: null}
--   - {grades: {a: 1}, error: "late"} => {rprec: 0}
--   - {grades: {a: 1}, error: "late", parameters: {retrieval_error: exclude}} => {rprec: null}
select
    run_key,
    query_key,
    count_within(relevant_ranks, n_relevant) / nullif(cast(n_relevant as double), 0) as rprec
from facts.graded_ranks
