-- keys:
--   "hit@${k}_span": "Whether one of the first ${k} hits covers enough of a labelled span"
-- about: "Does one of the first hits hold the text that was asked for, whichever chunker cut it?"
-- family: retrieval
-- headline: []
-- slices: false
-- version: 2
-- parameters: {ks: [1, 3, 5, 10], retrieval_error: zero}
-- choices: {retrieval_error: [zero, exclude]}
-- applies: n_spans > 0 and has_spans and ($retrieval_error = 'zero' or not is_error)
-- scale: binary
-- range: [0, 1]
-- direction: higher
-- aggregate: mean
-- why: docs/decisions.md#g-5
-- examples:
--   - {ground_truth_spans: [{doc_id: d, start: 0, end: 10}], hits: [x, {doc_id: d, source_spans: [{start: 5, end: 90}]}]} => {"hit@1_span": 0, "hit@3_span": 1}
--   - {ground_truth_spans: [{doc_id: d, start: 0, end: 10}], hits: [{doc_id: d, source_spans: [{start: 6, end: 90}]}]} => {"hit@10_span": 0}
--   - {ground_truth_spans: [{doc_id: d, start: 0, end: 10}], hits: [{doc_id: d, source_spans: [{start: 6, end: 90}]}], parameters: {share: 0.4}} => {"hit@10_span": 1}
--   - {hits: [{doc_id: d, source_spans: [{start: 0, end: 9}]}]} => {"hit@10_span": null}
--   - {ground_truth_spans: [{doc_id: d, start: 0, end: 10}], hits: [], error: "late"} => {"hit@10_span": 0}
--   - {ground_truth_spans: [{doc_id: d, start: 0, end: 10}], hits: [], error: "late", parameters: {retrieval_error: exclude}} => {"hit@10_span": null}
select
    ranks.run_key,
    ranks.query_key,
    cast(coalesce(first_rank <= $k, false) as double) as "hit@${k}_span",
from facts.span_ranks as ranks
inner join facts.run_fields as fields on ranks.run_key = fields.run_key
