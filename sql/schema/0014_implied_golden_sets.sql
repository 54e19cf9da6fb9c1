-- A run whose dataset has no golden set is scored by what needs no label: the queries that it answered stand as a golden
-- set without labels. Its key is below zero; runs of a dataset that answered the same queries share one. Rows stay when a
-- golden set arrives, and stand for nothing from then on.
create table ledger.implied_golden_sets (
    run_key integer not null,
    golden_key integer not null,
    -- As the label family `queries` of a golden set with these queries has it.
    queries_hash varchar not null
);

-- Runs by time, then by name. `golden_key` is what scores them now: the dataset's golden set, else the implied one, else
-- 0, which asks nothing and labels nothing: of runs that delivered no results.
create or replace view ledger.runs_in_order as
select
    runs.run_key,
    runs.run_id,
    runs.dataset_key,
    runs.suite,
    runs.chunker_version,
    coalesce(golden_sets.golden_key, implied.golden_key, 0) as golden_key,
    coalesce(runs.created_at, runs.first_loaded_at) as ordered_at
from raw.runs as runs
left join ledger.golden_sets_in_force as golden_sets on runs.dataset_key = golden_sets.dataset_key
left join ledger.implied_golden_sets as implied on runs.run_key = implied.run_key;
