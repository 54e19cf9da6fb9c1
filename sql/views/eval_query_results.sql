-- Every result that was delivered, as one row; `hits` has a row per hit, `per_query_metrics` what was computed from it.
with found as (
    select
        hits.run_key,
        hits.query_key,
        list(
            struct_pack(
                "rank" := hits.rank, chunk_id := chunk_ids.chunk_id, doc_id := doc_ids.doc_id, score := hits.score
            )
            order by hits.rank
        ) as hits_top_k
    from raw.hits as hits
    inner join raw.chunk_ids as chunk_ids on hits.chunk_key = chunk_ids.chunk_key
    inner join raw.doc_ids as doc_ids on hits.doc_key = doc_ids.doc_key
    group by hits.run_key, hits.query_key
),

cited as (
    select
        citations.run_key,
        citations.query_key,
        list(chunk_ids.chunk_id order by citations.item_no) as citations
    from raw.citations as citations
    left join raw.chunk_ids as chunk_ids on citations.chunk_key = chunk_ids.chunk_key
    group by citations.run_key, citations.query_key
)

select
    runs.run_id,
    query_ids.query_id,
    coalesce(found.hits_top_k, []) as hits_top_k,
    answers.text as answer,
    results.grounded,
    results.abstained,
    case when results.has_answer then coalesce(cited.citations, cast([] as varchar [])) end as citations,
    results.error,
    results.timed_out,
    results.total_ms
from raw.results as results
inner join raw.runs as runs on results.run_key = runs.run_key
inner join raw.query_ids as query_ids on results.query_key = query_ids.query_key
left join found on results.run_key = found.run_key and results.query_key = found.query_key
left join cited on results.run_key = cited.run_key and results.query_key = cited.query_key
left join raw.texts as answers on results.answer_text_key = answers.text_key
