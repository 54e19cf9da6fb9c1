-- keys: {mrr_anchor: "Reciprocal rank of the first hit that matches a gold support"}
-- about: "How far up does the first passage stand that supports the answer?"
-- family: retrieval
-- headline: mrr_anchor
-- version: 1
-- parameters: {mrr_anchor_cutoff: none, retrieval_error: zero}
-- choices:
--   mrr_anchor_cutoff: [none, whole number]
--   retrieval_error: [zero, exclude]
-- applies: answerable and n_expected > 0 and ($retrieval_error = 'zero' or not is_error)
-- undefined: 0 when no hit matches
-- scale: fraction
-- range: [0, 1]
-- direction: higher
-- aggregate: mean
-- why: docs/decisions.md#a2-10
-- examples:
--   - {gold_supports: [{rel_path: a.md}], hits: [{rel_path: x.md}, {rel_path: a.md}, {rel_path: a.md}]} => {mrr_anchor: 0.5}
--   - {gold_supports: [{rel_path: a.md}], hits: [b, c, d, e, f, g, h, i, j, k, {rel_path: a.md}]} => {mrr_anchor: 0.09090909090909091}
--   - {gold_supports: [{rel_path: a.md}], hits: [b, c, d, e, f, g, h, i, j, k, {rel_path: a.md}], parameters: {mrr_anchor_cutoff: 10}} => {mrr_anchor: 0}
--   - {gold_supports: [{rel_path: a.md}], hits: [{rel_path: x.md}]} => {mrr_anchor: 0}
--   - {gold_supports: [{rel_path: a.md}], expected_doc_ids: [], hits: [{rel_path: a.md}]} => {mrr_anchor: null}
--   - {gold_supports: [{rel_path: a.md}], hits: [], error: "late", parameters: {retrieval_error: exclude}} => {mrr_anchor: null}
select
    ranks.run_key,
    ranks.query_key,
    case
        when ranks.first_rank <= coalesce(try_cast(cast($mrr_anchor_cutoff as varchar) as integer), ranks.first_rank)
            then cast(1 as double) / ranks.first_rank
        else 0
    end as mrr_anchor
from facts.support_ranks as ranks
inner join labels.answerable as answerable on ranks.query_key = answerable.query_key
