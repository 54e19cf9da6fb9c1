-- arguments: [x]
-- why: docs/decisions.md#ax-1
-- examples:
--   - rounded(0.33333) => 0.3333
--   - rounded(0.03125) => 0.0312
--   - rounded(-0.00001) => 0
--   - rounded(null) => null

-- Half to even on the exact value of the double, as Python rounds; adding 0 turns −0 into 0.
cast(format('{:.4f}', x) as double) + 0
