-- Which night a run belongs to, whether it answered everything it was asked, and whether it stands for its night.
with recursive shared as (
    select run_key, count(*) over (partition by dataset_key, suite, created_at) > 1 as is_shared
    from raw.runs
    where attempt is null and replaces is null and replicate_of is null
),

runs as (
    select
        runs.run_key,
        runs.run_id,
        runs.dataset_key,
        runs.suite,
        runs.attempt,
        runs.replaces,
        runs.replicate_of,
        in_order.ordered_at,
        coalesce(runs.night, cast(in_order.ordered_at as date)) as effective_night,
        -- A run is a night of its own if it records neither night nor time, or shares its time with another run
        -- without being declared a further attempt.
        case
            when runs.night is null and (runs.created_at is null or shared.is_shared) then runs.run_id else ''
        end as own_night,
        coalesce(counts.golden_key > 0 or counts.is_without_results, false) as has_golden_set,
        coalesce(counts.n_golden, 0) as n_golden,
        coalesce(counts.n_results, 0) as n_results,
        coalesce(counts.n_failed, 0) as n_failed,
        coalesce(counts.n_not_asked, 0) as n_not_asked,
        -- A run whose evaluation has not come to its end stands for nothing, whatever it has answered.
        coalesce(runs.evaluation_state, 'complete') = 'complete'
        and (
            coalesce(counts.is_without_results, false)
            or (
                counts.golden_key is not null
                and counts.n_results + counts.n_not_asked = counts.n_golden
                and (counts.n_results > 0 or counts.n_golden = 0)
            )
        ) as is_complete
    from raw.runs as runs
    inner join ledger.runs_in_order as in_order on runs.run_key = in_order.run_key
    left join ledger.run_counts as counts on runs.run_key = counts.run_key
    left join shared on runs.run_key = shared.run_key
),

replacements as (
    select older.run_key, newer.run_key as newer_key, newer.run_id as newer_id, newer.is_complete
    from runs as newer
    inner join runs as older
        on
            newer.replaces = older.run_id
            and newer.run_key <> older.run_key
            and newer.dataset_key = older.dataset_key
            and newer.suite is not distinct from older.suite
),

superseded as (
    select run_key, newer_id from replacements where is_complete
    union
    select replacements.run_key, superseded.newer_id
    from replacements
    inner join superseded on replacements.newer_key = superseded.run_key
),

-- The end of a chain of replacements; runs that replace each other in a circle supersede nothing.
newest as (
    select superseded.run_key, max(superseded.newer_id) as superseded_by
    from superseded
    inner join runs on superseded.newer_id = runs.run_id
    anti join superseded as chained on runs.run_key = chained.run_key
    group by superseded.run_key
),

replicates as (
    select copies.run_key
    from runs as copies
    inner join runs as originals
        on
            copies.replicate_of = originals.run_id
            and copies.run_key <> originals.run_key
            and copies.dataset_key = originals.dataset_key
            and copies.suite is not distinct from originals.suite
            and copies.effective_night = originals.effective_night
            and copies.own_night = originals.own_night
),

judged as (
    select
        runs.*,
        newest.superseded_by,
        runs.is_complete and newest.superseded_by is null and replicates.run_key is null as can_stand
    from runs
    left join newest on runs.run_key = newest.run_key
    left join replicates on runs.run_key = replicates.run_key
)

select
    run_key,
    run_id,
    dataset_key,
    suite,
    ordered_at,
    effective_night,
    own_night,
    has_golden_set,
    n_golden,
    n_results,
    n_golden - n_results as n_missing,
    n_not_asked,
    n_failed,
    is_complete,
    superseded_by,
    can_stand and row_number() over (
        partition by dataset_key, suite, effective_night, own_night, can_stand
        order by coalesce(attempt, 1) desc, ordered_at desc, run_id desc
    ) = 1 as is_last_complete
from judged
