-- What every stored comparison says about each query that both of its runs answered.
with lost as (
    select
        regressed.run_a_key,
        regressed.run_b_key,
        regressed.query_key,
        list(chunks.chunk_id order by chunks.chunk_id) as chunk_ids
    from comparisons.regressed_chunks as regressed
    inner join raw.chunk_ids as chunks on regressed.chunk_key = chunks.chunk_key
    group by regressed.run_a_key, regressed.run_b_key, regressed.query_key
)

select
    runs_a.run_id as run_a,
    runs_b.run_id as run_b,
    query_ids.query_id,
    queries.query_no,
    queries.kind,
    queries.regression,
    coalesce(lost.chunk_ids, cast([] as varchar [])) as regressed_chunk_ids,
    queries.a_hit_rank,
    queries.b_hit_rank,
    queries.note,
    pairs.chunker_version_match,
    pairs.computed_at
from comparisons.queries as queries
inner join comparisons.pairs as pairs
    on queries.run_a_key = pairs.run_a_key and queries.run_b_key = pairs.run_b_key
inner join raw.runs as runs_a on queries.run_a_key = runs_a.run_key
inner join raw.runs as runs_b on queries.run_b_key = runs_b.run_key
inner join raw.query_ids as query_ids on queries.query_key = query_ids.query_key
left join lost
    on
        queries.run_a_key = lost.run_a_key
        and queries.run_b_key = lost.run_b_key
        and queries.query_key = lost.query_key
