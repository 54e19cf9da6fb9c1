-- The golden sets' versions. One table per label family: a definition that reads a family is made stale by a change of
-- that family and by no other.
create schema labels;

create table labels.golden_sets (
    golden_key integer not null,
    dataset_key integer not null,
    content_hash varchar not null,
    delivery_key integer not null,
    n_rows integer not null,
    loaded_at timestamp not null,
    superseded_at timestamp
);

create table labels.family_hashes (golden_key integer not null, family varchar not null, hash varchar not null);

-- Which queries there are; their order and wording belong to no family, because no formula may depend on them.
create table labels.queries (golden_key integer not null, query_key integer not null);

create table labels.query_details (
    golden_key integer not null,
    query_key integer not null,
    query_no integer not null,
    text_key uhugeint,
    lang varchar,
    query_group varchar
);

create table labels.expected_chunks (
    golden_key integer not null,
    query_key integer not null,
    item_no integer not null,
    chunk_key integer not null
);

-- One row per query that has the label at all: `n_expected` 0 is "should refuse", no row is "not labelled".
create table labels.expected_chunk_counts (
    golden_key integer not null,
    query_key integer not null,
    n_expected integer not null
);

create table labels.expected_documents (
    golden_key integer not null,
    query_key integer not null,
    item_no integer not null,
    doc_key integer not null
);

create table labels.expected_document_counts (
    golden_key integer not null,
    query_key integer not null,
    n_expected integer not null
);

create table labels.expected_chunk_spans (
    golden_key integer not null,
    query_key integer not null,
    chunk_key integer not null,
    span_no integer not null,
    doc_key integer not null,
    "start" bigint not null,
    "end" bigint not null
);

create table labels.strings (
    golden_key integer not null,
    query_key integer not null,
    item_no integer not null,
    kind varchar not null,
    text varchar not null
);

create table labels.answerable (golden_key integer not null, query_key integer not null, answerable boolean not null);

create table labels.supports (
    golden_key integer not null,
    query_key integer not null,
    support_no integer not null,
    rel_path varchar not null,
    heading_path varchar,
    snippets varchar []
);

create table labels.support_groups (
    golden_key integer not null,
    query_key integer not null,
    group_no integer not null,
    support_no integer not null
);

create table labels.support_recency (
    golden_key integer not null,
    query_key integer not null,
    support_no integer not null,
    recency varchar not null
);

-- The queries that need several passages together, by their flag or by their category.
create table labels.multi_hop (golden_key integer not null, query_key integer not null);

-- Only queries of the category recency/conflict that say what a good answer does with the conflict.
create table labels.conflict_rules (
    golden_key integer not null,
    query_key integer not null,
    conflict_rule varchar not null
);

create table labels.spans (
    golden_key integer not null,
    query_key integer not null,
    span_no integer not null,
    doc_key integer not null,
    "start" bigint not null,
    "end" bigint not null
);

-- Long: a query stands once in each single-valued dimension and once per value in tags and vaults.
create table labels.slices (
    golden_key integer not null,
    query_key integer not null,
    slice varchar not null,
    slice_value varchar not null
);
