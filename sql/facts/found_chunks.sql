-- keys:
--   first_rank: "The first rank that holds this expected chunk"
-- about: "The best rank of every expected chunk that was retrieved."
-- version: 1
-- why: docs/decisions.md#a3-13
-- examples:
--   - {expected_chunk_ids: [a, b], hits: [x, b, b]} => {item_no: 2, first_rank: 2}
--   - {expected_chunk_ids: [a], hits: []} => {first_rank: null}
--   - {expected_chunk_ids: [a, b], hits: [b, a]} => [{item_no: 1, first_rank: 2}, {item_no: 2, first_rank: 1}]
--   - {expected_chunk_ids: [b], hits: [a, a, b], parameters: {dedupe_hits: true}} => {first_rank: 2}

-- Only what was found; an expected chunk without a row was not retrieved.
select
    hits.run_key,
    hits.query_key,
    expected.item_no,
    cast(min(kept_rank(hits.rank, repeated.repeated_ranks)) as integer) as first_rank
from raw.hits as hits
inner join labels.expected_chunks as expected
    on hits.query_key = expected.query_key and hits.chunk_key = expected.chunk_key
left join facts.repeated_hits as repeated
    on hits.run_key = repeated.run_key and hits.query_key = repeated.query_key
group by hits.run_key, hits.query_key, expected.item_no
