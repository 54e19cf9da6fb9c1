-- Runs by time, then by name; `golden_key` is null while the dataset is not there. A run that delivered extraction
-- cases and no results asks no query: where its dataset has no golden set, 0 stands for a set without any label.
create or replace view ledger.runs_in_order as
select
    runs.run_key,
    runs.run_id,
    runs.dataset_key,
    runs.suite,
    runs.chunker_version,
    coalesce(golden_sets.golden_key, case when counts.is_without_results then 0 end) as golden_key,
    coalesce(runs.created_at, runs.first_loaded_at) as ordered_at
from raw.runs as runs
left join ledger.golden_sets_in_force as golden_sets on runs.dataset_key = golden_sets.dataset_key
left join ledger.run_counts as counts on runs.run_key = counts.run_key;

-- The extraction cases that every run of a dataset should hold, as they were listed last. Of what is in each of them only
-- a hash is kept, so that no text stands here: null where none was given, empty where it was forgotten.
create table ledger.expected_cases (
    dataset_key integer not null,
    case_key integer not null,
    case_no integer not null,
    ground_truth_hash varchar
);
