-- arguments: [x]
-- why: docs/decisions.md#ax-1
-- examples:
--   - exact_sum(0.1) => 0.1
--   - exact_sum(null) => null

-- Neither the order of the rows nor the number of threads can move the last digit.
exact_total(sum(exact_units(x)))
