-- arguments: [ascending]
-- why: docs/decisions.md#ax-1
-- examples:
--   - exact_list_sum([0.1, 0.2, 0.3]) => 0.6
--   - exact_list_sum([1e300, 2e300]) => 3.0e+300
--   - exact_list_sum([]) => null

-- As exact_sum, for a list. Where a number is too large for that, all are added with compensation, in ascending order.
case
    when greatest(abs(ascending[1]), abs(ascending[-1])) <= 1e7
        then
            cast(
                list_aggregate(
                    list_transform(ascending, lambda x: try_cast(x * 1208925819614629174706176.0 as hugeint)), 'sum'
                ) as double
            ) / 1208925819614629174706176.0
    else list_aggregate(ascending, 'fsum')
end
