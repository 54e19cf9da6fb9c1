-- keys:
--   value: "Mean over the queries the metric applies to, rounded to 4 decimals"
--   n: "How many queries that is"
--   total: "Their sum, unrounded"
-- version: 1
-- parameters: {keys: []}
-- why: docs/decisions.md#ax-1

-- Computed for one formula at a time: metrics.formula stands for its table, $key for each of its keys in turn.
with sliced as (
    select
        formula.run_key,
        slices.slice,
        slices.slice_value,
        formula."$key",
    from metrics.formula as formula
    inner join labels.slices as slices on formula.query_key = slices.query_key
    union all
    select
        formula.run_key,
        '' as slice,
        '' as slice_value,
        formula."$key",
    from metrics.formula as formula
)

select
    run_key,
    slice,
    slice_value,
    count("$key") as "n $key",
    exact_sum("$key") as "total $key",
from sliced
group by run_key, slice, slice_value
