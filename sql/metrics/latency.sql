-- keys:
--   latency_total_ms: "Time the query took"
--   latency_folder_selection_ms: "Time for choosing folders"
--   latency_retrieval_ms: "Time for retrieval"
--   latency_generation_ms: "Time for writing the answer"
--   latency_judge_ms: "Time for judging it"
-- about: "How long did a query take, and in which stage?"
-- family: latency
-- headline: latency_total_ms
-- version: 1
-- undefined: null for a time that was not recorded, or is negative; failed queries count like all others
-- scale: ms
-- range: [0, null]
-- direction: lower
-- aggregate: quantile(0.95)
-- why: docs/decisions.md#a2-19
-- examples:
--   - {latency_ms: {total: 120, retrieval: 20.5}} => {latency_total_ms: 120, latency_retrieval_ms: 20.5, latency_judge_ms: null}
--   - {latency_ms: {total: -1, judge: 0}} => {latency_total_ms: null, latency_judge_ms: 0}
--   - {timed_out: true, latency_ms: {total: 30000}} => {latency_total_ms: 30000}
--   - {hits: [a]} => {latency_total_ms: null}
select
    results.run_key,
    results.query_key,
    case when results.total_ms >= 0 then results.total_ms end as latency_total_ms,
    case when results.folder_selection_ms >= 0 then results.folder_selection_ms end as latency_folder_selection_ms,
    case when results.retrieval_ms >= 0 then results.retrieval_ms end as latency_retrieval_ms,
    case when results.generation_ms >= 0 then results.generation_ms end as latency_generation_ms,
    case when results.judge_ms >= 0 then results.judge_ms end as latency_judge_ms
from raw.results as results
inner join labels.queries as queries on results.query_key = queries.query_key
