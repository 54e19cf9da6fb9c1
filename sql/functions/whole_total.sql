-- arguments: [units, large]
-- why: docs/decisions.md#ax-1
-- examples:
--   - whole_total(604462909807314587353088, null) => 0.5
--   - whole_total(604462909807314587353088, [2e300, 1e300]) => 3.0e+300
--   - whole_total(null, [1e308, 1e308]) => null
--   - whole_total(null, null) => null

-- The total of small values in units of 2^-80 and of a list of large values. Null beyond the range of a double.
case
    when large is null then exact_total(units)
    when isfinite(coalesce(exact_total(units), 0) + list_aggregate(list_sort(large), 'fsum'))
        then coalesce(exact_total(units), 0) + list_aggregate(list_sort(large), 'fsum')
end
