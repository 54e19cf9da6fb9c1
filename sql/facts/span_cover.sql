-- keys:
--   n_spans: "How many spans are labelled; null when the query has no such label or an empty list"
--   expected_chars: "How many characters the labelled spans cover, each once"
--   retrieved_chars: "How many characters the spans of all stored hits cover, each once; null when not measured"
--   shared_chars: "How many characters both cover"
--   is_error: "Whether the result carries an error text or timed out"
-- about: "How many characters of the labelled spans the retrieved ones cover."
-- version: 1
-- parameters: {s0_vacuous: exclude}
-- choices: {s0_vacuous: [exclude, include]}
-- why: docs/decisions.md#a0-3
-- examples:
--   - {ground_truth_spans: [{doc_id: d, start: 0, end: 100}], hits: [{doc_id: d, source_spans: [{start: 50, end: 150}]}, {doc_id: e, source_spans: [{start: 0, end: 7}]}]} => {n_spans: 1, expected_chars: 100, retrieved_chars: 107, shared_chars: 50, is_error: false}
--   - {ground_truth_spans: [{doc_id: d, start: 0, end: 50}, {doc_id: d, start: 30, end: 80}, {doc_id: d, start: 80, end: 90}], hits: []} => {n_spans: 3, expected_chars: 90, retrieved_chars: 0, shared_chars: 0}
--   - {ground_truth_spans: [{doc_id: d, start: 5, end: 5}], hits: [{doc_id: d, source_spans: [{start: 0, end: 9}, {start: 2, end: 4}]}]} => {n_spans: 1, expected_chars: 0, retrieved_chars: 9, shared_chars: 0}
--   - {hits: [{doc_id: d, source_spans: [{start: 0, end: 9}]}]} => {n_spans: null, expected_chars: null, retrieved_chars: null, shared_chars: null}
--   - {hits: [{doc_id: d, source_spans: [{start: 0, end: 9}]}], parameters: {s0_vacuous: include}} => {n_spans: null, expected_chars: 0, retrieved_chars: 9, shared_chars: 0}

-- A span counts for what the spans before it, in order of their start, leave uncovered: the pieces are disjoint and cover
-- exactly the union. Spans with the same start may come in any order, for their pieces add up to the same. What both
-- sides share is what the pieces of the one share with the pieces of the other.
with expected_before as (
    select
        query_key,
        doc_key,
        "start",
        "end",
        max("end") over (
            partition by query_key, doc_key
            order by "start"
            rows between unbounded preceding and 1 preceding
        ) as covered_to
    from labels.spans
),

expected_pieces as (
    select
        query_key,
        doc_key,
        greatest("start", covered_to) as "start",
        "end"
    from expected_before
),

expected as (
    select
        query_key,
        count(*) as n_spans,
        cast(sum(greatest("end" - "start", 0)) as bigint) as chars
    from expected_pieces
    group by query_key
),

measured as (
    select
        queries.query_key,
        expected.n_spans,
        coalesce(expected.chars, 0) as expected_chars
    from labels.queries as queries
    left join expected on queries.query_key = expected.query_key
    where expected.n_spans > 0 or $s0_vacuous = 'include'
),

retrieved_before as (
    select
        hit_spans.run_key,
        hit_spans.query_key,
        hit_spans.doc_key,
        hit_spans."start",
        hit_spans."end",
        max(hit_spans."end") over (
            partition by hit_spans.run_key, hit_spans.query_key, hit_spans.doc_key
            order by hit_spans."start"
            rows between unbounded preceding and 1 preceding
        ) as covered_to
    from raw.hit_spans as hit_spans
    left join facts.repeated_hits as repeated
        on hit_spans.run_key = repeated.run_key and hit_spans.query_key = repeated.query_key
    where kept_rank(hit_spans.rank, repeated.repeated_ranks) is not null
),

retrieved_pieces as (
    select
        run_key,
        query_key,
        doc_key,
        greatest("start", covered_to) as "start",
        "end"
    from retrieved_before
),

retrieved as (
    select
        run_key,
        query_key,
        cast(sum(greatest("end" - "start", 0)) as bigint) as chars
    from retrieved_pieces
    group by run_key, query_key
),

shared as (
    select
        one.run_key,
        one.query_key,
        cast(sum(greatest(least(one."end", other."end") - greatest(one."start", other."start"), 0)) as bigint) as chars
    from retrieved_pieces as one
    inner join expected_pieces as other on one.query_key = other.query_key and one.doc_key = other.doc_key
    where other."end" > other."start"
    group by one.run_key, one.query_key
)

select
    results.run_key,
    results.query_key,
    measured.n_spans,
    measured.expected_chars,
    case when measured.query_key is not null then coalesce(retrieved.chars, 0) end as retrieved_chars,
    case when measured.query_key is not null then coalesce(shared.chars, 0) end as shared_chars,
    is_failed(results.error, results.timed_out) as is_error
from raw.results as results
inner join labels.queries as queries on results.query_key = queries.query_key
left join measured on results.query_key = measured.query_key
left join retrieved on results.run_key = retrieved.run_key and results.query_key = retrieved.query_key
left join shared on results.run_key = shared.run_key and results.query_key = shared.query_key
