-- keys:
--   error_rate: "Whether the query failed, timed out or came back with an empty answer"
--   timeout_rate: "Whether it timed out"
--   empty_response_rate: "Whether the answer is empty or white space"
-- about: "How many queries failed, timed out or came back empty?"
-- family: failures
-- headline: error_rate
-- version: 1
-- scale: binary
-- range: [0, 1]
-- direction: lower
-- aggregate: mean
-- why: docs/decisions.md#a2-17
-- examples:
--   - {answer: {text: x}} => {error_rate: 0, timeout_rate: 0, empty_response_rate: 0}
--   - {error: "no connection"} => {error_rate: 1, timeout_rate: 0, empty_response_rate: 0}
--   - {timed_out: true} => {error_rate: 1, timeout_rate: 1, empty_response_rate: 0}
--   - {answer: {text: " \t"}} => {error_rate: 1, timeout_rate: 0, empty_response_rate: 1}
--   - {answer: {abstained: true}, error: "late"} => {error_rate: 1, timeout_rate: 0, empty_response_rate: 1}
--   - {hits: [a]} => {error_rate: 0, timeout_rate: 0, empty_response_rate: 0}
select
    run_key,
    query_key,
    cast(is_error or is_blank as double) as error_rate,
    cast(is_timed_out as double) as timeout_rate,
    cast(is_blank as double) as empty_response_rate
from facts.outcomes
