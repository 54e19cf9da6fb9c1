-- Long and small. `value` is rounded to 4 decimals for storage; `total` and `n` are what is behind it.
-- `slice` '' is the whole run.
create schema aggregates;

create table aggregates.run_metrics (
    run_key integer not null,
    source varchar not null,
    metric varchar not null,
    slice varchar not null,
    slice_value varchar not null,
    value double,
    n integer not null,
    total double
);

-- The knowledge base's own summary of a run, as stable text.
create table aggregates.run_documents (run_key integer not null, aggregate_json varchar not null);
