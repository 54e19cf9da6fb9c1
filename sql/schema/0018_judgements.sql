-- What judges that were asked here, or elsewhere, said: every answer as it came, with what it cost. A delivery replaces
-- what it names (ask, judge, season, purpose); the rest stays, so that several deliveries stand side by side.
create table raw.judgements (
    run_key integer not null,
    judgement_no integer not null,
    delivery_key integer not null,
    row_no integer not null,
    query_key integer not null,
    ask varchar not null,
    judge varchar not null,
    request varchar,
    status varchar not null,
    raw_answer varchar,
    reason varchar,
    model varchar,
    version varchar,
    temperature double,
    fingerprint varchar,
    prompt_version varchar,
    season varchar,
    prompt_tokens double,
    completion_tokens double,
    usd double,
    latency_ms double,
    attempts integer,
    from_cache boolean not null,
    repeat integer not null,
    purpose varchar not null
);

-- What was sent, whole, by the hash that judgements name.
create table raw.judge_requests (
    run_key integer not null,
    delivery_key integer not null,
    row_no integer not null,
    request varchar not null,
    body_key uhugeint
);

-- A definition that reads no more of run.json than the suite is not made stale by the rest of it.
create view raw.suites_of_runs as select run_key, suite from raw.runs;

-- Whose judgements a run has that could score it.
create table ledger.judges_of_runs (run_key integer not null, judge varchar not null);

-- Of a run that is evaluated here: whether that has come to its end.
alter table raw.runs add column evaluation_state varchar;
