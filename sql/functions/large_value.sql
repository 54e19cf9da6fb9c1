-- arguments: [x]
-- why: docs/decisions.md#ax-1
-- examples:
--   - large_value(0.5) => null
--   - large_value(1e300) => 1.0e+300

-- The value if `exact_units` cannot represent it.
case when abs(x) > 1073741824 then x end
