-- keys:
--   first_rank: "The first rank that holds a support of the group; null when none does"
--   complete_rank: "The rank at which the last support of the group was found; null when one is missing"
-- about: "At which rank each group of gold supports was first met, and complete."
-- version: 1
-- why: docs/decisions.md#a2-6
-- examples:
--   - {gold_supports: [{rel_path: a.md}, {rel_path: b.md}], required_support_groups: [[0, 1]], hits: [{rel_path: b.md}, {rel_path: x.md}, {rel_path: a.md}]} => {group_no: 1, first_rank: 1, complete_rank: 3}
--   - {gold_supports: [{rel_path: a.md}, {rel_path: b.md}], required_support_groups: [[0, 1], [1]], hits: [{rel_path: b.md}]} => [{group_no: 1, first_rank: 1, complete_rank: null}, {group_no: 2, first_rank: 1, complete_rank: 1}]
--   - {gold_supports: [{rel_path: a.md}], required_support_groups: [[0]], hits: []} => {group_no: 1, first_rank: null, complete_rank: null}
--   - {gold_supports: [{rel_path: a.md}], hits: [{rel_path: a.md}]} => {group_no: null}
with first_ranks as (
    select
        run_key,
        query_key,
        support_no,
        min(place) as first_rank
    from facts.support_matches
    where source = 'hit'
    group by run_key, query_key, support_no
)

select
    results.run_key,
    results.query_key,
    members.group_no,
    min(first_ranks.first_rank) as first_rank,
    case when count(*) = count(first_ranks.first_rank) then max(first_ranks.first_rank) end as complete_rank
from raw.results as results
inner join labels.support_groups as members on results.query_key = members.query_key
left join first_ranks
    on results.run_key = first_ranks.run_key
    and results.query_key = first_ranks.query_key
    and members.support_no = first_ranks.support_no
group by results.run_key, results.query_key, members.group_no
