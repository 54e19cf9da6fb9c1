-- keys:
--   repeated_ranks: "Ascending; every rank whose chunk stands at a better rank already"
-- about: "At which ranks a chunk was retrieved once more."
-- version: 1
-- parameters: {dedupe_hits: false}
-- choices: {dedupe_hits: [false, true]}
-- why: docs/decisions.md#ax-3
-- examples:
--   - {hits: [a, b, a]} => {repeated_ranks: null}
--   - {hits: [a, b, a, b, c], parameters: {dedupe_hits: true}} => {repeated_ranks: [3, 4]}
--   - {hits: [a, b, c], parameters: {dedupe_hits: true}} => {repeated_ranks: null}

-- Without rows unless repetitions are to be left out: a chunk retrieved twice wastes a place of the list, as its reader
-- saw it. Every fact that counts ranks reads this one, so that one parameter decides for all of them.
with occurrences as (
    select
        run_key,
        query_key,
        rank,
        row_number() over (partition by run_key, query_key, chunk_key order by rank) as occurrence_no
    from raw.hits
    where $dedupe_hits
)

select
    run_key,
    query_key,
    list(rank order by rank) as repeated_ranks
from occurrences
where occurrence_no > 1
group by run_key, query_key
