select
    runs.run_id,
    datasets.dataset_id as dataset,
    runs.suite,
    runs.created_at,
    runs.night,
    nights.effective_night,
    runs.attempt,
    runs.replaces,
    runs.replicate_of,
    nights.n_golden as golden_queries,
    nights.n_results as results,
    nights.n_missing as missing,
    nights.n_not_asked as not_asked,
    nights.n_failed as failed,
    nights.is_complete,
    nights.is_last_complete,
    nights.superseded_by,
    runs.commit_hash,
    runs.chunker_version,
    runs.embedding_model,
    runs.index_version,
    runs.prompt_version,
    runs.llm_model,
    runs.top_k,
    runs.first_loaded_at,
    coalesce(pinned.n_tables, 0) as pinned_tables,
    documents.aggregate_json
from raw.runs as runs
inner join raw.datasets as datasets on runs.dataset_key = datasets.dataset_key
inner join main.run_nights as nights on runs.run_key = nights.run_key
left join aggregates.run_documents as documents on runs.run_key = documents.run_key
left join (
    select
        pins.run_key,
        count(distinct pins.definition) as n_tables
    from ledger.pins as pins
    inner join ledger.cells as cells
        on pins.definition = cells.definition
        and pins.source = cells.source
        and pins.run_key = cells.run_key
        and pins.fingerprint = cells.fingerprint
    group by pins.run_key
) as pinned on runs.run_key = pinned.run_key
