-- Scores of others under their own names: of a query, and of a run as a whole. A score without a number keeps its row,
-- so that it is counted as unscored; `label` is the text that was delivered in a number's place, or beside it.
create table raw.scores (
    run_key integer not null,
    query_key integer not null,
    name varchar not null,
    value double,
    label varchar,
    reason_key uhugeint,
    source varchar,
    model varchar,
    version varchar
);

create table raw.run_scores (
    run_key integer not null,
    name varchar not null,
    value double,
    label varchar,
    reason_key uhugeint,
    source varchar,
    model varchar,
    version varchar
);
