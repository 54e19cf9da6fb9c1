-- keys: {empty_result_rate: "Whether the query came back without a single hit"}
-- about: "How many queries found nothing at all?"
-- family: failures
-- headline: empty_result_rate
-- version: 1
-- scale: binary
-- range: [0, 1]
-- direction: lower
-- aggregate: mean
-- why: docs/decisions.md#a3-11
-- examples:
--   - {hits: []} => {empty_result_rate: 1}
--   - {hits: [a]} => {empty_result_rate: 0}
--   - {error: "no connection"} => {empty_result_rate: 1}
select
    run_key,
    query_key,
    cast(n_hits = 0 as double) as empty_result_rate
from facts.outcomes
