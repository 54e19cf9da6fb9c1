-- keys:
--   names_documents: "Whether hits can be compared with expected documents; true for a run without hits"
-- grain: [run_key]
-- about: "Whether the hits of a run name documents that the labels can name, too."
-- version: 1
-- why: docs/decisions.md#ax-11
-- examples:
--   - {hits: [], expected_doc_ids: [d]} => {names_documents: true}
--   - {hits: [{chunk_id: a, doc_id: d}], expected_doc_ids: [e]} => {names_documents: true}
--   - {hits: [a], expected_chunk_ids: [a], expected_doc_ids: [a]} => {names_documents: false}
--   - {hits: [a], expected_chunk_ids: [a], expected_doc_ids: [d]} => {names_documents: false}
--   - {hits: [d], expected_chunk_ids: [a], expected_doc_ids: [d]} => {names_documents: true}
--   - {hits: [x], expected_doc_ids: [d]} => {names_documents: true}
--   - {hits: [{chunk_id: a, doc_id: d}], expected_chunk_ids: [a], expected_doc_ids: [a]} => {names_documents: false}
--   - {hits: [{chunk_id: a, doc_id: d}], expected_chunk_ids: [d], expected_doc_ids: [d]} => {names_documents: true}

-- A bare id stands for the chunk and for the document of a hit. Such ids are compared with expected documents if one of
-- them is an expected document and not an expected chunk, or if the labels expect no chunks, also of another chunker.
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
        is_of_other_chunker or exists (select 1 from labels.expected_chunks) as has_chunks
    from labels.settings
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
)

select
    results.run_key,
    coalesce(
        bool_or(named.has_expected)
        or (bool_or(named.has_documents) and bool_or(labelled.has_documents))
        or (not bool_or(named.has_documents) and not bool_or(labelled.has_chunks)),
        true
    ) as names_documents
from raw.results as results
cross join labelled
left join named on results.run_key = named.run_key
group by results.run_key
