-- keys: {mrr: "Reciprocal rank of the first expected chunk; its mean over queries is the MRR"}
-- about: "How far up does the first expected chunk stand?"
-- family: retrieval
-- headline: mrr
-- version: 1
-- parameters: {cutoff: 10, retrieval_error: zero}
-- choices: {retrieval_error: [zero, exclude]}
-- applies: n_expected > 0 and ($retrieval_error = 'zero' or not is_error)
-- undefined: 0 when no expected chunk is in the top ${cutoff}
-- scale: fraction
-- range: [0, 1]
-- direction: higher
-- aggregate: mean
-- why: docs/decisions.md#a2-10
-- examples:
--   - {expected_chunk_ids: [a], hits: [x, a]} => {mrr: 0.5}
--   - {expected_chunk_ids: [a], hits: [x]} => {mrr: 0}
--   - {expected_chunk_ids: [k], hits: [a, b, c, d, e, f, g, h, i, j, k]} => {mrr: 0}
--   - {expected_chunk_ids: []} => {mrr: null}
--   - {expected_chunk_ids: [a], error: "late", parameters: {retrieval_error: exclude}} => {mrr: null}
select
    run_key,
    query_key,
    case when first_rank <= $cutoff then cast(1 as double) / first_rank else 0 end as mrr
from facts.chunk_ranks
