-- What was delivered, typed. Text ids are kept once; everything else carries their integer keys.
-- Rows of a run are written together and in order, so that a run is a short stretch of every table; no table of rows
-- has a primary key, because keeping one costs more than the scan it would save.
create schema raw;

create table raw.datasets (dataset_key integer not null, dataset_id varchar not null);
create table raw.query_ids (query_key integer not null, query_id varchar not null);
create table raw.chunk_ids (chunk_key integer not null, chunk_id varchar not null);
create table raw.doc_ids (doc_key integer not null, doc_id varchar not null);
create table raw.case_ids (case_key integer not null, case_id varchar not null);

-- Questions, answers, passages: by hash, in one place, so that they can be forgotten.
create table raw.texts (text_key uhugeint not null, text varchar not null);

create table raw.runs (
    run_key integer not null,
    run_id varchar not null,
    dataset_key integer not null,
    suite varchar,
    created_at timestamp,
    night date,
    attempt integer,
    replaces varchar,
    replicate_of varchar,
    commit_hash varchar,
    suite_time_ms double,
    chunker_version varchar,
    embedding_model varchar,
    index_version varchar,
    prompt_version varchar,
    llm_model varchar,
    top_k integer,
    folder_mode varchar,
    judge_model varchar,
    judge_version varchar,
    judge_temperature double,
    judge_prompt_version varchar,
    judge_price_prompt double,
    judge_price_completion double,
    document varchar not null,
    first_loaded_at timestamp not null
);

-- Which bytes stand behind each part of a run now.
create table raw.run_parts (
    run_key integer not null,
    part varchar not null,
    content_hash varchar not null,
    delivery_key integer not null,
    n_rows integer not null,
    n_quarantined integer not null
);

create table raw.results (
    run_key integer not null,
    query_key integer not null,
    row_no integer not null,
    n_hits integer not null,
    error varchar,
    timed_out boolean,
    folder_mode varchar,
    selected_folders varchar [],
    has_answer boolean not null,
    answer_text_key uhugeint,
    answer_is_blank boolean,
    grounded boolean,
    abstained boolean,
    judge_groundedness double,
    supported_claims varchar [],
    unsupported_claims varchar [],
    judge_correctness double,
    judge_reasoning_key uhugeint,
    judge_abstained boolean,
    judge_acknowledged boolean,
    judge_prompt_tokens double,
    judge_completion_tokens double,
    judge_input_key uhugeint,
    judge_scores_delivered varchar,
    total_ms double,
    folder_selection_ms double,
    retrieval_ms double,
    generation_ms double,
    judge_ms double
);

create table raw.hits (
    run_key integer not null,
    query_key integer not null,
    rank integer not null,
    chunk_key integer not null,
    doc_key integer not null,
    delivered_rank double,
    score double,
    rel_path varchar,
    heading_path varchar,
    token_count double,
    text_key uhugeint
);

create table raw.hit_spans (
    run_key integer not null,
    query_key integer not null,
    rank integer not null,
    span_no integer not null,
    doc_key integer not null,
    "start" bigint not null,
    "end" bigint not null
);

create table raw.citations (
    run_key integer not null,
    query_key integer not null,
    item_no integer not null,
    chunk_key integer
);

create table raw."references" (
    run_key integer not null,
    query_key integer not null,
    item_no integer not null,
    rel_path varchar,
    heading_path varchar,
    chunk_key integer,
    text_key uhugeint
);

-- Documents and discrepancies as delivered, as JSON; which fields they hold is a question to facts.field_outcomes.
create table raw.extraction_cases (
    run_key integer not null,
    case_key integer not null,
    row_no integer not null,
    has_failed boolean not null,
    error varchar,
    ground_truth varchar,
    extracted varchar,
    total_gt_fields integer,
    discrepancies varchar
);

create table raw.index_reports (
    run_key integer not null,
    chunker_version varchar,
    embedding_model varchar,
    index_version varchar
);

create table raw.indexed_documents (
    run_key integer not null,
    document_no integer not null,
    doc_key integer,
    doc_type varchar,
    n_chunks integer
);

create table raw.indexed_chunks (
    run_key integer not null,
    chunk_no integer not null,
    doc_key integer,
    chunk_key integer,
    status varchar,
    skip_reason varchar,
    tokens double
);

create table raw.spot_checks (
    run_key integer not null,
    check_no integer not null,
    query_key integer,
    kind varchar,
    first_score double,
    first_binary boolean,
    second_score double,
    second_binary boolean,
    judge_scores_delivered varchar
);

-- Every state of every chunk archive; spans come from the newest state, citations resolve against all of them.
create table raw.archives (
    archive_key integer not null,
    dataset_key integer,
    chunker_version varchar not null,
    content_hash varchar not null,
    delivery_key integer not null,
    n_rows integer not null,
    loaded_at timestamp not null,
    superseded_at timestamp
);

create table raw.archive_chunks (
    archive_key integer not null,
    chunk_key integer not null,
    doc_key integer not null,
    rel_path varchar,
    heading_path varchar,
    token_count double,
    text_key uhugeint
);

create table raw.archive_spans (
    archive_key integer not null,
    chunk_key integer not null,
    span_no integer not null,
    doc_key integer not null,
    "start" bigint not null,
    "end" bigint not null
);
