-- keys:
--   "recall_all@${k}": "Whether the first ${k} hits hold every support that a multi-hop question needs"
-- about: "Are all the passages there that a question of several steps needs?"
-- family: retrieval
-- headline: "recall_all@5"
-- version: 1
-- parameters: {ks: [1, 3, 5, 10], support_groups: any_group, retrieval_error: zero}
-- choices:
--   support_groups: [any_group, every_group, all]
--   retrieval_error: [zero, exclude]
-- applies: answerable and is_multi_hop and n_groups > 0 and ($retrieval_error = 'zero' or not is_error)
-- scale: binary
-- range: [0, 1]
-- direction: higher
-- aggregate: mean
-- why: docs/decisions.md#a2-6
-- examples:
--   - {multi_hop: true, gold_supports: [{rel_path: a.md}, {rel_path: b.md}], required_support_groups: [[0, 1]], hits: [{rel_path: a.md}, {rel_path: b.md}]} => {"recall_all@1": 0, "recall_all@3": 1}
--   - {multi_hop: true, gold_supports: [{rel_path: a.md}, {rel_path: b.md}], required_support_groups: [[0, 1]], hits: [{rel_path: a.md}]} => {"recall_all@10": 0}
--   - {category: multi_hop, gold_supports: [{rel_path: a.md}, {rel_path: b.md}, {rel_path: c.md}], required_support_groups: [[0, 1], [2]], hits: [{rel_path: c.md}]} => {"recall_all@1": 1}
--   - {multi_hop: true, gold_supports: [{rel_path: a.md}, {rel_path: b.md}, {rel_path: c.md}], required_support_groups: [[0, 1], [2]], hits: [{rel_path: c.md}, {rel_path: b.md}], parameters: {support_groups: every_group}} => {"recall_all@1": 0, "recall_all@3": 1}
--   - {multi_hop: true, gold_supports: [{rel_path: a.md}, {rel_path: b.md}, {rel_path: c.md}], required_support_groups: [[0, 1], [2]], hits: [{rel_path: c.md}, {rel_path: b.md}], parameters: {support_groups: all}} => {"recall_all@10": 0}
--   - {multi_hop: true, gold_supports: [{rel_path: a.md}], hits: [{rel_path: a.md}]} => {"recall_all@10": null}
--   - {category: factual, gold_supports: [{rel_path: a.md}], required_support_groups: [[0]], hits: [{rel_path: a.md}]} => {"recall_all@10": null}
--   - {multi_hop: true, gold_supports: [{rel_path: a.md}], required_support_groups: [[0]], timed_out: true, parameters: {retrieval_error: exclude}} => {"recall_all@10": null}
with complete as (
    select
        run_key,
        query_key,
        count(*) as n_groups,
        case
            when $support_groups = 'any_group' then min(complete_rank)
            when $support_groups = 'every_group' and count(first_rank) = count(*) then max(first_rank)
            when $support_groups = 'all' and count(complete_rank) = count(*) then max(complete_rank)
        end as all_rank
    from facts.group_ranks
    group by run_key, query_key
)

select
    outcomes.run_key,
    outcomes.query_key,
    cast(coalesce(complete.all_rank <= $k, false) as double) as "recall_all@$k",
from facts.outcomes as outcomes
inner join labels.answerable as answerable on outcomes.query_key = answerable.query_key
left join (select query_key, true as is_multi_hop from labels.multi_hop) as multi_hop
    on outcomes.query_key = multi_hop.query_key
left join complete on outcomes.run_key = complete.run_key and outcomes.query_key = complete.query_key
