-- keys: {scope_miss_rate: "Whether the selected folders exclude every gold support"}
-- about: "How often was the search kept to folders that cannot hold the answer?"
-- family: scope
-- headline: scope_miss_rate
-- version: 1
-- applies: answerable and n_supports > 0
-- scale: binary
-- range: [0, 1]
-- direction: lower
-- aggregate: mean
-- why: docs/decisions.md#a2-13
-- examples:
--   - {folder_mode: "on", selected_folders: [personal], gold_supports: [{rel_path: work/a.md}, {rel_path: work/b.md}]} => {scope_miss_rate: 1}
--   - {folder_mode: "on", selected_folders: [personal, work], gold_supports: [{rel_path: work/a.md}, {rel_path: x/b.md}]} => {scope_miss_rate: 0}
--   - {folder_mode: on_with_fallback, selected_folders: [work/a], gold_supports: [{rel_path: work/ab/c.md}], hits: [{rel_path: work/ab/c.md}]} => {scope_miss_rate: 1}
--   - {folder_mode: "on", selected_folders: [], gold_supports: [{rel_path: a.md}]} => {scope_miss_rate: 1}
--   - {folder_mode: "on", gold_supports: [{rel_path: a.md}]} => {scope_miss_rate: null}
--   - {folder_mode: "off", selected_folders: [x], gold_supports: [{rel_path: a.md}]} => {scope_miss_rate: null}
--   - {folder_mode: "on", selected_folders: [x], gold_supports: [{rel_path: a.md}], answerable: false} => {scope_miss_rate: null}
select
    checks.run_key,
    checks.query_key,
    cast(checks.n_reached = 0 as double) as scope_miss_rate
from facts.folder_checks as checks
inner join labels.answerable as answerable on checks.query_key = answerable.query_key
