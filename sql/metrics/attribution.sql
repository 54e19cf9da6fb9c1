-- keys: {attribution_hit_rate: "Whether a reference of the answer matches a gold support"}
-- about: "Does the answer refer to a passage that supports it?"
-- family: answers
-- headline: attribution_hit_rate
-- version: 2
-- parameters: {attribution_rows: all}
-- choices: {attribution_rows: [all, answered]}
-- applies: answerable and n_supports > 0 and has_references and ($attribution_rows = 'all' or has_answer or is_error)
-- undefined: 0 for an error and for a result without an answer
-- scale: binary
-- range: [0, 1]
-- direction: higher
-- aggregate: mean
-- why: docs/decisions.md#a2-14
-- examples:
--   - {gold_supports: [{rel_path: a.md, heading_path: Intro}], answer: {references: [{rel_path: x.md}, {rel_path: a.md, heading_path: Intro > Setup}]}} => {attribution_hit_rate: 1}
--   - {gold_supports: [{rel_path: a.md, heading_path: Intro}], answer: {references: [{rel_path: a.md}]}} => {attribution_hit_rate: 0}
--   - {gold_supports: [{rel_path: a.md}], answer: {text: "x"}} => {attribution_hit_rate: null}
--   - {gold_supports: [{rel_path: a.md}], answer: {abstained: true, references: [{rel_path: a.md}]}} => {attribution_hit_rate: 1}
--   - {gold_supports: [{rel_path: a.md}], answer: {abstained: true, references: [{rel_path: a.md}]}, parameters: {attribution_rows: answered}} => {attribution_hit_rate: 0}
--   - {gold_supports: [{rel_path: a.md}], error: "late"} => {attribution_hit_rate: 0}
--   - {gold_supports: [{rel_path: a.md}], hits: [{rel_path: a.md}]} => {attribution_hit_rate: null}
--   - {gold_supports: [{rel_path: a.md}], answerable: false, answer: {references: [{rel_path: a.md}]}} => {attribution_hit_rate: null}
select
    outcomes.run_key,
    outcomes.query_key,
    cast(
        checks.n_supports_cited > 0
        and not outcomes.is_error
        and ($attribution_rows = 'all' or not coalesce(outcomes.is_abstained, false)) as double
    ) as attribution_hit_rate
from facts.outcomes as outcomes
inner join facts.reference_checks as checks
    on outcomes.run_key = checks.run_key and outcomes.query_key = checks.query_key
inner join facts.run_fields as fields on outcomes.run_key = fields.run_key
inner join labels.answerable as answerable on outcomes.query_key = answerable.query_key
