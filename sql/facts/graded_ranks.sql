-- keys:
--   n_relevant: "How many ids are relevant; null when the query has no labels of chunks"
--   best_grades: "Descending; all grades above 0, retrieved or not; null when there is none"
--   relevant_ranks: "Ascending; the first rank of every relevant id that was retrieved"
--   gain_ranks: "Ascending; the first rank of every retrieved id whose grade is above 0"
--   gain_grades: "The grades of those, in the same order"
--   labelled_ranks: "Ascending; the first rank of every retrieved id that has a label, whatever its grade"
--   is_judged: "Whether what no label names is unknown, and not irrelevant"
--   n_hits: "How many hits are stored"
--   is_error: "Whether the result carries an error text or timed out"
-- about: "At which ranks ids of which relevance were retrieved."
-- version: 1
-- why: docs/decisions.md#g-1
-- examples:
--   - {grades: {a: 3, b: 1, c: 0, d: 2}, hits: [c, x, a, b]} => {n_relevant: 3, best_grades: [3, 2, 1], relevant_ranks: [3, 4], gain_ranks: [3, 4], gain_grades: [3, 1], labelled_ranks: [1, 3, 4], is_judged: true, n_hits: 4}
--   - {expected_chunk_ids: [a, b], hits: [x, b]} => {n_relevant: 2, best_grades: [1, 1], relevant_ranks: [2], gain_ranks: [2], gain_grades: [1], labelled_ranks: [2], is_judged: false}
--   - {expected_chunk_ids: [a, b], grades: {a: 2}, hits: [a, b]} => {n_relevant: 1, best_grades: [2], relevant_ranks: [1], labelled_ranks: [1, 2], is_judged: true}
--   - {grades: {a: 1}, hits: [a, x, a]} => {relevant_ranks: [1], labelled_ranks: [1], n_hits: 3}
--   - {grades: {a: 1, b: 1}, hits: [a, a, b], parameters: {dedupe_hits: true}} => {relevant_ranks: [1, 2], n_hits: 2}
--   - {expected_chunk_ids: [a], expected_doc_ids: [], hits: [a]} => {n_relevant: 0, best_grades: null, relevant_ranks: []}
--   - {grades: {a: 0, b: -1}, hits: [a]} => {n_relevant: 0, best_grades: null, relevant_ranks: [], labelled_ranks: [1]}
--   - {hits: [a], error: "late"} => {n_relevant: null, is_judged: false, is_error: true}

-- Grades say what is relevant where a query has any, else its expected chunks do, unless it expects a refusal. An
-- expected chunk beside grades that leave it out is labelled, and no more.
with labelled as (
    select
        grades.query_key,
        grades.chunk_key,
        grades.grade,
        grades.grade >= settings.relevant_from as is_relevant
    from labels.grades as grades
    cross join labels.settings as settings
    union all
    select
        expected.query_key,
        expected.chunk_key,
        cast(is_graded_by_list as integer) as grade,
        is_graded_by_list as is_relevant
    from (
        select
            items.query_key,
            items.chunk_key,
            counts.query_key is null and coalesce(documents.n_expected, 1) > 0 as is_graded_by_list
        from labels.expected_chunks as items
        left join labels.grade_counts as counts on items.query_key = counts.query_key
        left join labels.expected_document_counts as documents on items.query_key = documents.query_key
        left join labels.grades as grades on items.query_key = grades.query_key and items.chunk_key = grades.chunk_key
        where grades.chunk_key is null
    ) as expected
),

wanted as (
    select
        query_key,
        count(*) filter (where is_relevant) as n_relevant,
        list(grade order by grade desc) filter (where grade > 0) as best_grades
    from labelled
    group by query_key
),

found as (
    select
        hits.run_key,
        hits.query_key,
        hits.chunk_key,
        labelled.grade,
        labelled.is_relevant,
        cast(min(kept_rank(hits.rank, repeated.repeated_ranks)) as integer) as rank
    from raw.hits as hits
    inner join labelled on hits.query_key = labelled.query_key and hits.chunk_key = labelled.chunk_key
    left join facts.repeated_hits as repeated
        on hits.run_key = repeated.run_key and hits.query_key = repeated.query_key
    group by hits.run_key, hits.query_key, hits.chunk_key, labelled.grade, labelled.is_relevant
),

gathered as (
    select
        run_key,
        query_key,
        list(rank order by rank) filter (where is_relevant) as relevant_ranks,
        list(rank order by rank) filter (where grade > 0) as gain_ranks,
        list(grade order by rank) filter (where grade > 0) as gain_grades,
        list(rank order by rank) as labelled_ranks
    from found
    group by run_key, query_key
)

select
    results.run_key,
    results.query_key,
    wanted.n_relevant,
    wanted.best_grades,
    coalesce(gathered.relevant_ranks, []) as relevant_ranks,
    coalesce(gathered.gain_ranks, []) as gain_ranks,
    coalesce(gathered.gain_grades, []) as gain_grades,
    coalesce(gathered.labelled_ranks, []) as labelled_ranks,
    coalesce(settings.labels = 'judged', graded.query_key is not null) as is_judged,
    cast(results.n_hits - coalesce(len(repeated.repeated_ranks), 0) as integer) as n_hits,
    is_failed(results.error, results.timed_out) as is_error
from raw.results as results
inner join labels.queries as queries on results.query_key = queries.query_key
cross join labels.settings as settings
left join labels.grade_counts as graded on results.query_key = graded.query_key
left join wanted on results.query_key = wanted.query_key
left join gathered on results.run_key = gathered.run_key and results.query_key = gathered.query_key
left join facts.repeated_hits as repeated
    on results.run_key = repeated.run_key and results.query_key = repeated.query_key
