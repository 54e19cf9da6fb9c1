-- keys:
--   judgement_no: "The judgement that scores the answer"
--   status: "What became of it: ok, repaired, unparsed, truncated, refused, filtered, error or skipped (it was not asked)"
--   score: "The score from 0 to 5; null without one"
--   verdict: "Yes or no, of asks that are answered so; null without an answer"
--   n_unsupported: "How many claims it calls unsupported"
--   n_cited: "How many contexts the supported claims cite; null where no claim is listed"
-- grain: [run_key, query_key, ask]
-- about: "Which judgement scores an answer, and what it says."
-- version: 1
-- parameters: {judges: "[]"}
-- why: docs/decisions.md#s2-24
-- examples:
--   - {judgements: [{ask: correctness, raw: '{"score": 3}'}]} => {ask: correctness, status: ok, score: 3}
--   - {judgements: [{ask: correctness, raw: "none"}, {ask: correctness, raw: '{"score": 2}', repeat: 1}]} => {status: ok, score: 2}
--   - {judgements: [{ask: correctness, raw: '{"score": 1}'}, {ask: correctness, raw: '{"score": 2}', repeat: 1}]} => {score: 1}
--   - {judgements: [{ask: correctness, raw: "none"}]} => {status: unparsed, score: null}
--   - {judgements: [{ask: correctness, season: s1, raw: '{"score": 1}'}, {ask: correctness, season: s2, raw: '{"score": 2}'}]} => {score: 2}
--   - {judgements: [{ask: correctness, judge: a, raw: '{"score": 1}'}, {ask: correctness, judge: b, raw: '{"score": 2}'}]} => {score: 1}
--   - {run: {suite: n}, parameters: {judges: '[{"suite": "n", "judge": "b", "place": 0}]'}, judgements: [{ask: correctness, judge: a, raw: '{"score": 1}'}, {ask: correctness, judge: b, raw: '{"score": 2}'}]} => {score: 2}
--   - {judgements: [{ask: correctness, purpose: spot_check, raw: '{"score": 1}'}]} => []

-- Of the judge that the suite names first and that was asked this, else of the one delivered last; of its newest season.
-- `judges` is what eval-pipeline.toml says under [suites.<name>] judges.
with named as (
    select unnest(
        cast(cast($judges as json) as struct("suite" varchar, "judge" varchar, "place" integer) []),
        recursive := true
    )
),

asked as (
    select
        given.run_key,
        given.query_key,
        given.judgement_no,
        given.ask,
        given.judge,
        given.season,
        given.repeat,
        given.delivery_key,
        named.place
    from raw.judgements as given
    left join raw.suites_of_runs as suites on given.run_key = suites.run_key
    left join named on suites.suite = named.suite and given.judge = named.judge
    where given.purpose = 'main'
),

chosen as (
    select
        run_key,
        ask,
        judge,
        season
    from asked
    qualify
        row_number() over (
            partition by run_key, ask
            order by place nulls last, delivery_key desc, judge, season desc nulls last
        ) = 1
)

select
    asked.run_key,
    asked.query_key,
    asked.ask,
    asked.judgement_no,
    parsed.status,
    parsed.score,
    parsed.verdict,
    parsed.n_unsupported,
    parsed.n_cited
from asked
inner join chosen
    on
        asked.run_key = chosen.run_key
        and asked.ask = chosen.ask
        and asked.judge = chosen.judge
        and asked.season is not distinct from chosen.season
inner join facts.judgements as parsed
    on asked.run_key = parsed.run_key and asked.judgement_no = parsed.judgement_no
qualify
    row_number() over (
        partition by asked.run_key, asked.query_key, asked.ask
        order by parsed.status in ('ok', 'repaired') desc, asked.repeat, asked.judgement_no
    ) = 1
