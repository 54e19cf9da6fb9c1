-- keys:
--   n_spans: "How many labelled spans have characters; 0 when none has"
--   first_rank: "The first rank whose spans cover at least the share of one labelled span of the same document, or of the smaller of hit and expected chunk"
--   is_error: "Whether the result carries an error text or timed out"
-- about: "At which rank a labelled span was first covered well enough."
-- version: 2
-- parameters: {share: 0.5}
-- why: docs/decisions.md#g-5
-- examples:
--   - {ground_truth_spans: [{doc_id: d, start: 0, end: 10}], hits: [{doc_id: d, source_spans: [{start: 6, end: 20}]}, {doc_id: d, source_spans: [{start: 5, end: 20}]}]} => {n_spans: 1, first_rank: 2, is_error: false}
--   - {ground_truth_spans: [{doc_id: d, start: 0, end: 10}], hits: [{doc_id: d, source_spans: [{start: 0, end: 3}, {start: 1, end: 4}]}]} => {first_rank: null}
--   - {ground_truth_spans: [{doc_id: d, start: 0, end: 10}], hits: [{doc_id: e, source_spans: [{start: 0, end: 10}]}, {doc_id: e, source_spans: [{doc_id: d, start: 0, end: 2}, {doc_id: d, start: 7, end: 10}]}]} => {first_rank: 2}
--   - {ground_truth_spans: [{doc_id: d, start: 0, end: 4}, {doc_id: d, start: 4, end: 8}], hits: [{doc_id: d, source_spans: [{start: 3, end: 5}]}]} => {n_spans: 2, first_rank: null}
--   - {ground_truth_spans: [{doc_id: d, start: 0, end: 10}], hits: [{doc_id: d, source_spans: [{start: 0, end: 3}]}], parameters: {share: 0.3}} => {first_rank: 1}
--   - {ground_truth_spans: [{doc_id: d, start: 4, end: 4}], hits: [{doc_id: d, source_spans: [{start: 0, end: 9}]}]} => {n_spans: 0, first_rank: null}
--   - {hits: [{doc_id: d, source_spans: [{start: 0, end: 9}]}]} => {n_spans: 0, first_rank: null}

-- labels.chunk_spans has the characters of expected chunks, in runs of another chunker alone. A chunk counts as a whole,
-- and may be larger than any hit: the share is of the smaller of the two, as in comparisons.
with wanted as (
    select
        query_key,
        doc_key,
        "start",
        "end",
        false as is_chunk,
        span_no as item_no,
        "end" - "start" as chars
    from labels.spans
    where "end" > "start"
    union all
    select
        query_key,
        doc_key,
        "start",
        "end",
        true as is_chunk,
        chunk_key as item_no,
        sum("end" - "start") over (partition by query_key, chunk_key) as chars
    from labels.chunk_spans
    where "end" > "start"
),

-- The spans of a hit as disjoint pieces, as in facts.span_cover, but hit by hit: two hits do not add up.
before as (
    select
        hit_spans.run_key,
        hit_spans.query_key,
        hit_spans.rank,
        hit_spans.doc_key,
        hit_spans."start",
        hit_spans."end",
        max(hit_spans."end") over (
            partition by hit_spans.run_key, hit_spans.query_key, hit_spans.rank, hit_spans.doc_key
            order by hit_spans."start"
            rows between unbounded preceding and 1 preceding
        ) as covered_to
    from raw.hit_spans as hit_spans
    semi join wanted on hit_spans.query_key = wanted.query_key and hit_spans.doc_key = wanted.doc_key
),

sizes as (
    select
        run_key,
        query_key,
        rank,
        sum(greatest("end" - greatest("start", covered_to), 0)) as chars
    from before
    group by run_key, query_key, rank
),

covering as (
    select
        one.run_key,
        one.query_key,
        one.rank
    from before as one
    inner join sizes on one.run_key = sizes.run_key and one.query_key = sizes.query_key and one.rank = sizes.rank
    inner join wanted on one.query_key = wanted.query_key and one.doc_key = wanted.doc_key
    group by one.run_key, one.query_key, one.rank, wanted.item_no, wanted.is_chunk, wanted.chars, sizes.chars
    having
        sum(greatest(least(one."end", wanted."end") - greatest(one."start", one.covered_to, wanted."start"), 0))
        / nullif(cast(case when wanted.is_chunk then least(wanted.chars, sizes.chars) else wanted.chars end as double), 0)
        >= $share
),

first_places as (
    select
        covering.run_key,
        covering.query_key,
        cast(min(kept_rank(covering.rank, repeated.repeated_ranks)) as integer) as first_rank
    from covering
    left join facts.repeated_hits as repeated
        on covering.run_key = repeated.run_key and covering.query_key = repeated.query_key
    group by covering.run_key, covering.query_key
),

counts as (
    select
        query_key,
        count(*) as n_spans
    from wanted
    group by query_key
)

select
    results.run_key,
    results.query_key,
    coalesce(counts.n_spans, 0) as n_spans,
    first_places.first_rank,
    is_failed(results.error, results.timed_out) as is_error
from raw.results as results
inner join labels.queries as queries on results.query_key = queries.query_key
left join counts on results.query_key = counts.query_key
left join first_places on results.run_key = first_places.run_key and results.query_key = first_places.query_key
