-- keys:
--   n_expected: "How many gold supports the query has; null when it has none"
--   first_rank: "The first rank that holds a gold support; null when none does"
--   found_ranks: "Ascending, one per gold support that was found: its first rank"
--   hit_ranks: "Every rank that holds a gold support, each once however many supports it holds"
--   n_hits: "How many hits are stored"
--   is_error: "Whether the result carries an error text or timed out"
-- about: "At which ranks gold supports were retrieved."
-- version: 1
-- why: docs/decisions.md#a2-1
-- examples:
--   - {gold_supports: [{rel_path: a.md}, {rel_path: b.md}], hits: [{rel_path: x.md}, {rel_path: a.md}, {rel_path: a.md}]} => {n_expected: 2, first_rank: 2, found_ranks: [2], hit_ranks: [2, 3], n_hits: 3, is_error: false}
--   - {gold_supports: [{rel_path: a.md}, {rel_path: a.md, heading_path: Intro}], hits: [{rel_path: a.md, heading_path: Intro}]} => {n_expected: 2, found_ranks: [1, 1], hit_ranks: [1]}
--   - {gold_supports: [{rel_path: a.md}], hits: []} => {n_expected: 1, first_rank: null, found_ranks: [], hit_ranks: [], n_hits: 0}
--   - {gold_supports: [], hits: [{rel_path: a.md}]} => {n_expected: null, first_rank: null, found_ranks: [], hit_ranks: []}
--   - {gold_supports: [{rel_path: a.md}], hits: [{chunk_id: x}, {chunk_id: x}, {chunk_id: y, rel_path: a.md}], parameters: {dedupe_hits: true}} => {first_rank: 2, hit_ranks: [2], n_hits: 2}
with counts as (
    select
        query_key,
        count(*) as n_expected
    from labels.supports
    group by query_key
),

first_ranks as (
    select
        run_key,
        query_key,
        support_no,
        min(place) as first_rank
    from facts.support_matches
    where source = 'hit'
    group by run_key, query_key, support_no
),

found as (
    select
        run_key,
        query_key,
        min(first_rank) as first_rank,
        list(first_rank order by first_rank) as found_ranks
    from first_ranks
    group by run_key, query_key
),

matching as (
    select
        run_key,
        query_key,
        list_sort(list(distinct place)) as hit_ranks
    from facts.support_matches
    where source = 'hit'
    group by run_key, query_key
)

select
    results.run_key,
    results.query_key,
    counts.n_expected,
    found.first_rank,
    coalesce(found.found_ranks, []) as found_ranks,
    coalesce(matching.hit_ranks, []) as hit_ranks,
    results.n_hits - coalesce(len(repeated.repeated_ranks), 0) as n_hits,
    is_failed(results.error, results.timed_out) as is_error
from raw.results as results
inner join labels.queries as queries on results.query_key = queries.query_key
left join counts on results.query_key = counts.query_key
left join found on results.run_key = found.run_key and results.query_key = found.query_key
left join matching on results.run_key = matching.run_key and results.query_key = matching.query_key
left join facts.repeated_hits as repeated
    on results.run_key = repeated.run_key and results.query_key = repeated.query_key
