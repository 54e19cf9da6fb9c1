-- keys:
--   n_supports: "How many gold supports the query has; null without any, and unless folders were to be selected and the selection is recorded"
--   n_reached: "How many of them lie in a selected folder, at any depth"
-- about: "How many gold supports lie in the folders that were selected for the query."
-- version: 1
-- why: docs/decisions.md#a2-13
-- examples:
--   - {folder_mode: "on", selected_folders: [work/health], gold_supports: [{rel_path: work/health/sub/a.md}, {rel_path: work/healthy/b.md}]} => {n_supports: 2, n_reached: 1}
--   - {folder_mode: "on", selected_folders: [], gold_supports: [{rel_path: a.md}]} => {n_supports: 1, n_reached: 0}
--   - {folder_mode: on_with_fallback, selected_folders: ["."], gold_supports: [{rel_path: a.md}]} => {n_supports: 1, n_reached: 1}
--   - {config: {folder_mode: "on"}, selected_folders: [work/], gold_supports: [{rel_path: work/a.md}]} => {n_supports: 1, n_reached: 1}
--   - {config: {folder_mode: "on"}, folder_mode: "off", selected_folders: [work], gold_supports: [{rel_path: work/a.md}]} => {n_supports: null, n_reached: null}
--   - {folder_mode: "on", gold_supports: [{rel_path: a.md}]} => {n_supports: null, n_reached: null}

-- Night after night the same folders are chosen for a question: each choice is looked at once.
with selections as (
    select
        results.run_key,
        results.query_key,
        results.selected_folders
    from raw.results as results
    inner join raw.runs as runs on results.run_key = runs.run_key
    where coalesce(results.folder_mode, runs.folder_mode) in ('on', 'on_with_fallback')
        and results.selected_folders is not null
),

choices as (
    select
        query_key,
        selected_folders,
        list_transform(selected_folders, lambda folder: normal_path(folder)) as folders
    from (select distinct selections.query_key, selections.selected_folders from selections)
),

supports as (
    select
        query_key,
        normal_path(rel_path) as path
    from labels.supports
),

reached as (
    select
        choices.query_key,
        choices.selected_folders,
        count(*) as n_supports,
        count(*) filter (where lies_in(supports.path, choices.folders)) as n_reached
    from choices
    inner join supports on choices.query_key = supports.query_key
    group by choices.query_key, choices.selected_folders
)

select
    results.run_key,
    results.query_key,
    reached.n_supports,
    reached.n_reached
from raw.results as results
inner join labels.queries as queries on results.query_key = queries.query_key
left join selections
    on results.run_key = selections.run_key and results.query_key = selections.query_key
left join reached
    on selections.query_key = reached.query_key and selections.selected_folders = reached.selected_folders
