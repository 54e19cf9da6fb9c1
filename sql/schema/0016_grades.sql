-- Graded labels: a family of their own, so that a change of grades makes stale what reads grades and nothing else. An id is
-- that of a chunk; where documents are graded it is the document's. A golden set without grades has no rows and no hash
-- here, as those that were stored before.
create table labels.grades (
    golden_key integer not null,
    query_key integer not null,
    chunk_key integer not null,
    grade integer not null
);

-- One row per query that has grades at all: 0 is "nothing was judged", no row is "not graded".
create table labels.grade_counts (golden_key integer not null, query_key integer not null, n_grades integer not null);

-- A model answer: shown, never scored.
alter table labels.query_details add column reference_key uhugeint;
