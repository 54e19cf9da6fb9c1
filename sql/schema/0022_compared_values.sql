-- What is printed beside a change: both values over the queries that both runs define.
alter table comparisons.deltas add column paired_a double;
alter table comparisons.deltas add column paired_b double;
