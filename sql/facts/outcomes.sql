-- keys:
--   is_error: "The row carries an error text or timed out"
--   is_timed_out: "The row timed out"
--   has_answer: "The row carries an answer"
--   is_grounded: "The answer says it is grounded; null when it does not say"
--   is_blank: "The answer is there and its text is absent or white space only"
--   n_hits: "How many hits are stored"
--   is_abstained: "The answer says whether it abstained, else the judge does; null when neither does"
--   is_acknowledged: "The judge says whether the answer acknowledges the conflict; null when it does not say"
--   groundedness_score: "The judge's score, when it is a number from 0 to 5"
--   correctness_score: "The judge's score, when it is a number from 0 to 5"
-- about: "What came back for a query: an answer, an abstention or an error."
-- version: 1
-- why: docs/decisions.md#a3-7
-- examples:
--   - {error: "no connection", answer: {text: hello, grounded: true}} => {is_error: true, is_timed_out: false, has_answer: true, is_grounded: true, is_blank: false}
--   - {timed_out: true} => {is_error: true, is_timed_out: true, has_answer: false, n_hits: 0}
--   - {answer: {text: "  "}, hits: [a]} => {is_error: false, is_blank: true, n_hits: 1}
--   - {hits: [a]} => {is_error: false, has_answer: false, is_blank: false, is_abstained: null}
--   - {answer: {abstained: false}, judge: {abstention: {abstained: true}}} => {is_abstained: false}
--   - {answer: {text: "I do not know"}, judge: {abstention: {abstained: true}, conflict: {acknowledged: false}}} => {is_abstained: true, is_acknowledged: false}
--   - {judge: {groundedness: {score: 4.5}, correctness: {score: 7}}} => {groundedness_score: 4.5, correctness_score: null}
--   - {judge: {groundedness: {score: "4"}, correctness: {score: true}}} => {groundedness_score: null, correctness_score: null}
select
    results.run_key,
    results.query_key,
    is_failed(results.error, results.timed_out) as is_error,
    coalesce(results.timed_out, false) as is_timed_out,
    results.has_answer,
    results.grounded as is_grounded,
    results.has_answer and coalesce(results.answer_is_blank, true) as is_blank,
    results.n_hits,
    coalesce(results.abstained, results.judge_abstained) as is_abstained,
    results.judge_acknowledged as is_acknowledged,
    case when results.judge_groundedness between 0 and 5 then results.judge_groundedness end as groundedness_score,
    case when results.judge_correctness between 0 and 5 then results.judge_correctness end as correctness_score
from raw.results as results
inner join labels.queries as queries on results.query_key = queries.query_key
