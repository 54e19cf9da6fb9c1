-- keys:
--   n_retrieved: "How many different chunks were retrieved, over all stored hits"
-- about: "How many different chunks were retrieved for a query."
-- version: 1
-- why: docs/decisions.md#a0-2
-- examples:
--   - {hits: [a, b, a]} => {n_retrieved: 2}
--   - {hits: []} => {n_retrieved: 0}
--   - {error: "no connection"} => {n_retrieved: 0}
with retrieved as (
    select
        run_key,
        query_key,
        count(distinct chunk_key) as n_retrieved
    from raw.hits
    group by run_key, query_key
)

select
    results.run_key,
    results.query_key,
    coalesce(retrieved.n_retrieved, 0) as n_retrieved
from raw.results as results
inner join labels.queries as queries on results.query_key = queries.query_key
left join retrieved on results.run_key = retrieved.run_key and results.query_key = retrieved.query_key
