-- keys:
--   docs_processed: "Documents the indexer looked at"
--   docs_with_0_chunks: "Documents that came out without a chunk"
--   no_chunks_generated_rate: "Their share; null without documents"
--   chunks_attempted: "Chunks the indexer tried to embed"
--   chunks_embedded: "Chunks it embedded"
--   chunks_skipped: "Chunks it skipped"
--   skip_reasons: "How many chunks were skipped for each reason; (none) where none was given"
--   chunks_skipped_context_rate: "Share of the attempted chunks that were skipped because they exceed the context limit; null without chunks"
--   tokens_min: "Fewest tokens of an attempted chunk"
--   tokens_max: "Most tokens of an attempted chunk"
--   tokens_mean: "Mean tokens of the attempted chunks with a known count"
--   tokens_p95: "Of a hundred of them ninety-five have at most this many"
--   chunker_version: "As reported"
--   embedding_model: "As reported"
--   index_version: "As reported"
-- grain: [run_key, doc_type]
-- version: 1
-- parameters: {percentile: linear, rounding: half_even}
-- choices: {percentile: [linear, nearest], rounding: [half_even, half_up]}
-- undefined: the row without a type is the whole report; a type that is not given, and that of a chunk whose document is not listed, is (none)
-- why: docs/decisions.md#a2-24
-- examples:
--   - {index_report: {docs: [{doc_id: a, doc_type: pdf, n_chunks: 0}], chunks: []}} => [{doc_type: null, docs_processed: 1, no_chunks_generated_rate: 1, chunks_skipped_context_rate: null}, {doc_type: pdf, docs_with_0_chunks: 1}]
--   - {index_report: {chunks: [{status: embedded, tokens: 10}, {status: skipped, skip_reason: context_limit, tokens: 20}]}} => [{doc_type: null, chunks_attempted: 2, chunks_skipped_context_rate: 0.5, tokens_mean: 15, no_chunks_generated_rate: null}, {doc_type: (none), chunks_skipped: 1}]
--   - {index_report: {}} => [{doc_type: null, docs_processed: 0, chunks_attempted: 0, tokens_p95: null}]
with types as (
    select
        run_key,
        doc_key,
        arg_max(coalesce(doc_type, '(none)'), document_no) as doc_type
    from raw.indexed_documents
    where doc_key is not null
    group by run_key, doc_key
),

documents as (
    select
        run_key,
        n_chunks,
        coalesce(doc_type, '(none)') as doc_type
    from raw.indexed_documents
),

chunks as (
    select
        indexed.run_key,
        indexed.status,
        indexed.tokens,
        coalesce(types.doc_type, '(none)') as doc_type,
        case when indexed.status = 'skipped' then coalesce(indexed.skip_reason, '(none)') end as skip_reason
    from raw.indexed_chunks as indexed
    left join types on indexed.run_key = types.run_key and indexed.doc_key = types.doc_key
),

document_counts as (
    select
        run_key,
        doc_type,
        count(*) as n,
        count(*) filter (where n_chunks = 0) as n_without_chunks
    from documents
    group by grouping sets ((run_key), (run_key, doc_type))
),

chunk_counts as (
    select
        run_key,
        doc_type,
        count(*) as n,
        count(*) filter (where status = 'embedded') as n_embedded,
        count(*) filter (where status = 'skipped') as n_skipped,
        count(*) filter (where skip_reason = 'context_limit') as n_over_context,
        histogram(skip_reason) filter (where skip_reason is not null) as skip_reasons,
        coalesce(list(tokens order by tokens) filter (where tokens is not null), []) as tokens
    from chunks
    group by grouping sets ((run_key), (run_key, doc_type))
),

parts as (
    select
        run_key,
        cast(null as varchar) as doc_type
    from raw.index_reports
    union
    select
        run_key,
        doc_type
    from document_counts
    union
    select
        run_key,
        doc_type
    from chunk_counts
)

select
    parts.run_key,
    parts.doc_type,
    coalesce(document_counts.n, 0) as docs_processed,
    coalesce(document_counts.n_without_chunks, 0) as docs_with_0_chunks,
    rounded_by(
        document_counts.n_without_chunks / nullif(cast(document_counts.n as double), 0),
        $rounding
    ) as no_chunks_generated_rate,
    coalesce(chunk_counts.n, 0) as chunks_attempted,
    coalesce(chunk_counts.n_embedded, 0) as chunks_embedded,
    coalesce(chunk_counts.n_skipped, 0) as chunks_skipped,
    chunk_counts.skip_reasons,
    rounded_by(
        chunk_counts.n_over_context / nullif(cast(chunk_counts.n as double), 0),
        $rounding
    ) as chunks_skipped_context_rate,
    chunk_counts.tokens[1] as tokens_min,
    chunk_counts.tokens[-1] as tokens_max,
    rounded_by(exact_list_sum(chunk_counts.tokens) / nullif(len(chunk_counts.tokens), 0), $rounding) as tokens_mean,
    rounded_by(percentile_of(chunk_counts.tokens, 0.95, $percentile), $rounding) as tokens_p95,
    reports.chunker_version,
    reports.embedding_model,
    reports.index_version
from parts
inner join raw.index_reports as reports on parts.run_key = reports.run_key
left join document_counts
    on parts.run_key = document_counts.run_key and parts.doc_type is not distinct from document_counts.doc_type
left join chunk_counts
    on parts.run_key = chunk_counts.run_key and parts.doc_type is not distinct from chunk_counts.doc_type
