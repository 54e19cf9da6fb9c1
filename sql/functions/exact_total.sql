-- arguments: [units]
-- why: docs/decisions.md#ax-1
-- examples:
--   - exact_total(604462909807314587353088) => 0.5
--   - exact_total(null) => null

-- Multiples of 2^-80 as a number again, rounded once.
cast(units as double) / 1208925819614629174706176.0
