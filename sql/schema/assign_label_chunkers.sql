-- Not a step of the schema: what is done whenever golden sets, inventories or runs were loaded. Finds out whose ids labels
-- hold; temp.chunker_settings has what eval-pipeline.toml says of it.
create or replace temp table label_chunkers as
with sets as (
    select
        golden_sets.golden_key,
        golden_sets.dataset_key,
        settings.chunker_version as setting,
        coalesce(settings.chunker_version, golden_sets.chunker_version) as declared,
        coalesce(settings.relevant_from, 1) as relevant_from
    from labels.golden_sets as golden_sets
    left join temp.chunker_settings as settings on golden_sets.dataset_key = settings.dataset_key
    where golden_sets.superseded_at is null
),

expected as (
    select items.golden_key, items.chunk_key
    from labels.expected_chunks as items
    inner join sets on items.golden_key = sets.golden_key
    union
    select grades.golden_key, grades.chunk_key
    from labels.grades as grades
    inner join sets on grades.golden_key = sets.golden_key
),

totals as (select golden_key, count(*) as n from expected group by golden_key),

inventories as (
    select sets.golden_key, archives.chunker_version, archives.archive_key
    from sets
    inner join ledger.archives_in_force as archives on sets.dataset_key = archives.dataset_key and archives.is_newest
),

-- Where two inventories have a chunk at the same characters, they mean the same by its id; without characters the text says so.
places as (
    select
        archive_key,
        chunk_key,
        list(struct_pack(d := doc_key, s := "start", e := "end") order by doc_key, "start", "end") as spans
    from raw.archive_spans
    semi join inventories on archive_spans.archive_key = inventories.archive_key
    group by archive_key, chunk_key
),

contained as (
    select
        expected.golden_key,
        expected.chunk_key,
        inventories.chunker_version,
        hash(
            any_value(chunks.doc_key),
            any_value(places.spans),
            case when any_value(places.spans) is null then any_value(chunks.text_key) end
        ) as place
    from expected
    inner join inventories on expected.golden_key = inventories.golden_key
    inner join raw.archive_chunks as chunks
        on inventories.archive_key = chunks.archive_key and expected.chunk_key = chunks.chunk_key
    left join places on chunks.archive_key = places.archive_key and chunks.chunk_key = places.chunk_key
    group by expected.golden_key, expected.chunk_key, inventories.chunker_version
),

-- An inventory claims labels when it has half of their ids, and nearly as many as the one that has most.
claims as (
    select contained.golden_key, contained.chunker_version
    from contained
    inner join totals on contained.golden_key = totals.golden_key
    group by contained.golden_key, contained.chunker_version, totals.n
    having 2 * count(*) >= totals.n
    qualify count(*) >= 0.9 * max(count(*)) over (partition by contained.golden_key)
),

disputed as (
    select distinct golden_key
    from (
        select contained.golden_key
        from contained
        semi join claims
            on contained.golden_key = claims.golden_key and contained.chunker_version = claims.chunker_version
        group by contained.golden_key, contained.chunk_key
        having count(distinct contained.place) > 1
    )
),

-- Runs are asked only where no inventory answers, and several chunkers were recorded.
several as (
    select sets.golden_key
    from sets
    inner join raw.runs as runs on sets.dataset_key = runs.dataset_key
    where sets.declared is null and sets.golden_key not in (select golden_key from claims)
    group by sets.golden_key
    having count(distinct runs.chunker_version) > 1
),

retrieving as (
    select sets.golden_key, arg_min(runs.chunker_version, (runs.ordered_at, runs.run_id)) as chunker_version
    from several
    inner join sets on several.golden_key = sets.golden_key
    inner join ledger.runs_in_order as runs on sets.dataset_key = runs.dataset_key and runs.chunker_version is not null
    semi join (
        select hits.run_key, expected.golden_key
        from raw.hits as hits
        inner join expected on hits.chunk_key = expected.chunk_key
        where expected.golden_key in (select golden_key from several)
    ) as found on runs.run_key = found.run_key and sets.golden_key = found.golden_key
    group by sets.golden_key
),

known as (
    select golden_key, list_value(declared) as chunker_versions, [] as candidates
    from sets
    where declared is not null and golden_key in (select golden_key from totals)
    union all
    select
        claims.golden_key,
        case
            when claims.golden_key in (select golden_key from disputed) then []
            else list(claims.chunker_version order by claims.chunker_version)
        end as chunker_versions,
        list(claims.chunker_version order by claims.chunker_version) as candidates
    from claims
    inner join sets on claims.golden_key = sets.golden_key and sets.declared is null
    group by claims.golden_key
    union all
    select golden_key, list_value(chunker_version), list_value(chunker_version)
    from retrieving
),

-- A variant is made only for runs that need one.
needed as (
    select distinct known.golden_key
    from known
    inner join sets on known.golden_key = sets.golden_key
    inner join raw.runs as runs
        on
            sets.dataset_key = runs.dataset_key
            and runs.chunker_version is not null
            and not list_contains(known.chunker_versions, runs.chunker_version)
),

-- Inventories that agree are as good as one.
sources as (
    select known.golden_key, arg_min(inventories.archive_key, inventories.chunker_version) as archive_key
    from known
    inner join inventories
        on
            known.golden_key = inventories.golden_key
            and list_contains(known.chunker_versions, inventories.chunker_version)
    group by known.golden_key
)

select
    known.golden_key,
    known.chunker_versions,
    known.candidates,
    sets.setting,
    sources.archive_key,
    sets.relevant_from,
    needed.golden_key is not null as is_needed,
    concat_ws(
        ' ',
        to_json([known.chunker_versions, known.candidates]),
        to_json([sets.setting]),
        sources.archive_key,
        sets.relevant_from,
        needed.golden_key is not null
    ) as inputs
from known
inner join sets on known.golden_key = sets.golden_key
left join sources on known.golden_key = sources.golden_key
left join needed on known.golden_key = needed.golden_key;

update ledger.label_chunkers
set is_in_force = false
where
    is_in_force
    and not exists(
        from temp.label_chunkers as found
        where found.golden_key = label_chunkers.golden_key and found.inputs = label_chunkers.inputs
    );

create or replace temp table new_label_chunkers as
select
    found.*,
    case
        when found.is_needed then cast(
            (select max(golden_key) from (
                select max(golden_key) as golden_key from labels.golden_sets
                union all
                select max(variant_key) from ledger.label_chunkers
            ))
            + row_number() over (partition by found.is_needed order by found.golden_key)
            as integer
        )
    end as variant_key
from temp.label_chunkers as found
where
    not exists(
        from ledger.label_chunkers as chunkers
        where chunkers.is_in_force and chunkers.golden_key = found.golden_key
    );

insert into ledger.label_chunkers
select golden_key, variant_key, chunker_versions, candidates, setting, inputs, true
from temp.new_label_chunkers;

-- What the variants need beside copies of the tables of labels, which are made one by one: characters for queries that
-- have no gold spans.
create or replace temp table derived_spans as
with wanted as (
    select new.golden_key, new.variant_key, new.archive_key, items.query_key, items.chunk_key, items.item_no
    from temp.new_label_chunkers as new
    inner join labels.expected_chunks as items on new.golden_key = items.golden_key
    where new.variant_key is not null
    union all
    select new.golden_key, new.variant_key, new.archive_key, grades.query_key, grades.chunk_key, grades.chunk_key
    from temp.new_label_chunkers as new
    inner join labels.grades as grades on new.golden_key = grades.golden_key and grades.grade >= new.relevant_from
    anti join labels.expected_chunks as items
        on grades.golden_key = items.golden_key and grades.query_key = items.query_key
    where new.variant_key is not null
),

-- As the golden set froze them, else as the inventory has them.
placed as (
    select wanted.*, frozen.span_no, frozen.doc_key, frozen."start", frozen."end"
    from wanted
    inner join labels.expected_chunk_spans as frozen
        on
            wanted.golden_key = frozen.golden_key
            and wanted.query_key = frozen.query_key
            and wanted.chunk_key = frozen.chunk_key
    union all
    select wanted.*, archived.span_no, archived.doc_key, archived."start", archived."end"
    from wanted
    inner join raw.archive_spans as archived
        on wanted.archive_key = archived.archive_key and wanted.chunk_key = archived.chunk_key
    anti join labels.expected_chunk_spans as frozen
        on
            wanted.golden_key = frozen.golden_key
            and wanted.query_key = frozen.query_key
            and wanted.chunk_key = frozen.chunk_key
)

select
    placed.variant_key as golden_key,
    placed.query_key,
    placed.span_no,
    placed.doc_key,
    placed."start",
    placed."end",
    placed.chunk_key
from placed
anti join labels.spans as gold on placed.golden_key = gold.golden_key and placed.query_key = gold.query_key;

insert into labels.chunk_spans by name from temp.derived_spans;

-- Equal for the families that a variant shares with its golden set, so that nothing is stale that did not change.
insert into labels.family_hashes (golden_key, family, hash)
with refusals as (
    select golden_key, md5(string_agg(query_key, ' ' order by query_key)) as hash
    from labels.expected_chunk_counts
    where n_expected = 0
    group by golden_key
),

derived as (
    select
        golden_key,
        md5(string_agg(
            concat_ws(' ', query_key, chunk_key, span_no, doc_key, "start", "end"),
            chr(10) order by query_key, chunk_key, span_no
        )) as hash
    from temp.derived_spans
    group by golden_key
)

select
    new.variant_key,
    hashes.family,
    case
        when hashes.family in ('expected_chunks', 'grades', 'grade_counts') then sha256('')
        when hashes.family = 'expected_chunk_counts' then coalesce(refusals.hash, sha256(''))
        else hashes.hash
    end as hash
from temp.new_label_chunkers as new
inner join labels.family_hashes as hashes on new.golden_key = hashes.golden_key
left join refusals on new.golden_key = refusals.golden_key
where new.variant_key is not null
union all
select golden_key, 'chunk_spans', hash
from derived;
