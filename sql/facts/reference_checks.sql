-- keys:
--   n_supports: "How many gold supports the query has"
--   n_supports_cited: "How many of them a reference of the answer matches"
--   n_notes: "How many different files the gold supports lie in"
--   n_notes_cited: "In how many of them a support is matched by a reference"
-- about: "How many gold supports the references of an answer match."
-- version: 1
-- why: docs/decisions.md#a2-11
-- examples:
--   - {gold_supports: [{rel_path: a.md}, {rel_path: b.md}], answer: {references: [{rel_path: b.md}, {rel_path: x.md}]}} => {n_supports: 2, n_supports_cited: 1, n_notes: 2, n_notes_cited: 1}
--   - {gold_supports: [{rel_path: a.md, heading_path: Intro}, {rel_path: a.md, heading_path: Setup}], answer: {references: [{rel_path: a.md, heading_path: Setup}]}} => {n_supports: 2, n_supports_cited: 1, n_notes: 1, n_notes_cited: 1}
--   - {gold_supports: [{rel_path: a.md}]} => {n_supports: 1, n_supports_cited: 0, n_notes: 1, n_notes_cited: 0}
--   - {answer: {references: [{rel_path: b.md}]}} => {n_supports: 0, n_supports_cited: 0, n_notes: 0, n_notes_cited: 0}
with counts as (
    select
        query_key,
        count(*) as n_supports,
        count(distinct rel_path) as n_notes
    from labels.supports
    group by query_key
),

cited as (
    select
        matches.run_key,
        matches.query_key,
        count(distinct matches.support_no) as n_supports_cited,
        count(distinct supports.rel_path) as n_notes_cited
    from facts.support_matches as matches
    inner join labels.supports as supports
        on matches.query_key = supports.query_key and matches.support_no = supports.support_no
    where matches.source = 'reference'
    group by matches.run_key, matches.query_key
)

select
    results.run_key,
    results.query_key,
    coalesce(counts.n_supports, 0) as n_supports,
    coalesce(cited.n_supports_cited, 0) as n_supports_cited,
    coalesce(counts.n_notes, 0) as n_notes,
    coalesce(cited.n_notes_cited, 0) as n_notes_cited
from raw.results as results
inner join labels.queries as queries on results.query_key = queries.query_key
left join counts on results.query_key = counts.query_key
left join cited on results.run_key = cited.run_key and results.query_key = cited.query_key
