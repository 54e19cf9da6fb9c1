-- Not a step of the schema: what is done whenever runs were taken in, and once to a store of an earlier version. Runs with
-- results whose dataset has no golden set get an implied one, where they have none yet.
create or replace temp table implied_runs as
with asked as (
    select
        runs.run_key,
        runs.dataset_key,
        sha256(string_agg(to_json([query_ids.query_id]), chr(10) order by to_json([query_ids.query_id]))) as queries_hash
    from raw.runs as runs
    inner join raw.results as results on runs.run_key = results.run_key
    inner join raw.query_ids as query_ids on results.query_key = query_ids.query_key
    where
        runs.run_key not in (select run_key from ledger.implied_golden_sets)
        and runs.dataset_key not in (select dataset_key from ledger.golden_sets_in_force)
    group by runs.run_key, runs.dataset_key
),

known as (
    select runs.dataset_key, sets.queries_hash, min(sets.golden_key) as golden_key
    from ledger.implied_golden_sets as sets
    inner join raw.runs as runs on sets.run_key = runs.run_key
    group by runs.dataset_key, sets.queries_hash
),

unknown as (
    select
        asked.dataset_key,
        asked.queries_hash,
        (select least(min(golden_key), 0) from labels.queries)
        - row_number() over (order by min(asked.run_key)) as golden_key
    from asked
    anti join known on asked.dataset_key = known.dataset_key and asked.queries_hash = known.queries_hash
    group by asked.dataset_key, asked.queries_hash
)

select asked.run_key, cast(sets.golden_key as integer) as golden_key, asked.queries_hash
from asked
inner join (from known union all from unknown) as sets
    on asked.dataset_key = sets.dataset_key and asked.queries_hash = sets.queries_hash;

insert into ledger.implied_golden_sets from temp.implied_runs;

create or replace temp table new_implied_sets as
select golden_key, queries_hash, min(run_key) as run_key
from temp.implied_runs
where golden_key not in (select golden_key from labels.queries where golden_key < 0)
group by golden_key, queries_hash;

insert into labels.queries (golden_key, query_key)
select sets.golden_key, results.query_key
from temp.new_implied_sets as sets
inner join raw.results as results on sets.run_key = results.run_key
order by sets.golden_key desc, results.row_no;

insert into labels.query_details (golden_key, query_key, query_no)
select
    sets.golden_key,
    results.query_key,
    row_number() over (partition by sets.golden_key order by results.row_no)
from temp.new_implied_sets as sets
inner join raw.results as results on sets.run_key = results.run_key
order by sets.golden_key desc, results.row_no;

-- Nobody said what kind of query it is; aggregates need to find it in some slice.
insert into labels.slices (golden_key, query_key, slice, slice_value)
select queries.golden_key, queries.query_key, slices.slice, '(none)'
from labels.queries as queries
inner join temp.new_implied_sets as sets on queries.golden_key = sets.golden_key
cross join (select unnest(['tag', 'category', 'difficulty', 'vault', 'answerable']) as slice) as slices;

-- A golden set that asks the same queries differs in the families that it labels, and in its slices. Without grades it has
-- no hash of them, so nor has an implied one.
insert into labels.family_hashes (golden_key, family, hash)
select
    sets.golden_key,
    families.table_name,
    case families.table_name
        when 'queries' then sets.queries_hash
        when 'slices' then 'unknown slices of ' || sets.queries_hash
        else sha256('')
    end
from temp.new_implied_sets as sets
cross join (
    select table_name
    from duckdb_tables()
    where
        schema_name = 'labels'
        and database_name = current_database()
        and table_name not in ('golden_sets', 'family_hashes', 'query_details', 'grades', 'grade_counts', 'chunk_spans')
) as families;

-- Whoever takes runs in counts them afterwards; those of an earlier version are counted here.
update ledger.run_counts
set golden_key = counted.golden_key, n_golden = counted.n, n_results = counted.n, n_failed = counted.n_failed
from (
    select runs.run_key, runs.golden_key, count(*) as n, count(*) filter (where scored.is_failed) as n_failed
    from temp.implied_runs as runs
    inner join ledger.scored_results as scored on runs.run_key = scored.run_key
    group by runs.run_key, runs.golden_key
) as counted
where run_counts.run_key = counted.run_key;

drop table temp.implied_runs;
drop table temp.new_implied_sets;
