-- keys:
--   "precision@${k}_chunk": "Share of the first ${k} places that hold a relevant id, each id once"
-- about: "How many of the first places hold something relevant?"
-- family: retrieval
-- headline: []
-- slices: false
-- version: 1
-- parameters: {ks: [1, 3, 5, 10], retrieval_error: zero}
-- choices: {retrieval_error: [zero, exclude]}
-- applies: n_relevant > 0 and ($retrieval_error = 'zero' or not is_error)
-- scale: fraction
-- range: [0, 1]
-- direction: higher
-- aggregate: mean
-- why: docs/decisions.md#g-4
-- examples:
--   - {grades: {a: 1, b: 2}, hits: [a, x, b]} => {"precision@1_chunk": 1, "precision@5_chunk": 0.4}
--   - {expected_chunk_ids: [a], hits: [a, a]} => {"precision@10_chunk": 0.1}
--   - {grades: {a: 0}, hits: [a]} => {"precision@10_chunk": null}
--   - {grades: {a: 1}, timed_out: true} => {"precision@10_chunk": 0}
--   - {grades: {a: 1}, timed_out: true, parameters: {retrieval_error: exclude}} => {"precision@10_chunk": null}
select
    run_key,
    query_key,
    count_within(relevant_ranks, $k) / nullif(cast($k as double), 0) as "precision@${k}_chunk",
from facts.graded_ranks
