-- Who was computed from what.
create schema ledger;

create table ledger.deliveries (
    delivery_key integer not null,
    part varchar not null,
    dataset_id varchar,
    run_id varchar,
    chunker_version varchar,
    path varchar not null,
    content_hash varchar not null,
    n_bytes bigint not null,
    n_rows integer not null,
    n_quarantined integer not null,
    delivered_at timestamp not null,
    delivered_by varchar not null,
    superseded_at timestamp
);

create table ledger.quarantine (
    path varchar not null,
    line integer,
    dataset_id varchar,
    run_id varchar,
    query_id varchar,
    field varchar,
    reason varchar not null,
    text varchar not null,
    content_hash varchar,
    rejected_at timestamp not null
);

-- Every meaning a definition ever had here.
create table ledger.definitions (
    name varchar not null,
    fingerprint varchar not null,
    own_fingerprint varchar not null,
    version integer not null,
    header varchar not null,
    body varchar not null,
    reads varchar [] not null,
    first_used_at timestamp not null
);

-- One row per derived table × run: what stands there now, and from which inputs it was made. Aggregates keep one row
-- per formula they aggregate (`source`), so that one formula's change recomputes one formula's aggregates.
create table ledger.cells (
    definition varchar not null,
    source varchar not null,
    run_key integer not null,
    fingerprint varchar not null,
    own_fingerprint varchar not null,
    results_hash varchar not null,
    labels_hash varchar not null,
    archive_hash varchar not null,
    n_rows integer not null,
    seconds double not null,
    computed_at timestamp not null,
    dagster_run_id varchar,
    reason varchar not null
);
