-- keys:
--   span_recall: "Share of the labelled characters that the hits cover"
--   span_precision: "Share of the characters the hits cover that are labelled; 0 when they cover none"
--   span_iou: "Characters both cover over characters either covers"
-- about: "How much of the text that was found is the text that was meant, across chunkers too?"
-- family: spans
-- headline: span_iou
-- version: 2
-- parameters: {retrieval_error: zero}
-- choices: {retrieval_error: [zero, exclude]}
-- applies: retrieved_chars is not null and has_spans and ($retrieval_error = 'zero' or not is_error)
-- undefined: recall 1 without a labelled character, precision 0 without a retrieved one, iou 1 without either
-- scale: fraction
-- range: [0, 1]
-- direction: higher
-- aggregate: mean
-- why: docs/decisions.md#a0-6
-- examples:
--   - {ground_truth_spans: [{doc_id: d, start: 0, end: 100}], hits: [{doc_id: d, source_spans: [{start: 50, end: 150}]}]} => {span_recall: 0.5, span_precision: 0.5, span_iou: 0.3333333333333333}
--   - {ground_truth_spans: [{doc_id: d, start: 0, end: 50}], hits: [{doc_id: d, source_spans: [{start: 0, end: 50}, {start: 50, end: 100}]}]} => {span_recall: 1, span_precision: 0.5, span_iou: 0.5}
--   - {ground_truth_spans: [{doc_id: d, start: 0, end: 50}], hits: [{doc_id: e, source_spans: [{start: 0, end: 50}]}]} => {span_recall: 0, span_precision: 0, span_iou: 0}
--   - {ground_truth_spans: [{doc_id: d, start: 0, end: 50}], hits: []} => {span_recall: 0, span_precision: 0, span_iou: 0}
--   - {ground_truth_spans: [{doc_id: d, start: 0, end: 50}], hits: [d]} => {span_recall: null, span_precision: null, span_iou: null}
--   - {ground_truth_spans: [{doc_id: d, start: 7, end: 7}], hits: []} => {span_recall: 1, span_precision: 0, span_iou: 1}
--   - {ground_truth_spans: [], hits: [{doc_id: d, source_spans: [{start: 0, end: 50}]}]} => {span_recall: null, span_precision: null, span_iou: null}
--   - {ground_truth_spans: [], hits: [], parameters: {s0_vacuous: include}} => {span_recall: 1, span_precision: 0, span_iou: 1}
--   - {ground_truth_spans: [{doc_id: d, start: 0, end: 50}], error: "late", parameters: {retrieval_error: exclude}} => {span_recall: null}

-- This is what runs store. Its reference in Python, held equal by the tests: eval_pipeline/metrics/spans.py.
select
    cover.run_key,
    cover.query_key,
    coalesce(shared_chars / nullif(cast(expected_chars as double), 0), 1) as span_recall,
    coalesce(shared_chars / nullif(cast(retrieved_chars as double), 0), 0) as span_precision,
    coalesce(
        shared_chars / nullif(cast(expected_chars + retrieved_chars - shared_chars as double), 0),
        1
    ) as span_iou
from facts.span_cover as cover
inner join facts.run_fields as fields on cover.run_key = fields.run_key
