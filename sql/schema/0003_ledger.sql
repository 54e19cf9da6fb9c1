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
    -- What the text alone does not say: fingerprints of the definitions it reads, and the helpers it calls, as JSON.
    parents varchar not null,
    helpers varchar not null,
    language varchar not null,
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
    source_fingerprint varchar not null,
    results_hash varchar not null,
    labels_hash varchar not null,
    archive_hash varchar not null,
    golden_key integer not null,
    n_rows integer not null,
    seconds double not null,
    computed_at timestamp not null,
    dagster_run_id varchar,
    reason varchar not null,
    note varchar
);

-- Cells left on an older definition on purpose; a pin holds while the cell still has this fingerprint.
create table ledger.pins (
    definition varchar not null,
    source varchar not null,
    run_key integer not null,
    fingerprint varchar not null,
    pinned_at timestamp not null,
    note varchar
);

-- Every aggregate that was replaced, with what it was made of and how long it stood. Rows are only ever added.
create table ledger.aggregate_history (
    run_key integer not null,
    source varchar not null,
    metric varchar not null,
    slice varchar not null,
    slice_value varchar not null,
    value double,
    n integer not null,
    total double,
    formula_fingerprint varchar not null,
    results_hash varchar not null,
    labels_hash varchar not null,
    archive_hash varchar not null,
    golden_key integer,
    valid_from timestamp not null,
    valid_to timestamp not null,
    replaced_because varchar not null,
    note varchar
);

-- The same for aggregates that are tables of their own: each replaced row as JSON.
create table ledger.summary_history (
    run_key integer not null,
    definition varchar not null,
    "row" varchar not null,
    fingerprint varchar not null,
    results_hash varchar not null,
    labels_hash varchar not null,
    archive_hash varchar not null,
    golden_key integer,
    valid_from timestamp not null,
    valid_to timestamp not null,
    replaced_because varchar not null,
    note varchar
);
