-- Which versions of eval-pipeline wrote to this store, and since when.
create table ledger.product_versions (
    version varchar not null,
    first_wrote_at timestamp not null
);

-- Only 0.1.0 wrote stores that do not say by which version; one that holds no run holds nothing of its.
insert into ledger.product_versions
select
    '0.1.0',
    min(applied_at)
from main.schema_migrations
where exists (from raw.runs)
having count(*) > 0;

-- The version that computed what stands there, that first knew the meaning, that made the comparison.
alter table ledger.cells add column product_version varchar default '0.1.0';
alter table ledger.definitions add column product_version varchar default '0.1.0';
alter table comparisons.pairs add column product_version varchar default '0.1.0';

-- Which version computed a run first: a formula that came with a later one is not due for it.
create table ledger.computed_runs (
    run_key integer not null,
    product_version varchar not null
);

insert into ledger.computed_runs
select distinct
    run_key,
    '0.1.0'
from ledger.cells;
