-- arguments: [ascending, share, method]
-- why: docs/decisions.md#a2-19
-- examples:
--   - percentile_of([10, 20, 30], 0.5, 'linear') => 20
--   - percentile_of([10, 20], 0.95, 'linear') => 19.5
--   - percentile_of([10, 20], 0.95, 'nearest') => 20
--   - percentile_of([10, 20, 30], 0.5, 'nearest') => 20
--   - percentile_of([7], 0.95, 'linear') => 7
--   - percentile_of([], 0.5, 'linear') => null
case
    when len(ascending) = 0 then null
    when method = 'nearest'
        then ascending[greatest(1, cast(ceil(cast(share as double) * len(ascending)) as bigint))]
    else
        ascending[1 + cast(floor(cast(share as double) * (len(ascending) - 1)) as bigint)]
        + (
            ascending[least(len(ascending), 2 + cast(floor(cast(share as double) * (len(ascending) - 1)) as bigint))]
            - ascending[1 + cast(floor(cast(share as double) * (len(ascending) - 1)) as bigint)]
        )
        * (cast(share as double) * (len(ascending) - 1) - floor(cast(share as double) * (len(ascending) - 1)))
end
