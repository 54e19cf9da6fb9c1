-- arguments: [x]
-- why: docs/decisions.md#ax-1
-- examples:
--   - exact_sum(0.1) => 0.1
--   - exact_sum(null) => null

-- Numbers are summed as whole multiples of 2^-80, so that neither the order of the rows nor the number of threads can
-- move the last digit; every value from 1e-8 to 1e8 is such a multiple exactly.
cast(sum(cast(x * 1208925819614629174706176.0 as hugeint)) as double) / 1208925819614629174706176.0
