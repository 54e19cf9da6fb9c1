-- keys: {value: "The number that somebody else's judge, rater or program gave under this name"}
-- grain: [run_key, query_key, metric]
-- about: "What do others say of the answers, each score under its own name?"
-- headline: []
-- version: 2
-- parameters: {labels: "[]"}
-- undefined: null where no number was delivered, and none is known for the text in its place
-- scale: count
-- direction: higher
-- aggregate: mean
-- why: docs/decisions.md#scores-of-others
-- examples:
--   - {scores: {style: 4.5}} => {metric: scores.style, value: 4.5}
--   - {scores: {passed: true}} => {metric: scores.passed, value: 1}
--   - {scores: {passed: false}} => {metric: scores.passed, value: 0}
--   - {scores: {tone: {value: 0.25, reason: "Curt", source: judge}}} => {metric: scores.tone, value: 0.25}
--   - {scores: {tone: {value: null, reason: "No answer to judge"}}} => {metric: scores.tone, value: null}
--   - {scores: {tone: friendly}} => {metric: scores.tone, value: null}
--   - {scores: {tone: friendly}, parameters: {labels: '[{"name": "tone", "label": "friendly", "value": 1}]'}} => {metric: scores.tone, value: 1}
--   - {scores: {match: {value: 1, label: C}}} => {metric: scores.match, value: 1}
--   - {scores: {rating: {value: 1, source: human}}} => {metric: scores.rating, value: 1}
--   - {hits: [a]} => []

-- A score of the whole run has no query. Human scores are a metric of their own if a judge or a program also gave scores
-- of that name in the run, so that no mean mixes them. `labels` is what eval-pipeline.toml says under [scores.<name>] labels.
with readings as (
    select unnest(
        cast(cast($labels as json) as struct("name" varchar, "label" varchar, "value" double) []),
        recursive := true
    )
),

delivered as (
    select
        scores.run_key,
        scores.query_key,
        scores.name,
        scores.value,
        scores.label,
        coalesce(scores.source = 'human', false) as is_human
    from raw.scores as scores
    inner join labels.queries as queries on scores.query_key = queries.query_key
    union all
    select
        run_scores.run_key,
        cast(null as integer) as query_key,
        run_scores.name,
        run_scores.value,
        run_scores.label,
        coalesce(run_scores.source = 'human', false) as is_human
    from raw.run_scores as run_scores
),

told_apart as (
    select
        *,
        is_human and not bool_and(is_human) over (partition by run_key, name) as is_beside_others
    from delivered
)

select
    delivered.run_key,
    delivered.query_key,
    'scores.' || delivered.name || case when delivered.is_beside_others then '.human' else '' end as metric,
    coalesce(readings.value, delivered.value) as value
from told_apart as delivered
left join readings on delivered.name = readings.name and delivered.label = readings.label
