-- keys:
--   hit_ranks: "Every rank that holds a support which one of the required groups names, each once"
-- about: "At which ranks a support of a required group was retrieved."
-- version: 1
-- why: docs/decisions.md#a2-9
-- examples:
--   - {multi_hop: true, gold_supports: [{rel_path: a.md}, {rel_path: b.md}], required_support_groups: [[1]], hits: [{rel_path: a.md}, {rel_path: b.md}]} => {hit_ranks: [2]}
--   - {category: multi_hop, gold_supports: [{rel_path: a.md}], required_support_groups: [[0]], hits: []} => {hit_ranks: []}
--   - {gold_supports: [{rel_path: a.md}], required_support_groups: [[0]], hits: [{rel_path: a.md}]} => {hit_ranks: null}

-- Only multi-hop queries with groups have a row.
with required as (
    select distinct
        members.query_key,
        members.support_no
    from labels.support_groups as members
    inner join labels.multi_hop as multi_hop on members.query_key = multi_hop.query_key
),

matching as (
    select
        matches.run_key,
        matches.query_key,
        list_sort(list(distinct matches.place)) as hit_ranks
    from facts.support_matches as matches
    inner join required
        on matches.query_key = required.query_key and matches.support_no = required.support_no
    where matches.source = 'hit'
    group by matches.run_key, matches.query_key
)

select
    results.run_key,
    results.query_key,
    coalesce(matching.hit_ranks, []) as hit_ranks
from raw.results as results
inner join (select distinct required.query_key from required) as queries
    on results.query_key = queries.query_key
left join matching on results.run_key = matching.run_key and results.query_key = matching.query_key
