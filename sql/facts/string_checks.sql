-- keys:
--   n_required: "How many texts the answer must contain"
--   n_required_found: "How many of them it contains"
--   n_forbidden: "How many texts the answer must not contain"
--   n_forbidden_found: "How many of them it contains all the same"
-- about: "How many of the required and the forbidden texts an answer contains."
-- version: 2
-- parameters: {string_match: exact}
-- choices: {string_match: [exact, casefold]}
-- why: docs/decisions.md#a3-9
-- examples:
--   - {must_contain: [Paris, Rome], forbidden: [London], answer: {text: "Paris or London"}} => {n_required: 2, n_required_found: 1, n_forbidden: 1, n_forbidden_found: 1}
--   - {must_contain: [Paris], answer: {text: "PARIS"}} => {n_required: 1, n_required_found: 0}
--   - {must_contain: [Paris]} => {n_required: 1, n_required_found: 0, n_forbidden: 0, n_forbidden_found: 0}
--   - {must_contain: [STRASSE], answer: {text: "die Straße"}, parameters: {string_match: casefold}} => {n_required_found: 1}
--   - {must_contain: [Paris], answer: {text_withheld: true}} => {n_required: null, n_required_found: null}
with checked as (
    select
        results.run_key,
        results.query_key,
        strings.kind,
        contains_text(texts.text, strings.text, $string_match) as is_found
    from raw.results as results
    inner join labels.strings as strings on results.query_key = strings.query_key
    left join raw.texts as texts on results.answer_text_key = texts.text_key
),

counted as (
    select
        run_key,
        query_key,
        count(*) filter (where kind = 'must_contain') as n_required,
        count(*) filter (where kind = 'must_contain' and is_found) as n_required_found,
        count(*) filter (where kind = 'forbidden') as n_forbidden,
        count(*) filter (where kind = 'forbidden' and is_found) as n_forbidden_found
    from checked
    group by run_key, query_key
),

-- An answer that is not blank and has no text was taken in without it: nobody can say what it contains.
answers as (
    select
        run_key,
        query_key,
        answer_text_key is not null or coalesce(answer_is_blank, true) as is_readable
    from raw.results
)

select
    answers.run_key,
    answers.query_key,
    case when answers.is_readable then coalesce(counted.n_required, 0) end as n_required,
    case when answers.is_readable then coalesce(counted.n_required_found, 0) end as n_required_found,
    case when answers.is_readable then coalesce(counted.n_forbidden, 0) end as n_forbidden,
    case when answers.is_readable then coalesce(counted.n_forbidden_found, 0) end as n_forbidden_found
from answers
inner join labels.queries as queries on answers.query_key = queries.query_key
left join counted on answers.run_key = counted.run_key and answers.query_key = counted.query_key
