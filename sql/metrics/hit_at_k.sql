-- keys:
--   "hit@${k}": "Whether an expected chunk is among the first ${k} hits"
-- about: "Does what the answer needs stand among the first hits?"
-- family: retrieval
-- headline: "hit@5"
-- version: 1
-- parameters: {ks: [1, 3, 5, 10], retrieval_error: zero}
-- choices: {retrieval_error: [zero, exclude]}
-- applies: n_expected > 0 and ($retrieval_error = 'zero' or not is_error)
-- scale: binary
-- range: [0, 1]
-- direction: higher
-- aggregate: mean
-- why: docs/decisions.md#ax-2
-- examples:
--   - {expected_chunk_ids: [a], hits: [x, a]} => {"hit@1": 0, "hit@3": 1, "hit@5": 1, "hit@10": 1}
--   - {expected_chunk_ids: [a], hits: []} => {"hit@10": 0}
--   - {expected_chunk_ids: [], hits: [a]} => {"hit@1": null, "hit@10": null}
--   - {hits: [a]} => {"hit@1": null}
--   - {expected_chunk_ids: [a], error: "late", parameters: {retrieval_error: exclude}} => {"hit@10": null}
--   - {expected_chunk_ids: [b], hits: [a, a, a, b], parameters: {dedupe_hits: true}} => {"hit@1": 0, "hit@3": 1}
select
    run_key,
    query_key,
    cast(coalesce(first_rank <= $k, false) as double) as "hit@$k",
from facts.chunk_ranks
