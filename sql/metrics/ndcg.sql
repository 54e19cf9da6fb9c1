-- keys:
--   "ndcg@${k}": "Discounted gain of the first ${k} hits, as a share of that of the best possible order"
-- about: "How close do the first hits come to the best order of what is labelled?"
-- family: retrieval
-- headline: []
-- slices: false
-- version: 1
-- parameters: {ks: [1, 3, 5, 10], gain: linear, retrieval_error: zero}
-- choices:
--   gain: [linear, exponential]
--   retrieval_error: [zero, exclude]
-- applies: len(best_grades) > 0 and ($retrieval_error = 'zero' or not is_error)
-- scale: fraction
-- range: [0, 1]
-- direction: higher
-- aggregate: mean
-- why: docs/decisions.md#g-4
-- examples:
--   - {grades: {a: 3, b: 1}, hits: [a, b]} => {"ndcg@1": 1, "ndcg@10": 1}
--   - {grades: {a: 3}, hits: [x, y, a]} => {"ndcg@1": 0, "ndcg@3": 0.5, "ndcg@10": 0.5}
--   - {grades: {a: 3, b: 1}, hits: [b, x]} => {"ndcg@1": 0.3333333333333333}
--   - {grades: {a: 2, b: 1}, hits: [b], parameters: {gain: exponential}} => {"ndcg@1": 0.3333333333333333}
--   - {expected_chunk_ids: [a], hits: [x, x, a]} => {"ndcg@3": 0.5}
--   - {grades: {a: 0, b: -2}, hits: [a]} => {"ndcg@10": null}
--   - {expected_chunk_ids: [a], expected_doc_ids: [], hits: [a]} => {"ndcg@10": null}
--   - {grades: {a: 1}, timed_out: true} => {"ndcg@10": 0}
--   - {grades: {a: 1}, timed_out: true, parameters: {retrieval_error: exclude}} => {"ndcg@10": null}
with best as (
    select
        run_key,
        query_key,
        gain_grades,
        gain_ranks,
        best_grades,
        range(1, len(best_grades) + 1) as best_ranks,
        is_error
    from facts.graded_ranks
)

select
    run_key,
    query_key,
    discounted_gain(gain_grades, gain_ranks, $k, $gain) / nullif(discounted_gain(best_grades, best_ranks, $k, $gain), 0) as "ndcg@${k}",
from best
