-- keys:
--   names_documents: "Whether hits can be compared with expected documents; true for a run without hits"
--   has_spans: "Whether a hit carries a span; true for a run without hits"
--   says_grounded: "Whether an answer says if it is grounded; true for a run without answers"
--   has_references: "Whether an answer has references; true for a run in which every result failed"
-- grain: [run_key]
-- about: "Which optional fields the hits and answers of a run carry."
-- version: 1
-- why: docs/decisions.md#ax-11
-- examples:
--   - {hits: [], expected_doc_ids: [d]} => {names_documents: true, has_spans: true, says_grounded: true, has_references: false}
--   - {error: "no connection"} => {has_references: true}
--   - {answer: {references: [{rel_path: a.md}]}} => {has_references: true}
--   - {hits: [{chunk_id: a, doc_id: d, source_spans: [{start: 0, end: 3}]}], expected_doc_ids: [e], answer: {grounded: false}} => {names_documents: true, has_spans: true, says_grounded: true}
--   - {hits: [a], expected_chunk_ids: [a], expected_doc_ids: [a], answer: {text: x}} => {names_documents: false, has_spans: false, says_grounded: false}
--   - {hits: [a], expected_chunk_ids: [a], expected_doc_ids: [d]} => {names_documents: false}
--   - {hits: [d], expected_chunk_ids: [a], expected_doc_ids: [d]} => {names_documents: true}
--   - {hits: [x], expected_doc_ids: [d]} => {names_documents: true}
--   - {hits: [{chunk_id: a, doc_id: d}], expected_chunk_ids: [a], expected_doc_ids: [a]} => {names_documents: false}
--   - {hits: [{chunk_id: a, doc_id: d}], expected_chunk_ids: [d], expected_doc_ids: [d]} => {names_documents: true}

-- A bare id stands for the chunk and for the document of a hit. Such ids are compared with expected documents if the
-- labels expect no chunks, or if one of them is an expected document and not an expected chunk.
with bare_ids as (
    select
        chunks.chunk_key,
        documents.doc_key
    from raw.chunk_ids as chunks
    inner join raw.doc_ids as documents on chunks.chunk_id = documents.doc_id
),

expected as (
    select
        items.doc_key,
        bool_or(chunks.chunk_key is not null) as is_chunk
    from labels.expected_documents as items
    left join bare_ids on items.doc_key = bare_ids.doc_key
    left join labels.expected_chunks as chunks on bare_ids.chunk_key = chunks.chunk_key
    group by items.doc_key
),

labelled as (
    select
        coalesce((select bool_or(not expected.is_chunk) from expected), false) as has_documents,
        exists (select 1 from labels.expected_chunks) as has_chunks
),

named as (
    select
        hits.run_key,
        bool_or(bare_ids.doc_key is null) as has_documents,
        bool_or(expected.doc_key is not null and (bare_ids.doc_key is null or not expected.is_chunk)) as has_expected
    from raw.hits as hits
    left join bare_ids on hits.chunk_key = bare_ids.chunk_key and hits.doc_key = bare_ids.doc_key
    left join expected on hits.doc_key = expected.doc_key
    group by hits.run_key
),

spanned as (
    select distinct run_key
    from raw.hit_spans
),

referred as (
    select distinct run_key
    from raw."references"
),

answered as (
    select
        run_key,
        bool_or(grounded is not null) filter (where has_answer) as says_grounded,
        bool_and(is_failed(error, timed_out)) as has_failed
    from raw.results
    group by run_key
)

select
    answered.run_key,
    coalesce(
        named.has_expected
        or (named.has_documents and labelled.has_documents)
        or (not named.has_documents and not labelled.has_chunks),
        true
    ) as names_documents,
    named.run_key is null or spanned.run_key is not null as has_spans,
    coalesce(answered.says_grounded, true) as says_grounded,
    referred.run_key is not null or answered.has_failed as has_references
from answered
cross join labelled
left join named on answered.run_key = named.run_key
left join spanned on answered.run_key = spanned.run_key
left join referred on answered.run_key = referred.run_key
