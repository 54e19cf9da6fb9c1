-- keys:
--   n_citations: "How many citations the answer carries"
--   n_resolved: "How many of them name a chunk of any archive ever loaded for the dataset"
--   has_archive: "Whether any chunk archive was ever loaded for the dataset"
-- version: 1
-- why: docs/decisions.md#a3-6
-- examples:
--   - {answer: {citations: [{citation: a}, {citation: null}]}, archive: [a]} => {n_citations: 2, n_resolved: 1, has_archive: true}
--   - {answer: {citations: [{citation: a}]}} => {n_citations: 1, n_resolved: 0, has_archive: false}
with known_chunks as (
    select distinct chunk_key from raw.archive_chunks
),

cited as (
    select
        citations.run_key,
        citations.query_key,
        count(*) as n_citations,
        count(known_chunks.chunk_key) as n_resolved
    from raw.citations as citations
    left join known_chunks on citations.chunk_key = known_chunks.chunk_key
    group by citations.run_key, citations.query_key
)

select
    results.run_key,
    results.query_key,
    coalesce(cited.n_citations, 0) as n_citations,
    coalesce(cited.n_resolved, 0) as n_resolved,
    exists (select archives.archive_key from raw.archives as archives) as has_archive
from raw.results as results
inner join labels.queries as queries on results.query_key = queries.query_key
left join cited on results.run_key = cited.run_key and results.query_key = cited.query_key
