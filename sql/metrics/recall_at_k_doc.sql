-- keys:
--   "recall@${k}_doc": "Share of the expected documents that the first ${k} hits come from"
-- about: "How many of the expected documents do the first hits come from?"
-- family: retrieval
-- headline: "recall@5_doc"
-- version: 2
-- parameters: {ks: [1, 3, 5, 10], retrieval_error: zero}
-- choices: {retrieval_error: [zero, exclude]}
-- applies: n_expected > 0 and names_documents and ($retrieval_error = 'zero' or not is_error)
-- scale: fraction
-- range: [0, 1]
-- direction: higher
-- aggregate: mean
-- why: docs/decisions.md#a3-3
-- examples:
--   - {expected_doc_ids: [a, b], hits: [a, x, b]} => {"recall@1_doc": 0.5, "recall@3_doc": 1}
--   - {expected_doc_ids: [a, b], hits: [a, a, a]} => {"recall@3_doc": 0.5}
--   - {expected_doc_ids: [], hits: [a]} => {"recall@10_doc": null}
--   - {expected_doc_ids: [a], timed_out: true} => {"recall@10_doc": 0}
--   - {expected_doc_ids: [a], timed_out: true, parameters: {retrieval_error: exclude}} => {"recall@10_doc": null}
--   - {expected_chunk_ids: [a], expected_doc_ids: [a], hits: [a]} => {"recall@1_doc": null}
select
    ranks.run_key,
    ranks.query_key,
    count_within(ranks.found_ranks, $k) / nullif(cast(ranks.n_expected as double), 0) as "recall@${k}_doc",
from facts.document_ranks as ranks
inner join facts.run_documents as fields on ranks.run_key = fields.run_key
