-- Cells that could not be computed, as long as nobody computes them: what was asked of which inputs, the first query that
-- it fails on where it is one, and in whose words. What failed has no rows and no cell.
create table ledger.failures (
    definition varchar not null,
    source varchar not null,
    run_key integer not null,
    fingerprint varchar not null,
    results_hash varchar not null,
    labels_hash varchar not null,
    archive_hash varchar not null,
    query_key integer,
    error varchar not null,
    failed_at timestamp not null,
    dagster_run_id varchar
);
