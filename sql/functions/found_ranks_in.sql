-- arguments: [marks]
-- why: docs/decisions.md#ax-3
-- examples:
--   - found_ranks_in((cast(2 as bigint) << 60) | rank_mark(30, 1, 2) | rank_mark(30, 1, 3) | rank_mark(30, 2, 1)) => [1, 2]
--   - found_ranks_in((cast(1 as bigint) << 60) | rank_mark(60, 1, 60)) => [60]
--   - found_ranks_in(cast(3 as bigint) << 60) => []
--   - found_ranks_in(0) => []

-- The first rank of every field that has one; above the fields stands how many there are.
cast(
    list_sort(
        list_transform(
            list_filter(
                list_transform(
                    range(marks >> 60),
                    lambda i: (marks >> (i * (60 // nullif(marks >> 60, 0))))
                        & ((cast(1 as bigint) << (60 // nullif(marks >> 60, 0))) - 1)
                ),
                lambda f: f > 0
            ),
            lambda f: bit_count((f & -f) - 1) + 1
        )
    ) as integer []
)
