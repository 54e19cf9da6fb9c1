-- keys:
--   source: "hit or reference: what matches the gold support"
--   place: "The rank of the hit, or the place of the reference in the answer"
-- about: "Which hit or reference matches which gold support."
-- version: 1
-- parameters: {heading_prefix: segments, strip_heading_markers: true, require_snippets: false, snippet_rule: any}
-- choices:
--   heading_prefix: [segments, string]
--   strip_heading_markers: [true, false]
--   require_snippets: [false, true]
--   snippet_rule: [any, all]
-- why: docs/decisions.md#a2-2
-- examples:
--   - {gold_supports: [{rel_path: a.md, heading_path: Intro}], hits: [{rel_path: b.md, heading_path: Intro}, {rel_path: a.md, heading_path: "#Intro>Setup"}]} => {support_no: 0, source: hit, place: 2}
--   - {gold_supports: [{rel_path: a.md, heading_path: Intro}], hits: [{rel_path: a.md, heading_path: Introduction}]} => {support_no: null}
--   - {gold_supports: [{rel_path: a.md, heading_path: Intro}], hits: [{rel_path: a.md, heading_path: Introduction}], parameters: {heading_prefix: string}} => {support_no: 0, place: 1}
--   - {gold_supports: [{rel_path: a.md, heading_path: Intro}], hits: [{rel_path: a.md, heading_path: "#Intro"}], parameters: {strip_heading_markers: false}} => {support_no: null}
--   - {gold_supports: [{rel_path: a.md, snippets: [red, blue]}], hits: [{rel_path: a.md, text: "green"}]} => {place: 1}
--   - {gold_supports: [{rel_path: a.md, snippets: [red, blue]}], hits: [{rel_path: a.md, text: "green"}], parameters: {require_snippets: true}} => {place: null}
--   - {gold_supports: [{rel_path: a.md, snippets: [red, blue]}], hits: [{rel_path: a.md, text: "a red one"}], parameters: {require_snippets: true}} => {place: 1}
--   - {gold_supports: [{rel_path: a.md, snippets: [red, blue]}], hits: [{rel_path: a.md, text: "a red one"}], parameters: {require_snippets: true, snippet_rule: all}} => {place: null}
--   - {gold_supports: [{rel_path: a.md, snippets: [red]}], answer: {references: [{}, {rel_path: a.md}]}, parameters: {require_snippets: true}} => {source: reference, place: 2}

-- One row per hit and per reference of an answer that matches a gold support. Chunk ids play no part, so that a match
-- survives another chunking. Paths are joined first; headings are made normal once per text that is left.
with supports as (
    select
        query_key,
        support_no,
        rel_path,
        normal_heading(heading_path, $strip_heading_markers) as heading,
        snippets
    from labels.supports
),

candidates as (
    select
        hits.run_key,
        hits.query_key,
        supports.support_no,
        'hit' as source,
        kept_rank(hits.rank, repeated.repeated_ranks) as place,
        hits.heading_path,
        hits.text_key,
        supports.heading as gold_heading,
        supports.snippets
    from raw.hits as hits
    inner join supports on hits.query_key = supports.query_key and hits.rel_path = supports.rel_path
    left join facts.repeated_hits as repeated
        on hits.run_key = repeated.run_key and hits.query_key = repeated.query_key
    union all
    select
        cited.run_key,
        cited.query_key,
        supports.support_no,
        'reference' as source,
        cited.item_no as place,
        cited.heading_path,
        cited.text_key,
        supports.heading as gold_heading,
        supports.snippets
    from raw."references" as cited
    inner join supports on cited.query_key = supports.query_key and cited.rel_path = supports.rel_path
),

headings as (
    select
        heading_path,
        normal_heading(heading_path, $strip_heading_markers) as heading
    from (select distinct candidates.heading_path from candidates)
    where heading_path is not null
),

needed_texts as (
    select
        text_key,
        text
    from raw.texts
    where $require_snippets
)

select
    candidates.run_key,
    candidates.query_key,
    candidates.support_no,
    candidates.source,
    candidates.place
from candidates
left join headings on candidates.heading_path = headings.heading_path
left join needed_texts on candidates.text_key = needed_texts.text_key
where candidates.place is not null
    and heading_leads(candidates.gold_heading, coalesce(headings.heading, ''), $heading_prefix)
    and holds_snippets(needed_texts.text, candidates.snippets, $snippet_rule)
