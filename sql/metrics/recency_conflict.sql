-- keys: {recency_conflict_ok: "Whether the answer deals with two conflicting notes as the question asks"}
-- about: "Is a conflict between an older and a newer note dealt with as asked?"
-- family: answers
-- headline: recency_conflict_ok
-- version: 2
-- applies: >-
--   has_answer and not is_error and n_supports > 0 and case conflict_rule
--   when 'cite_newer' then n_newer > 0 when 'acknowledge_both' then is_acknowledged is not null
--   else conflict_rule is not null end
-- scale: binary
-- range: [0, 1]
-- direction: higher
-- aggregate: mean
-- why: docs/decisions.md#a2-11
-- examples:
--   - {category: recency/conflict, recency_conflict_rule: cite_newer, gold_supports: [{rel_path: old.md, recency: older}, {rel_path: new.md, recency: newer}], answer: {references: [{rel_path: old.md}, {rel_path: new.md}]}} => {recency_conflict_ok: 1}
--   - {category: recency/conflict, recency_conflict_rule: cite_newer, gold_supports: [{rel_path: old.md, recency: older}, {rel_path: new.md, recency: newer}], answer: {references: [{rel_path: old.md}]}} => {recency_conflict_ok: 0}
--   - {category: recency/conflict, recency_conflict_rule: cite_newer, gold_supports: [{rel_path: old.md}], answer: {references: [{rel_path: old.md}]}} => {recency_conflict_ok: null}
--   - {category: recency/conflict, recency_conflict_rule: cite_both, gold_supports: [{rel_path: a.md, heading_path: x}, {rel_path: a.md, heading_path: y}, {rel_path: b.md}], answer: {references: [{rel_path: a.md, heading_path: y}, {rel_path: b.md}]}} => {recency_conflict_ok: 1}
--   - {category: recency/conflict, recency_conflict_rule: cite_both, gold_supports: [{rel_path: a.md}, {rel_path: b.md}], answer: {references: [{rel_path: a.md}]}} => {recency_conflict_ok: 0}
--   - {category: recency/conflict, recency_conflict_rule: acknowledge_both, gold_supports: [{rel_path: a.md}], answer: {references: [{rel_path: a.md}]}, judge: {conflict: {acknowledged: true}}} => {recency_conflict_ok: 1}
--   - {category: recency/conflict, recency_conflict_rule: acknowledge_both, gold_supports: [{rel_path: a.md}], answer: {references: [{rel_path: a.md}]}, judge: {conflict: {acknowledged: false}}} => {recency_conflict_ok: 0}
--   - {category: recency/conflict, recency_conflict_rule: acknowledge_both, gold_supports: [{rel_path: a.md}], answer: {references: [{rel_path: a.md}]}} => {recency_conflict_ok: null}
--   - {category: factual, recency_conflict_rule: cite_both, gold_supports: [{rel_path: a.md}], answer: {references: [{rel_path: a.md}]}} => {recency_conflict_ok: null}
--   - {category: recency/conflict, gold_supports: [{rel_path: a.md}], answer: {references: [{rel_path: a.md}]}} => {recency_conflict_ok: null}
--   - {category: recency/conflict, recency_conflict_rule: cite_both, gold_supports: [{rel_path: a.md}], error: "late"} => {recency_conflict_ok: null}
--   - {category: recency/conflict, recency_conflict_rule: acknowledge_both, gold_supports: [{rel_path: a.md}], answer: {references: [{rel_path: a.md}]}, judge: {conflict: {acknowledged: true}}, judgements: [{ask: conflict, raw: '{"acknowledged": false}'}]} => {recency_conflict_ok: 0}
with newer as (
    select
        query_key,
        count(*) as n_newer
    from labels.support_recency
    where recency = 'newer'
    group by query_key
),

newer_cited as (
    select distinct
        matches.run_key,
        matches.query_key,
        true as is_newer_cited
    from facts.support_matches as matches
    inner join labels.support_recency as recency
        on matches.query_key = recency.query_key and matches.support_no = recency.support_no
    where matches.source = 'reference' and recency.recency = 'newer'
),

-- A delivered verdict counts only in a run without judgements for this ask.
judged_runs as (
    select distinct run_key
    from facts.verdicts
    where ask = 'conflict' and status <> 'skipped'
),

said as (
    select
        outcomes.run_key,
        outcomes.query_key,
        outcomes.has_answer,
        outcomes.is_error,
        case when judged_runs.run_key is null then outcomes.is_acknowledged else judged.verdict end as is_acknowledged
    from facts.outcomes as outcomes
    left join judged_runs on outcomes.run_key = judged_runs.run_key
    left join facts.verdicts as judged
        on
            outcomes.run_key = judged.run_key
            and outcomes.query_key = judged.query_key
            and judged.ask = 'conflict'
)

select
    said.run_key,
    said.query_key,
    cast(
        case rules.conflict_rule
            when 'cite_newer' then coalesce(newer_cited.is_newer_cited, false)
            when 'acknowledge_both' then checks.n_notes_cited = checks.n_notes and said.is_acknowledged
            else checks.n_notes_cited = checks.n_notes
        end as double
    ) as recency_conflict_ok
from said
inner join facts.reference_checks as checks
    on said.run_key = checks.run_key and said.query_key = checks.query_key
left join labels.conflict_rules as rules on said.query_key = rules.query_key
left join newer on said.query_key = newer.query_key
left join newer_cited
    on said.run_key = newer_cited.run_key and said.query_key = newer_cited.query_key
