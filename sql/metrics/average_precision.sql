-- keys:
--   "ap@${k}": "Average precision over the first ${k} hits: the share of relevant ones down to each of them, over all that are relevant"
-- about: "How much of what is relevant stands among the first hits, and how far up?"
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
--   - {grades: {a: 1, b: 2}, hits: [a, x, x, b]} => {"ap@1": 0.5, "ap@3": 0.5, "ap@5": 0.75}
--   - {expected_chunk_ids: [a], hits: [x, a]} => {"ap@1": 0, "ap@10": 0.5}
--   - {grades: {a: 0}, hits: [a]} => {"ap@10": null}
--   - {grades: {a: 1}, error: "late"} => {"ap@10": 0}
--   - {grades: {a: 1}, error: "late", parameters: {retrieval_error: exclude}} => {"ap@10": null}
select
    run_key,
    query_key,
    summed_precision(relevant_ranks, $k) / nullif(cast(n_relevant as double), 0) as "ap@${k}",
from facts.graded_ranks
