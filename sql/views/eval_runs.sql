-- Every run with its aggregate, under the name that knowledge bases have for it; `runs` says more.
select
    runs.run_id,
    datasets.dataset_id as dataset,
    runs.suite,
    runs.created_at,
    runs.commit_hash,
    runs.chunker_version,
    runs.embedding_model,
    runs.index_version,
    runs.prompt_version,
    runs.llm_model,
    runs.top_k,
    documents.aggregate_json
from raw.runs as runs
inner join raw.datasets as datasets on runs.dataset_key = datasets.dataset_key
left join aggregates.run_documents as documents on runs.run_key = documents.run_key
