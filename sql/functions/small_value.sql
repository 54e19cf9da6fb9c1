-- arguments: [x]
-- why: docs/decisions.md#ax-1
-- examples:
--   - small_value(0.5) => 0.5
--   - small_value(1e300) => null

-- The value if `exact_units` can represent it: 100,000 such values can be added in 128 bits.
case when abs(x) <= 1073741824 then x end
