-- keys: {mrr_span: "Reciprocal rank of the first hit that covers enough of a labelled span; its mean over queries is the MRR"}
-- about: "How far up does the text that was asked for stand, whichever chunker cut it?"
-- family: retrieval
-- headline: []
-- slices: false
-- version: 2
-- parameters: {cutoff: 10, retrieval_error: zero}
-- choices: {retrieval_error: [zero, exclude]}
-- applies: n_spans > 0 and has_spans and ($retrieval_error = 'zero' or not is_error)
-- undefined: 0 when no such hit is in the top ${cutoff}
-- scale: fraction
-- range: [0, 1]
-- direction: higher
-- aggregate: mean
-- why: docs/decisions.md#g-5
-- examples:
--   - {ground_truth_spans: [{doc_id: d, start: 0, end: 10}], hits: [x, {doc_id: d, source_spans: [{start: 5, end: 90}]}]} => {mrr_span: 0.5}
--   - {ground_truth_spans: [{doc_id: d, start: 0, end: 10}], hits: [x, {doc_id: d, source_spans: [{start: 6, end: 90}]}]} => {mrr_span: 0}
--   - {ground_truth_spans: [{doc_id: d, start: 0, end: 10}], hits: [x, {doc_id: d, source_spans: [{start: 0, end: 90}]}], parameters: {cutoff: 1}} => {mrr_span: 0}
--   - {hits: [{doc_id: d, source_spans: [{start: 0, end: 9}]}]} => {mrr_span: null}
--   - {ground_truth_spans: [{doc_id: d, start: 0, end: 10}], hits: [], error: "late", parameters: {retrieval_error: exclude}} => {mrr_span: null}
select
    ranks.run_key,
    ranks.query_key,
    case when first_rank <= $cutoff then cast(1 as double) / first_rank else 0 end as mrr_span
from facts.span_ranks as ranks
inner join facts.run_fields as fields on ranks.run_key = fields.run_key
