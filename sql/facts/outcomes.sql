-- keys:
--   is_error: "The row carries an error text or timed out"
--   is_timed_out: "The row timed out"
--   has_answer: "The row carries an answer"
--   is_grounded: "The answer says it is grounded; null when it does not say"
--   is_blank: "The answer is there and its text is absent or white space only"
--   n_hits: "How many hits are stored"
-- version: 1
-- why: docs/decisions.md#a3-7
-- examples:
--   - {error: "no connection", answer: {text: hello, grounded: true}} => {is_error: true, is_timed_out: false, has_answer: true, is_grounded: true, is_blank: false}
--   - {timed_out: true} => {is_error: true, is_timed_out: true, has_answer: false, n_hits: 0}
--   - {answer: {text: "  "}, hits: [a]} => {is_error: false, is_blank: true, n_hits: 1}
select
    results.run_key,
    results.query_key,
    coalesce(results.error, '') <> '' or coalesce(results.timed_out, false) as is_error,
    coalesce(results.timed_out, false) as is_timed_out,
    results.has_answer,
    results.grounded as is_grounded,
    results.has_answer and coalesce(results.answer_is_blank, true) as is_blank,
    results.n_hits
from raw.results as results
inner join labels.queries as queries on results.query_key = queries.query_key
