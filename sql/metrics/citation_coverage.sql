-- keys: {citation_coverage: "Whether every citation of a grounded answer names a chunk that exists"}
-- about: "Does every citation of the answer lead somewhere?"
-- family: answers
-- headline: citation_coverage
-- version: 2
-- parameters: {empty_citations: zero}
-- choices: {empty_citations: [zero, vacuous]}
-- applies: has_answer and is_grounded and not is_error and has_archive and n_unrecognized = 0
-- undefined: 0 when a grounded answer cites nothing
-- scale: binary
-- range: [0, 1]
-- direction: higher
-- aggregate: mean
-- why: docs/decisions.md#a3-5
-- examples:
--   - {answer: {grounded: true, citations: [{citation: a}]}, archive: [a]} => {citation_coverage: 1}
--   - {answer: {grounded: true, citations: [{citation: a}, {citation: z}]}, archive: [a]} => {citation_coverage: 0}
--   - {answer: {grounded: true, citations: []}, archive: [a]} => {citation_coverage: 0}
--   - {answer: {grounded: false, citations: [{citation: a}]}, archive: [a]} => {citation_coverage: null}
--   - {answer: {grounded: true, citations: [{citation: a}]}} => {citation_coverage: null}
--   - {answer: {grounded: true, citations: []}, archive: [a], parameters: {empty_citations: vacuous}} => {citation_coverage: 1}
--   - {answer: {grounded: true, citations: [{path: a.md}]}, hits: [{chunk_id: a, doc_id: a.md}]} => {citation_coverage: 1}
--   - {answer: {grounded: true, citations: [{path: z.md}]}, archive: [a]} => {citation_coverage: 0}
--   - {answer: {grounded: true, citations: [{citation: a}, {url: x}]}, archive: [a]} => {citation_coverage: null}
--   - {answer: {grounded: true, citations: [{citation: a}]}, archive: [a], error: "late"} => {citation_coverage: null}
select
    outcomes.run_key,
    outcomes.query_key,
    cast(
        checks.n_resolved = checks.n_citations and (checks.n_citations > 0 or $empty_citations = 'vacuous') as double
    ) as citation_coverage
from facts.outcomes as outcomes
inner join facts.citation_checks as checks
    on outcomes.run_key = checks.run_key and outcomes.query_key = checks.query_key
