-- Pairs of runs as they were compared: each run with the one before it, and with the baseline that others are held
-- against. Everything here can be computed again from the two runs.
create schema comparisons;

-- One row per pair. The hashes are of what it was made of: what both runs delivered, their labels, the archives of
-- their datasets, and every derived table of both. The pair is stale when one of them moved.
create table comparisons.pairs (
    run_a_key integer not null,
    run_b_key integer not null,
    chunker_version_match varchar not null,
    n_queries integer not null,
    n_only_in_a integer not null,
    n_only_in_b integer not null,
    wins integer not null,
    losses integer not null,
    draws integer not null,
    rank_ups integer not null,
    rank_downs integer not null,
    not_applicable integer not null,
    not_comparable integer not null,
    regressions integer not null,
    causes varchar [] not null,
    warnings varchar [] not null,
    own_fingerprint varchar not null,
    results_hash varchar not null,
    labels_hash varchar not null,
    archive_hash varchar not null,
    parents_hash varchar not null,
    seconds double not null,
    computed_at timestamp not null,
    dagster_run_id varchar,
    reason varchar not null
);

-- The verdict about every query that both runs answered; `query_no` counts them in golden order.
create table comparisons.queries (
    run_a_key integer not null,
    run_b_key integer not null,
    query_no integer not null,
    query_key integer not null,
    kind varchar not null,
    regression boolean not null,
    a_hit_rank integer,
    b_hit_rank integer,
    note varchar
);

-- Expected chunks that a found and b did not.
create table comparisons.regressed_chunks (
    run_a_key integer not null,
    run_b_key integer not null,
    query_key integer not null,
    chunk_key integer not null
);

-- How every metric moved, and how sure that is; `is_fallback` marks what is matched by document and span.
create table comparisons.deltas (
    run_a_key integer not null,
    run_b_key integer not null,
    metric varchar not null,
    is_fallback boolean not null,
    a_value double,
    b_value double,
    delta double,
    ci_low double,
    ci_high double,
    p_value double,
    p_adjusted double,
    test varchar,
    n integer not null,
    mde double,
    caveat varchar
);

-- The last verdict of a gate about a candidate (b) held against a baseline (a); `document` is what `gate --json` says.
create table comparisons.gates (
    run_a_key integer not null,
    run_b_key integer not null,
    verdict varchar not null,
    document varchar not null,
    judged_at timestamp not null
);
