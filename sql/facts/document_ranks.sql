-- keys:
--   n_expected: "How many different documents are expected; null when the query has no such label"
--   first_rank: "The first rank that holds an expected document; null when none does"
--   found_ranks: "Ascending, one per expected document that was found: its first rank"
--   hit_ranks: "Every rank that holds an expected document; a document retrieved in several chunks stands here several times"
--   is_error: "Whether the result carries an error text or timed out"
-- about: "At which ranks the expected documents were retrieved."
-- version: 1
-- why: docs/decisions.md#a3-3
-- examples:
--   - {expected_doc_ids: [a, b], hits: [x, a, a]} => {n_expected: 2, first_rank: 2, found_ranks: [2], hit_ranks: [2, 3]}
--   - {expected_doc_ids: [], hits: [a]} => {n_expected: 0, first_rank: null, found_ranks: [], hit_ranks: []}
--   - {hits: [a]} => {n_expected: null, first_rank: null, found_ranks: [], hit_ranks: []}
--   - {expected_doc_ids: [b], hits: [a, a, b], error: "late", parameters: {dedupe_hits: true}} => {first_rank: 2, found_ranks: [2], hit_ranks: [2], is_error: true}
--   - {expected_doc_ids: [a, b, c, d, e, f, g], hits: [x, g, a, a]} => {n_expected: 7, first_rank: 2, found_ranks: [2, 3], hit_ranks: [2, 3, 4]}
--   - {expected_doc_ids: [a, b, c, d, e, f], hits: [b, x, x, x, x, x, x, x, x, x, f, a]} => {n_expected: 6, found_ranks: [1, 11, 12], hit_ranks: [1, 11, 12]}

-- A result's marks are one whole number (see rank_mark): gathering numbers is several times faster than gathering lists,
-- and every different set of marks is unpacked once. Results whose marks do not hold everything, because more than six
-- documents are expected or a rank is too large, are done row by row at the end.
with expected as (
    select
        items.query_key,
        items.item_no,
        items.doc_key,
        case when counts.n_expected <= 6 then 60 // nullif(counts.n_expected, 0) else 0 end as width
    from labels.expected_documents as items
    inner join labels.expected_document_counts as counts on items.query_key = counts.query_key
),

found as materialized (
    select
        hits.run_key,
        hits.query_key,
        expected.item_no,
        expected.width,
        cast(kept_rank(hits.rank, repeated.repeated_ranks) as integer) as rank
    from raw.hits as hits
    inner join expected on hits.query_key = expected.query_key and hits.doc_key = expected.doc_key
    left join facts.repeated_hits as repeated
        on hits.run_key = repeated.run_key and hits.query_key = repeated.query_key
    where kept_rank(hits.rank, repeated.repeated_ranks) is not null
),

marked as (
    select
        run_key,
        query_key,
        rank_mark(width, item_no, rank) as mark,
        false as is_error
    from found
    union all
    select
        results.run_key,
        results.query_key,
        cast(case when counts.n_expected <= 6 then counts.n_expected else 0 end as bigint) << 60 as mark,
        is_failed(results.error, results.timed_out) as is_error
    from raw.results as results
    inner join labels.queries as queries on results.query_key = queries.query_key
    left join labels.expected_document_counts as counts on results.query_key = counts.query_key
),

gathered as (
    select
        run_key,
        query_key,
        bit_or(mark) as marks,
        bool_or(is_error) as is_error
    from marked
    group by run_key, query_key
),

-- A condition on the group, not on its rows: so the planner sees that these are few and joins them as the small side.
unpacked as (
    select
        marks,
        found_ranks_in(marks) as found_ranks,
        hit_ranks_in(marks) as hit_ranks
    from gathered
    group by marks
    having bit_or(marks) >> 60 < 7
),

row_by_row as (
    select
        found.run_key,
        found.query_key,
        found.rank,
        gathered.is_error,
        row_number() over (
            partition by found.run_key, found.query_key, found.item_no
            order by found.rank
        ) = 1 as is_first
    from found
    inner join gathered on found.run_key = gathered.run_key and found.query_key = gathered.query_key
    where gathered.marks >> 60 = 7
),

ranks as (
    select
        gathered.run_key,
        gathered.query_key,
        unpacked.found_ranks,
        unpacked.hit_ranks,
        gathered.is_error
    from gathered
    inner join unpacked on gathered.marks = unpacked.marks
    union all
    select
        run_key,
        query_key,
        list(rank order by rank) filter (where is_first) as found_ranks,
        list(rank order by rank) as hit_ranks,
        bool_or(is_error) as is_error
    from row_by_row
    group by run_key, query_key
)

select
    ranks.run_key,
    ranks.query_key,
    counts.n_expected,
    ranks.found_ranks[1] as first_rank,
    ranks.found_ranks,
    ranks.hit_ranks,
    ranks.is_error
from ranks
left join labels.expected_document_counts as counts on ranks.query_key = counts.query_key
