-- Every value a run's metric ever had, with the meaning behind it and how long it stood; valid_to is null for today's.
-- A run that was forgotten without its history keeps its name here.
select
    runs.run_id,
    stood.formula,
    stood.metric,
    definitions.version,
    stood.fingerprint,
    stood.value,
    stood.n,
    stood.valid_from,
    stood.valid_to,
    stood.replaced_because,
    stood.note
from (
    select
        run_metrics.run_key,
        run_metrics.source as formula,
        run_metrics.metric,
        cells.source_fingerprint as fingerprint,
        run_metrics.value,
        run_metrics.n,
        cells.computed_at as valid_from,
        cast(null as timestamp) as valid_to,
        cast(null as varchar) as replaced_because,
        cells.note
    from aggregates.run_metrics as run_metrics
    inner join ledger.cells as cells
        on run_metrics.run_key = cells.run_key and run_metrics.source = cells.source
    where run_metrics.slice = ''
    union all
    select
        run_key,
        source,
        metric,
        formula_fingerprint,
        value,
        n,
        valid_from,
        valid_to,
        replaced_because,
        note
    from ledger.aggregate_history
    where slice = ''
) as stood
inner join (
    select
        run_key,
        run_id
    from raw.runs
    union all
    select
        run_key,
        name as run_id
    from ledger.tombstones
    where kind = 'run' and scope = 'rows'
) as runs on stood.run_key = runs.run_key
left join ledger.definitions as definitions
    on stood.formula = definitions.name and stood.fingerprint = definitions.fingerprint
