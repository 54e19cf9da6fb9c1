-- arguments: [ranks, k]
-- why: docs/decisions.md#ax-3
-- examples:
--   - count_within([1, 3, 12], 10) => 2
--   - count_within([], 10) => 0
len(list_filter(ranks, lambda r: r <= k))
