-- The place of a run among those of its load, by the order of arguments and of runs in a file; runs in one folder share one.
alter table raw.runs add column place_in_load integer default 0;

-- As before, but runs are in order of time, then of their place in the load that delivered them, then of name.
create or replace view ledger.runs_in_order as
select
    runs.run_key,
    runs.run_id,
    runs.dataset_key,
    runs.suite,
    runs.chunker_version,
    coalesce(variants.variant_key, golden_sets.golden_key, implied.golden_key, 0) as golden_key,
    -- A microsecond for each place keeps `ordered_at` the only column that runs are ordered by.
    coalesce(runs.created_at, runs.first_loaded_at) + to_microseconds(coalesce(runs.place_in_load, 0)) as ordered_at,
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
