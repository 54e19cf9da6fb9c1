-- keys:
--   n_citations: "How many citations the answer carries"
--   n_resolved: "How many of them name a chunk of an archive that was ever loaded for the dataset, or a document of such a chunk or of a hit"
--   n_unrecognized: "How many of them name neither a chunk nor a path"
--   has_archive: "Whether such an archive was ever loaded, or every citation names a document of a hit"
-- about: "How many citations of an answer name a chunk that exists."
-- version: 2
-- parameters: {citation_scope: any_version}
-- choices: {citation_scope: [any_version, run_version]}
-- why: docs/decisions.md#a3-6
-- examples:
--   - {answer: {citations: [{citation: a}, {citation: null}]}, archive: [a]} => {n_citations: 2, n_resolved: 1, has_archive: true}
--   - {answer: {citations: [{citation: a}]}} => {n_citations: 1, n_resolved: 0, has_archive: false}
--   - {answer: {citations: [{citation: a}]}, archive: []} => {n_citations: 1, n_resolved: 0, has_archive: true}
--   - {answer: {citations: [{citation: a}]}, archives: {old: [a], new: [b]}, config: {chunker_version: new}} => {n_citations: 1, n_resolved: 1, has_archive: true}
--   - {answer: {citations: [{citation: a}]}, archives: {old: [a], new: [b]}, config: {chunker_version: new}, parameters: {citation_scope: run_version}} => {n_citations: 1, n_resolved: 0, has_archive: true}
--   - {answer: {citations: [{citation: a}]}, archives: {old: [a]}, config: {chunker_version: new}, parameters: {citation_scope: run_version}} => {n_citations: 1, n_resolved: 0, has_archive: false}
--   - {answer: {citations: [{kind: line, path: a.md, start: 3, end: 9}, {path: b.md}]}, hits: [{chunk_id: a, doc_id: d, rel_path: a.md}], archive: [{chunk_id: b, doc_id: b.md}]} => {n_citations: 2, n_resolved: 2, n_unrecognized: 0}
--   - {answer: {citations: [{citation: {path: a.md}}]}, hits: [{chunk_id: a, doc_id: a.md}]} => {n_resolved: 1, has_archive: true}
--   - {answer: {citations: [{path: gone.md}, {url: "https://example.com"}]}, archive: [a]} => {n_citations: 2, n_resolved: 0, n_unrecognized: 1}

-- Under any_version all archives share the empty scope, so that a chunk counts once.
with scoped_archives as (
    select
        archive_key,
        case when $citation_scope = 'run_version' then chunker_version else '' end as scope
    from raw.archives
),

scoped_runs as (
    select
        run_key,
        case when $citation_scope = 'run_version' then chunker_version else '' end as scope
    from raw.runs
),

known_chunks as (
    select distinct
        scoped_archives.scope,
        chunks.chunk_key
    from raw.archive_chunks as chunks
    inner join scoped_archives on chunks.archive_key = scoped_archives.archive_key
),

cited_paths as (
    select distinct
        citations.run_key,
        scoped_runs.scope,
        citations.path
    from raw.citations as citations
    inner join scoped_runs on citations.run_key = scoped_runs.run_key
    where citations.path <> ''
),

retrieved_paths as (
    select distinct
        cited_paths.run_key,
        cited_paths.path
    from cited_paths
    inner join raw.hits as hits on cited_paths.run_key = hits.run_key
    left join raw.doc_ids as documents on hits.doc_key = documents.doc_key
    where cited_paths.path in (hits.rel_path, documents.doc_id)
),

archived_paths as (
    select distinct
        cited_paths.run_key,
        cited_paths.path
    from cited_paths
    inner join scoped_archives on cited_paths.scope = scoped_archives.scope
    inner join raw.archive_chunks as chunks on scoped_archives.archive_key = chunks.archive_key
    left join raw.doc_ids as documents on chunks.doc_key = documents.doc_key
    where cited_paths.path in (chunks.rel_path, documents.doc_id)
),

cited as (
    select
        citations.run_key,
        citations.query_key,
        count(*) as n_citations,
        count(coalesce(known_chunks.chunk_key, retrieved.run_key, archived_paths.run_key)) as n_resolved,
        count(retrieved.run_key) as n_retrieved,
        count(*) filter (where citations.path = '') as n_unrecognized
    from raw.citations as citations
    inner join scoped_runs on citations.run_key = scoped_runs.run_key
    left join known_chunks
        on citations.chunk_key = known_chunks.chunk_key and scoped_runs.scope = known_chunks.scope
    left join retrieved_paths as retrieved
        on citations.run_key = retrieved.run_key and citations.path = retrieved.path
    left join archived_paths
        on citations.run_key = archived_paths.run_key and citations.path = archived_paths.path
    group by citations.run_key, citations.query_key
)

select
    results.run_key,
    results.query_key,
    coalesce(cited.n_citations, 0) as n_citations,
    coalesce(cited.n_resolved, 0) as n_resolved,
    coalesce(cited.n_unrecognized, 0) as n_unrecognized,
    archived.scope is not null or coalesce(cited.n_retrieved = cited.n_citations, false) as has_archive
from raw.results as results
inner join labels.queries as queries on results.query_key = queries.query_key
inner join scoped_runs on results.run_key = scoped_runs.run_key
left join (select distinct scoped_archives.scope from scoped_archives) as archived
    on scoped_runs.scope = archived.scope
left join cited on results.run_key = cited.run_key and results.query_key = cited.query_key
