-- keys:
--   chunk_recall: "Share of the expected chunks among all retrieved ones"
--   chunk_precision: "Share of the retrieved chunks that are expected; 0 when nothing was retrieved"
--   chunk_f1: "Harmonic mean of the two; 0 when both are 0"
-- about: "How well do the retrieved chunks agree with the expected ones, whatever their order?"
-- family: retrieval
-- headline: chunk_f1
-- version: 1
-- parameters: {s0_vacuous: exclude, retrieval_error: zero}
-- choices:
--   s0_vacuous: [exclude, include]
--   retrieval_error: [zero, exclude]
-- applies: (n_expected > 0 or $s0_vacuous = 'include') and ($retrieval_error = 'zero' or not is_error)
-- undefined: recall 1 when nothing is expected, precision 0 when nothing was retrieved, f1 0 when both are 0
-- scale: fraction
-- range: [0, 1]
-- direction: higher
-- aggregate: mean
-- why: docs/decisions.md#a0-6
-- examples:
--   - {expected_chunk_ids: [a, c], hits: [a, b]} => {chunk_recall: 0.5, chunk_precision: 0.5, chunk_f1: 0.5}
--   - {expected_chunk_ids: [a], hits: [a, b, c, d]} => {chunk_recall: 1, chunk_precision: 0.25, chunk_f1: 0.4}
--   - {expected_chunk_ids: [a], hits: []} => {chunk_recall: 0, chunk_precision: 0, chunk_f1: 0}
--   - {expected_chunk_ids: [], hits: [a]} => {chunk_recall: null, chunk_precision: null, chunk_f1: null}
--   - {expected_chunk_ids: [], hits: [a], parameters: {s0_vacuous: include}} => {chunk_recall: 1, chunk_precision: 0, chunk_f1: 0}
--   - {expected_chunk_ids: [a], hits: [a], error: "late", parameters: {retrieval_error: exclude}} => {chunk_recall: null}

-- This is what runs store. Its reference in Python, held equal by the tests: eval_pipeline/metrics/chunks.py.
with overlap as (
    select
        ranks.run_key,
        ranks.query_key,
        ranks.n_expected,
        ranks.is_error,
        coalesce(len(ranks.found_ranks) / nullif(cast(ranks.n_expected as double), 0), 1) as recall,
        coalesce(len(ranks.found_ranks) / nullif(cast(retrieved.n_retrieved as double), 0), 0) as precision_or_zero
    from facts.chunk_ranks as ranks
    inner join facts.retrieved_chunks as retrieved
        on ranks.run_key = retrieved.run_key and ranks.query_key = retrieved.query_key
)

select
    run_key,
    query_key,
    recall as chunk_recall,
    precision_or_zero as chunk_precision,
    coalesce(2 * precision_or_zero * recall / nullif(precision_or_zero + recall, 0), 0) as chunk_f1
from overlap
