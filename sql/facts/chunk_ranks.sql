-- keys:
--   n_expected: "How many different chunks are expected; null when the query has no such label"
--   first_rank: "The first rank that holds an expected chunk; null when none does"
--   found_ranks: "Ascending, one per expected chunk that was found: its first rank"
--   hit_ranks: "Every rank that holds an expected chunk; a chunk retrieved twice stands here twice"
-- version: 1
-- why: docs/decisions.md#ax-3
-- examples:
--   - {expected_chunk_ids: [a, b], hits: [x, a, a]} => {n_expected: 2, first_rank: 2, found_ranks: [2], hit_ranks: [2, 3]}
--   - {expected_chunk_ids: [a], hits: []} => {n_expected: 1, first_rank: null, found_ranks: [], hit_ranks: []}
--   - {hits: [a]} => {n_expected: null, first_rank: null, found_ranks: [], hit_ranks: []}
with found as (
    select
        hits.run_key,
        hits.query_key,
        hits.rank,
        row_number() over (
            partition by hits.run_key, hits.query_key, expected.item_no
            order by hits.rank
        ) = 1 as is_first
    from raw.hits as hits
    inner join labels.expected_chunks as expected
        on hits.query_key = expected.query_key and hits.chunk_key = expected.chunk_key
),

ranks as (
    select
        run_key,
        query_key,
        min(rank) as first_rank,
        list(rank order by rank) filter (where is_first) as found_ranks,
        list(rank order by rank) as hit_ranks
    from found
    group by run_key, query_key
)

select
    results.run_key,
    results.query_key,
    counts.n_expected,
    ranks.first_rank,
    coalesce(ranks.found_ranks, []) as found_ranks,
    coalesce(ranks.hit_ranks, []) as hit_ranks
from raw.results as results
inner join labels.queries as queries on results.query_key = queries.query_key
left join labels.expected_chunk_counts as counts on results.query_key = counts.query_key
left join ranks on results.run_key = ranks.run_key and results.query_key = ranks.query_key
