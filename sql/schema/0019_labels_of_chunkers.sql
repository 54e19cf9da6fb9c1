-- Ids of chunks in labels belong to one chunker version: as eval-pipeline.toml says, else the golden set, else as
-- the inventories or the first run show it.
alter table labels.golden_sets add column chunker_version varchar;

-- The characters of expected chunks, for runs of another chunker alone, and only for queries without gold spans.
create table labels.chunk_spans (
    golden_key integer not null,
    query_key integer not null,
    chunk_key integer not null,
    span_no integer not null,
    doc_key integer not null,
    "start" bigint not null,
    "end" bigint not null
);

-- Whose ids the labels of a golden set hold. Runs of another recorded chunker are scored by the rows of `variant_key` in
-- the tables of labels: the same without ids of chunks. Rows that are no longer in force stay, as superseded golden sets do.
create table ledger.label_chunkers (
    golden_key integer not null,
    -- Null while no run needs it.
    variant_key integer,
    -- Empty: several inventories have the ids at different characters.
    chunker_versions varchar [] not null,
    candidates varchar [] not null,
    -- What eval-pipeline.toml said of it, or null.
    setting varchar,
    -- What the rows were derived from.
    inputs varchar not null,
    is_in_force boolean not null
);

-- As before, with the variant for runs of another chunker. `labels_of` are the chunkers whose ids the labels hold where
-- these are not the run's; `delivered_key` is the golden set that the labels were delivered with.
create or replace view ledger.runs_in_order as
select
    runs.run_key,
    runs.run_id,
    runs.dataset_key,
    runs.suite,
    runs.chunker_version,
    coalesce(variants.variant_key, golden_sets.golden_key, implied.golden_key, 0) as golden_key,
    coalesce(runs.created_at, runs.first_loaded_at) as ordered_at,
    coalesce(golden_sets.golden_key, implied.golden_key, 0) as delivered_key,
    variants.chunker_versions as labels_of
from raw.runs as runs
left join ledger.golden_sets_in_force as golden_sets on runs.dataset_key = golden_sets.dataset_key
left join ledger.implied_golden_sets as implied on runs.run_key = implied.run_key
left join (
    select others.run_key, chunkers.variant_key, chunkers.chunker_versions
    from raw.runs as others
    inner join ledger.golden_sets_in_force as scoring on others.dataset_key = scoring.dataset_key
    inner join ledger.label_chunkers as chunkers on scoring.golden_key = chunkers.golden_key
    where
        chunkers.is_in_force
        and chunkers.variant_key is not null
        and others.chunker_version is not null
        and not list_contains(chunkers.chunker_versions, others.chunker_version)
) as variants on runs.run_key = variants.run_key;
