-- Rules that many questions follow, each said once. In this schema, because definitions cannot read it: they are shown
-- what is in force anyway. `or replace`, so that the file can be applied to a store that has it.

-- What archives hold for a dataset: its own, and the shared ones of the chunker versions of which it has none. Citations
-- resolve against every state of them; texts and spans come from those that `is_newest`.
create or replace view ledger.archives_in_force as
select
    dataset_key,
    archive_key,
    chunker_version,
    content_hash,
    superseded_at is null as is_newest
from raw.archives
where dataset_key is not null
union all
select
    datasets.dataset_key,
    shared.archive_key,
    shared.chunker_version,
    shared.content_hash,
    shared.superseded_at is null as is_newest
from raw.archives as shared
cross join raw.datasets as datasets
anti join raw.archives as own
    on datasets.dataset_key = own.dataset_key and shared.chunker_version = own.chunker_version
where shared.dataset_key is null;

-- The golden set that scores a dataset's runs now.
create or replace view ledger.golden_sets_in_force as
select golden_key, dataset_key, content_hash, n_rows, loaded_at
from labels.golden_sets
where superseded_at is null;

-- Runs by time, then by name; `golden_key` is null while the dataset is not there.
create or replace view ledger.runs_in_order as
select
    runs.run_key,
    runs.run_id,
    runs.dataset_key,
    runs.suite,
    runs.chunker_version,
    golden_sets.golden_key,
    coalesce(runs.created_at, runs.first_loaded_at) as ordered_at
from raw.runs as runs
left join ledger.golden_sets_in_force as golden_sets on runs.dataset_key = golden_sets.dataset_key;

-- The results that count: those of queries that the golden set in force asks.
create or replace view ledger.scored_results as
select
    results.run_key,
    results.query_key,
    coalesce(results.error, '') <> '' or coalesce(results.timed_out, false) as is_failed
from raw.results as results
inner join ledger.runs_in_order as runs on results.run_key = runs.run_key
inner join labels.queries as queries on runs.golden_key = queries.golden_key and results.query_key = queries.query_key;
