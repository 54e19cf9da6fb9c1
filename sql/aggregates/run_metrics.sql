-- keys:
--   value: "Mean over the queries the metric applies to, rounded to 4 decimals"
--   n: "How many queries that is"
--   total: "Their sum, unrounded"
-- about: "Mean, n and total of every metric, for the whole run and for every slice."
-- version: 2
-- parameters: {keys: [], rounding: half_even}
-- choices: {rounding: [half_even, half_up]}
-- why: docs/decisions.md#ax-1

-- Computed for one formula at a time: metrics.formula stands for its table, $key for each of its keys in turn.
-- A query stands in many slices. So results are added once per kind of query, which is the combination of its category,
-- difficulty, vaults and answerability, and then the few kinds per slice. Tags combine too freely for that: there every
-- result is added per tag. Slices are numbers until the end, and values whole numbers, whose sum is exact. Values that
-- are too large for that are kept in lists and added in ascending order.
with members as (
    select
        query_key,
        slice,
        slice_value,
        cast(dense_rank() over (order by slice, slice_value) as integer) as slice_no
    from labels.slices
    union all
    select distinct
        query_key,
        '' as slice,
        '' as slice_value,
        0 as slice_no
    from labels.slices
),

slice_names as (
    select distinct
        slice_no,
        slice,
        slice_value
    from members
),

combinations as (
    select
        query_key,
        list(slice_no order by slice_no) as slice_nos
    from members
    where slice <> 'tag'
    group by query_key
),

kinds as (
    select
        query_key,
        slice_nos,
        cast(dense_rank() over (order by slice_nos) as integer) as kind_no
    from combinations
),

slices_of_kinds as (
    select distinct
        kind_no,
        unnest(slice_nos) as slice_no
    from kinds
),

results as (
    select
        run_key,
        query_key,
        "$key",
        exact_units(small_value("$key")) as "units $key",
        large_value("$key") as "large $key",
    from metrics.formula
),

per_kind as (
    select
        results.run_key,
        kinds.kind_no,
        count(results."$key") as "n $key",
        sum(results."units $key") as "units $key",
        list(results."large $key") filter (where results."large $key" is not null) as "large $key",
    from results
    inner join kinds on results.query_key = kinds.query_key
    group by results.run_key, kinds.kind_no
),

per_slice as (
    select
        per_kind.run_key,
        slices_of_kinds.slice_no,
        cast(sum(per_kind."n $key") as bigint) as "n $key",
        sum(per_kind."units $key") as "units $key",
        flatten(list(per_kind."large $key") filter (where per_kind."large $key" is not null)) as "large $key",
    from per_kind
    inner join slices_of_kinds on per_kind.kind_no = slices_of_kinds.kind_no
    group by per_kind.run_key, slices_of_kinds.slice_no
    union all
    select
        results.run_key,
        tags.slice_no,
        count(results."$key") as "n $key",
        sum(results."units $key") as "units $key",
        list(results."large $key") filter (where results."large $key" is not null) as "large $key",
    from results
    inner join members as tags on results.query_key = tags.query_key and tags.slice = 'tag'
    group by results.run_key, tags.slice_no
)

select
    per_slice.run_key,
    slice_names.slice,
    slice_names.slice_value,
    per_slice."n $key",
    whole_total(per_slice."units $key", per_slice."large $key") as "total $key",
    rounded_by("total $key" / nullif(per_slice."n $key", 0), $rounding) as "value $key",
from per_slice
inner join slice_names on per_slice.slice_no = slice_names.slice_no
