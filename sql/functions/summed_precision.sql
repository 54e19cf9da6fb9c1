-- arguments: [ranks, k]
-- why: docs/decisions.md#g-4
-- examples:
--   - summed_precision([1, 4], 10) => 1.5
--   - summed_precision([1, 4], 3) => 1
--   - summed_precision([], 3) => 0

-- At every ascending rank within k the share of what was found up to it.
coalesce(list_sum(list_transform(list_filter(ranks, lambda r: r <= k), lambda r, i: i / nullif(cast(r as double), 0))), 0)
