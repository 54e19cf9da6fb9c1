-- arguments: [x]
-- why: docs/decisions.md#ax-1
-- examples:
--   - exact_sum(0.1) => 0.1
--   - exact_sum(1e300) => 1.0e+300
--   - exact_sum(null) => null

-- Neither the order of the rows nor the number of threads can move the last digit.
whole_total(sum(exact_units(small_value(x))), list(large_value(x)) filter (where large_value(x) is not null))
