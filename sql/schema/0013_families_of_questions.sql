-- What a metric of a comparison was asked with, why it has no adjusted p of its own, the mean difference of the compared
-- queries, and of times by which factor they changed. Comparisons of before have none of it and are stale.
alter table comparisons.deltas add column adjusted_as varchar;
alter table comparisons.deltas add column family varchar;
alter table comparisons.deltas add column paired_delta double;
alter table comparisons.deltas add column ratio double;
alter table comparisons.deltas add column ratio_low double;
alter table comparisons.deltas add column ratio_high double;
alter table comparisons.deltas add column ratio_p double;
