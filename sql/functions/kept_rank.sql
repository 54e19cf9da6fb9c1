-- arguments: [rank, repeated_ranks]
-- why: docs/decisions.md#ax-3
-- examples:
--   - kept_rank(4, null) => 4
--   - kept_rank(4, [2, 3]) => 2
--   - kept_rank(3, [2, 3]) => null
case
    when repeated_ranks is null then rank
    when list_contains(repeated_ranks, rank) then null
    else rank - cast(count_within(repeated_ranks, rank) as integer)
end
