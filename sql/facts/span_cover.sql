-- keys:
--   n_spans: "How many spans are labelled; null when the query has no such label or an empty list"
--   expected_chars: "How many characters the labelled spans cover, each once"
--   retrieved_chars: "How many characters the spans of all stored hits cover, each once; null when not measured"
--   shared_chars: "How many characters both cover"
--   is_error: "Whether the result carries an error text or timed out"
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

-- A span counts for what the spans before it, in order of their start, leave uncovered: the pieces cover exactly the
-- union. One pass does it for the retrieved spans and for both sides together; what both share is what the second
-- union falls short of the sum. No span is joined with another, however many there are.
with expected_before as (
    select
        query_key,
        "start",
        "end",
        max("end") over (
            partition by query_key, doc_key
            order by "start", "end"
            rows between unbounded preceding and 1 preceding
        ) as covered_to
    from labels.spans
),

expected as (
    select
        query_key,
        count(*) as n_spans,
        cast(sum(greatest("end" - greatest("start", covered_to), 0)) as bigint) as chars
    from expected_before
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

spans as (
    select
        hit_spans.run_key,
        hit_spans.query_key,
        hit_spans.doc_key,
        hit_spans."start",
        hit_spans."end",
        hit_spans."end" as retrieved_end
    from raw.hit_spans as hit_spans
    inner join measured on hit_spans.query_key = measured.query_key
    left join facts.repeated_hits as repeated
        on hit_spans.run_key = repeated.run_key and hit_spans.query_key = repeated.query_key
    where kept_rank(hit_spans.rank, repeated.repeated_ranks) is not null
    union all
    select
        results.run_key,
        results.query_key,
        labelled.doc_key,
        labelled."start",
        labelled."end",
        null as retrieved_end
    from raw.results as results
    inner join labels.spans as labelled on results.query_key = labelled.query_key
),

covered_before as (
    select
        run_key,
        query_key,
        "start",
        "end",
        retrieved_end,
        max("end") over earlier as covered_to,
        max(retrieved_end) over earlier as retrieved_to
    from spans
    window earlier as (
        partition by run_key, query_key, doc_key
        order by "start", "end"
        rows between unbounded preceding and 1 preceding
    )
),

totals as (
    select
        run_key,
        query_key,
        cast(sum(greatest("end" - greatest("start", covered_to), 0)) as bigint) as union_chars,
        cast(sum(greatest(retrieved_end - greatest("start", retrieved_to), 0)) as bigint) as retrieved_chars
    from covered_before
    group by run_key, query_key
)

select
    results.run_key,
    results.query_key,
    measured.n_spans,
    measured.expected_chars,
    case when measured.query_key is not null then coalesce(totals.retrieved_chars, 0) end as retrieved_chars,
    measured.expected_chars + coalesce(totals.retrieved_chars, 0) - coalesce(totals.union_chars, 0) as shared_chars,
    is_failed(results.error, results.timed_out) as is_error
from raw.results as results
inner join labels.queries as queries on results.query_key = queries.query_key
left join measured on results.query_key = measured.query_key
left join totals on results.run_key = totals.run_key and results.query_key = totals.query_key
