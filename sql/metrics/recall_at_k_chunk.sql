-- keys:
--   "recall@${k}_chunk": "Share of the relevant ids that are among the first ${k} hits"
-- about: "How much of what is relevant do the first hits hold?"
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
--   - {grades: {a: 1, b: 2}, hits: [a, x, b]} => {"recall@1_chunk": 0.5, "recall@3_chunk": 1}
--   - {grades: {a: 1, b: 2}, hits: [a, a, a]} => {"recall@3_chunk": 0.5}
--   - {expected_chunk_ids: [], hits: [a]} => {"recall@10_chunk": null}
--   - {grades: {a: 1}, timed_out: true} => {"recall@10_chunk": 0}
--   - {grades: {a: 1}, timed_out: true, parameters: {retrieval_error: exclude}} => {"recall@10_chunk": null}
select
    run_key,
    query_key,
    count_within(relevant_ranks, $k) / nullif(cast(n_relevant as double), 0) as "recall@${k}_chunk",
from facts.graded_ranks
