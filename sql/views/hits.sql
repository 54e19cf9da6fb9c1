select
    runs.run_id,
    query_ids.query_id,
    hits.rank,
    chunk_ids.chunk_id,
    doc_ids.doc_id,
    hits.score,
    hits.rel_path,
    hits.heading_path,
    texts.text
from raw.hits as hits
inner join raw.runs as runs on hits.run_key = runs.run_key
inner join raw.query_ids as query_ids on hits.query_key = query_ids.query_key
inner join raw.chunk_ids as chunk_ids on hits.chunk_key = chunk_ids.chunk_key
inner join raw.doc_ids as doc_ids on hits.doc_key = doc_ids.doc_key
left join raw.texts as texts on hits.text_key = texts.text_key
