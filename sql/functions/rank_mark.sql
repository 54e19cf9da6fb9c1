-- arguments: [width, item_no, rank]
-- why: docs/decisions.md#ax-3
-- examples:
--   - rank_mark(30, 1, 1) => 1
--   - rank_mark(30, 2, 3) => 4294967296
--   - rank_mark(30, 1, 31) => 8070450532247928832

-- Where an expected item was found, as one bit: every item has a field of `width` bits, one per rank. What has no place
-- there sets all three bits above the fields.
case
    when rank <= width then cast(1 as bigint) << (width * (item_no - 1) + rank - 1)
    else cast(7 as bigint) << 60
end
