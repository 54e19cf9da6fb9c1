-- How much of its golden set a run answered. Counted when results or a golden set are taken in, so that asking which
-- runs are complete reads one row per run, however many results there are.
create table ledger.run_counts (
    run_key integer not null,
    -- Null while the run waits for its golden set.
    golden_key integer,
    n_golden integer not null,
    n_results integer not null,
    n_failed integer not null,
    -- Without a result, because they joined the golden set after the run's results were delivered.
    n_not_asked integer not null,
    -- Extraction cases were delivered and no results: the run was never meant to answer queries.
    is_without_results boolean not null
);

insert into ledger.run_counts
with runs as (
    select
        runs.run_key,
        runs.dataset_key,
        golden.golden_key,
        coalesce(golden.n_rows, 0) as n_golden,
        deliveries.delivered_at,
        results.run_key is null and cases.run_key is not null as is_without_results
    from raw.runs as runs
    left join labels.golden_sets as golden
        on runs.dataset_key = golden.dataset_key and golden.superseded_at is null
    left join raw.run_parts as results on runs.run_key = results.run_key and results.part = 'results'
    left join ledger.deliveries as deliveries on results.delivery_key = deliveries.delivery_key
    left join raw.run_parts as cases on runs.run_key = cases.run_key and cases.part = 'extractions'
),

asked as (
    select
        runs.run_key,
        coalesce(
            max(versions.golden_key) filter (where versions.loaded_at <= runs.delivered_at),
            min(versions.golden_key)
        ) as asked_key
    from runs
    inner join labels.golden_sets as versions on runs.dataset_key = versions.dataset_key
    group by runs.run_key
),

answered as (
    select
        runs.run_key,
        count(*) as n_results,
        count(*) filter (where coalesce(results.error, '') <> '' or coalesce(results.timed_out, false)) as n_failed
    from runs
    inner join raw.results as results on runs.run_key = results.run_key
    inner join labels.queries as queries
        on runs.golden_key = queries.golden_key and results.query_key = queries.query_key
    group by runs.run_key
),

later as (
    select runs.run_key, count(*) as n_not_asked
    from runs
    inner join asked on runs.run_key = asked.run_key and runs.golden_key <> asked.asked_key
    inner join labels.queries as queries on runs.golden_key = queries.golden_key
    anti join labels.queries as before
        on asked.asked_key = before.golden_key and queries.query_key = before.query_key
    anti join raw.results as results
        on runs.run_key = results.run_key and queries.query_key = results.query_key
    group by runs.run_key
)

select
    runs.run_key,
    runs.golden_key,
    runs.n_golden,
    coalesce(answered.n_results, 0),
    coalesce(answered.n_failed, 0),
    coalesce(later.n_not_asked, 0),
    runs.is_without_results
from runs
left join answered on runs.run_key = answered.run_key
left join later on runs.run_key = later.run_key;

-- What is in quarantine now is what is not resolved: a later good delivery of the same part resolves it.
alter table ledger.quarantine add column resolved_at timestamp;

-- Whatever stands in quarantine for bytes that have since been replaced by a delivery that was taken.
update ledger.quarantine
set resolved_at = later.delivered_at
from (
    select run_id, path, content_hash, max(delivered_at) as delivered_at
    from ledger.deliveries
    where superseded_at is null
    group by run_id, path, content_hash
) as later
where
    ledger.quarantine.path = later.path
    and ledger.quarantine.run_id is not distinct from later.run_id
    and ledger.quarantine.content_hash is distinct from later.content_hash
    and ledger.quarantine.rejected_at < later.delivered_at;

-- How often the same bytes were read again with another outcome: what is computed from them is due again.
alter table raw.run_parts add column times_read_again integer default 0;

-- What looks odd in a golden set or in a run's results, and is no fault: nothing was left out because of it.
create table ledger.lint (
    rule varchar not null,
    -- The dataset whose golden set it is about; null for a run's delivery.
    dataset_id varchar,
    run_id varchar,
    query_id varchar,
    finding varchar not null,
    -- The paragraph of docs/decisions.md that says what is made of it.
    decision varchar not null,
    found_at timestamp not null
);
