-- arguments: [x]
-- why: docs/decisions.md#ax-1
-- examples:
--   - exact_units(0.5) => 604462909807314587353088
--   - exact_units(null) => null

-- A number as whole multiples of 2^-80: adding those is exact in any order. Every value from 1e-8 to 1e8 is such a
-- multiple.
cast(x * 1208925819614629174706176.0 as hugeint)
