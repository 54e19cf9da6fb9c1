-- arguments: [grades, ranks, k, gain]
-- why: docs/decisions.md#g-4
-- examples:
--   - discounted_gain([3, 1], [1, 3], 10, 'linear') => 3.5
--   - discounted_gain([3, 1], [1, 3], 10, 'exponential') => 7.5
--   - discounted_gain([3, 1], [1, 3], 2, 'linear') => 3
--   - discounted_gain([], [], 10, 'linear') => 0

-- Grades above 0 at ascending ranks; a place counts the less the further down it is.
coalesce(
    list_sum(
        list_transform(
            list_filter(ranks, lambda r: r <= k),
            lambda r, i: case when gain = 'exponential' then power(2, grades[i]) - 1 else cast(grades[i] as double) end
                / nullif(log2(r + 1), 0)
        )
    ),
    0
)
