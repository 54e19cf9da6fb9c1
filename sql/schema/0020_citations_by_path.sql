-- A citation may name the path of a document instead of a chunk. An empty path marks a citation that was not recognized.
alter table raw.citations add column path varchar;
