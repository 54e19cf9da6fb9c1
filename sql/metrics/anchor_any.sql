-- keys:
--   "recall_any@${k}": "Whether one of the first ${k} hits matches a gold support"
-- about: "Is there one passage among the first hits that supports the answer?"
-- family: retrieval
-- headline: "recall_any@5"
-- version: 1
-- parameters: {ks: [1, 3, 5, 10], retrieval_error: zero}
-- choices: {retrieval_error: [zero, exclude]}
-- applies: answerable and n_expected > 0 and ($retrieval_error = 'zero' or not is_error)
-- scale: binary
-- range: [0, 1]
-- direction: higher
-- aggregate: mean
-- why: docs/decisions.md#a2-1
-- examples:
--   - {gold_supports: [{rel_path: a.md, heading_path: Intro}], hits: [{rel_path: x.md}, {rel_path: a.md, heading_path: Intro > Setup}]} => {"recall_any@1": 0, "recall_any@3": 1, "recall_any@10": 1}
--   - {gold_supports: [{rel_path: a.md}], hits: []} => {"recall_any@10": 0}
--   - {gold_supports: [{rel_path: a.md}], answerable: false, hits: [{rel_path: a.md}]} => {"recall_any@1": null, "recall_any@10": null}
--   - {gold_supports: [], hits: [{rel_path: a.md}]} => {"recall_any@10": null}
--   - {gold_supports: [{rel_path: a.md}], error: "no connection"} => {"recall_any@10": 0}
--   - {gold_supports: [{rel_path: a.md}], error: "no connection", parameters: {retrieval_error: exclude}} => {"recall_any@10": null}
select
    ranks.run_key,
    ranks.query_key,
    cast(coalesce(ranks.first_rank <= $k, false) as double) as "recall_any@$k",
from facts.support_ranks as ranks
inner join labels.answerable as answerable on ranks.query_key = answerable.query_key
