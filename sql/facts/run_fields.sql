-- keys:
--   has_spans: "Whether a hit carries a span; true for a run without hits"
--   says_grounded: "Whether an answer says if it is grounded; true for a run without answers"
--   has_references: "Whether an answer has references; true for a run in which every result failed"
-- grain: [run_key]
-- about: "Which optional fields the hits and answers of a run carry."
-- version: 1
-- why: docs/decisions.md#ax-11
-- examples:
--   - {hits: []} => {has_spans: true, says_grounded: true, has_references: false}
--   - {error: "no connection"} => {has_references: true}
--   - {answer: {references: [{rel_path: a.md}]}} => {has_references: true}
--   - {hits: [{chunk_id: a, doc_id: d, source_spans: [{start: 0, end: 3}]}], answer: {grounded: false}} => {has_spans: true, says_grounded: true}
--   - {hits: [a], answer: {text: x}} => {has_spans: false, says_grounded: false}

with retrieved as (
    select distinct run_key
    from raw.hits
),

spanned as (
    select distinct run_key
    from raw.hit_spans
),

referred as (
    select distinct run_key
    from raw."references"
),

answered as (
    select
        run_key,
        bool_or(grounded is not null) filter (where has_answer) as says_grounded,
        bool_and(is_failed(error, timed_out)) as has_failed
    from raw.results
    group by run_key
)

select
    answered.run_key,
    retrieved.run_key is null or spanned.run_key is not null as has_spans,
    coalesce(answered.says_grounded, true) as says_grounded,
    referred.run_key is not null or answered.has_failed as has_references
from answered
left join retrieved on answered.run_key = retrieved.run_key
left join spanned on answered.run_key = spanned.run_key
left join referred on answered.run_key = referred.run_key
