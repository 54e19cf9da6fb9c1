-- keys:
--   "precision@${k}": "Share of the first ${k} places whose hit matches a gold support"
-- about: "How much of what is read first supports the answer?"
-- family: retrieval
-- headline: "precision@5"
-- version: 1
-- parameters: {ks: [1, 3, 5, 10], precision_denominator: k, precision_multi_hop: any_gold, retrieval_error: zero}
-- choices:
--   precision_denominator: [k, retrieved]
--   precision_multi_hop: [any_gold, required_only]
--   retrieval_error: [zero, exclude]
-- applies: answerable and n_expected > 0 and ($retrieval_error = 'zero' or not is_error)
-- undefined: 0 when nothing was retrieved
-- scale: fraction
-- range: [0, 1]
-- direction: higher
-- aggregate: mean
-- why: docs/decisions.md#a2-8
-- examples:
--   - {gold_supports: [{rel_path: a.md}], hits: [{rel_path: a.md}, {rel_path: x.md}]} => {"precision@1": 1, "precision@5": 0.2, "precision@10": 0.1}
--   - {gold_supports: [{rel_path: a.md}], hits: [{rel_path: a.md}, {rel_path: x.md}], parameters: {precision_denominator: retrieved}} => {"precision@1": 1, "precision@5": 0.5, "precision@10": 0.5}
--   - {gold_supports: [{rel_path: a.md}], hits: []} => {"precision@1": 0}
--   - {gold_supports: [{rel_path: a.md}], hits: [], parameters: {precision_denominator: retrieved}} => {"precision@1": 0}
--   - {multi_hop: true, gold_supports: [{rel_path: a.md}, {rel_path: b.md}], required_support_groups: [[1]], hits: [{rel_path: a.md}]} => {"precision@1": 1}
--   - {multi_hop: true, gold_supports: [{rel_path: a.md}, {rel_path: b.md}], required_support_groups: [[1]], hits: [{rel_path: a.md}], parameters: {precision_multi_hop: required_only}} => {"precision@1": 0}
--   - {gold_supports: [{rel_path: a.md}], hits: [{chunk_id: x, rel_path: a.md}, {chunk_id: x, rel_path: a.md}, {chunk_id: y}]} => {"precision@3": 0.6666666666666666}
--   - {gold_supports: [], hits: [{rel_path: a.md}]} => {"precision@1": null}
--   - {gold_supports: [{rel_path: a.md}], hits: [{rel_path: a.md}], error: "late", parameters: {retrieval_error: exclude}} => {"precision@1": null}
with counted as (
    select
        ranks.run_key,
        ranks.query_key,
        ranks.n_expected,
        ranks.is_error,
        case when $precision_denominator = 'retrieved' then ranks.n_hits end as n_hits,
        case
            when $precision_multi_hop = 'required_only' then coalesce(required.hit_ranks, ranks.hit_ranks)
            else ranks.hit_ranks
        end as hit_ranks
    from facts.support_ranks as ranks
    left join facts.required_ranks as required
        on ranks.run_key = required.run_key and ranks.query_key = required.query_key
)

select
    counted.run_key,
    counted.query_key,
    coalesce(count_within(hit_ranks, $k) / nullif(cast(least(n_hits, $k) as double), 0), 0) as "precision@$k",
from counted
inner join labels.answerable as answerable on counted.query_key = answerable.query_key
