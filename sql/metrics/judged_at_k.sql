-- keys:
--   "judged@${k}": "Share of the first ${k} hits that a label names, whatever its grade; of those there are, where there are fewer"
-- about: "Of how many of the first hits is it known whether they are relevant?"
-- family: retrieval
-- headline: []
-- slices: false
-- version: 1
-- parameters: {ks: [1, 3, 5, 10], retrieval_error: zero}
-- choices: {retrieval_error: [zero, exclude]}
-- applies: is_judged and n_hits > 0 and ($retrieval_error = 'zero' or not is_error)
-- scale: fraction
-- range: [0, 1]
-- direction: higher
-- aggregate: mean
-- why: docs/decisions.md#g-2
-- examples:
--   - {grades: {a: 1, b: 0}, hits: [b, x]} => {"judged@1": 1, "judged@3": 0.5}
--   - {grades: {a: 1}, hits: [a, a]} => {"judged@3": 0.5}
--   - {grades: {}, hits: [a]} => {"judged@3": 0}
--   - {grades: {a: 1}, hits: []} => {"judged@3": null}
--   - {expected_chunk_ids: [a], hits: [a]} => {"judged@3": null}
--   - {grades: {a: 1}, hits: [a], error: "late", parameters: {retrieval_error: exclude}} => {"judged@3": null}
select
    run_key,
    query_key,
    count_within(labelled_ranks, $k) / nullif(cast(least($k, n_hits) as double), 0) as "judged@${k}",
from facts.graded_ranks
