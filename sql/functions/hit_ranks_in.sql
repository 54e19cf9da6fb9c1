-- arguments: [marks]
-- why: docs/decisions.md#ax-3
-- examples:
--   - hit_ranks_in((cast(2 as bigint) << 60) | rank_mark(30, 1, 2) | rank_mark(30, 1, 3) | rank_mark(30, 2, 1)) => [1, 2, 3]
--   - hit_ranks_in((cast(1 as bigint) << 60) | rank_mark(60, 1, 60)) => [60]
--   - hit_ranks_in(0) => []

-- The ranks of all marks, whichever field they stand in.
cast(
    list_sort(
        list_transform(
            list_filter(range(60), lambda b: (marks >> b) & 1 = 1),
            lambda b: b % (60 // nullif(marks >> 60, 0)) + 1
        )
    ) as integer []
)
