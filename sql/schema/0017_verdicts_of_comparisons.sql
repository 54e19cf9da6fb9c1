-- What a comparison says of each question, what that rests on, and the measures of whole runs, so that a stored one reads
-- like one that was just made. Comparisons of before are stale anyway (0013).
alter table comparisons.deltas add column verdict varchar;
alter table comparisons.pairs add column trust varchar [];
alter table comparisons.pairs add column parts varchar;
