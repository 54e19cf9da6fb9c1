-- What was forgotten on purpose: a name and times, nothing of what it named. While a tombstone stands (it was not
-- lifted), no delivery of that name is taken in.
create table ledger.tombstones (
    kind varchar not null,
    name varchar not null,
    scope varchar not null,
    -- The key that the run's rows of the aggregate history still carry.
    run_key integer,
    -- The dataset that the run was forgotten with.
    dataset varchar,
    forgotten_at timestamp not null,
    forgotten_by varchar not null,
    -- When the kept deliveries were purged, and when the file was written anew without what had stood in it.
    purged_at timestamp,
    compacted_at timestamp,
    lifted_at timestamp
);

-- Text columns of a run, a golden set or an archive that were emptied: whatever reads one of them is frozen there.
-- `owner` is the column that `owner_key` is a value of, `place` is schema.table.column.
create table ledger.forgotten_texts (
    owner varchar not null,
    owner_key integer not null,
    place varchar not null,
    forgotten_at timestamp not null
);
