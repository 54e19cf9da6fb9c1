-- keys:
--   n_citations: "How many citations the answer carries"
--   n_resolved: "How many of them name a chunk of an archive that was ever loaded for the dataset"
--   has_archive: "Whether such an archive was ever loaded"
-- about: "How many citations of an answer name a chunk that exists."
-- version: 1
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

cited as (
    select
        citations.run_key,
        citations.query_key,
        count(*) as n_citations,
        count(known_chunks.chunk_key) as n_resolved
    from raw.citations as citations
    inner join scoped_runs on citations.run_key = scoped_runs.run_key
    left join known_chunks
        on citations.chunk_key = known_chunks.chunk_key and scoped_runs.scope = known_chunks.scope
    group by citations.run_key, citations.query_key
)

select
    results.run_key,
    results.query_key,
    coalesce(cited.n_citations, 0) as n_citations,
    coalesce(cited.n_resolved, 0) as n_resolved,
    archived.scope is not null as has_archive
from raw.results as results
inner join labels.queries as queries on results.query_key = queries.query_key
inner join scoped_runs on results.run_key = scoped_runs.run_key
left join (select distinct scoped_archives.scope from scoped_archives) as archived
    on scoped_runs.scope = archived.scope
left join cited on results.run_key = cited.run_key and results.query_key = cited.query_key
