-- arguments: [path]
-- why: docs/decisions.md#a2-13
-- examples:
--   - normal_path('work/health/') => "work/health"
--   - normal_path('./notes//health') => "notes/health"
--   - normal_path('.') => ""
array_to_string(list_filter(string_split(path, '/'), lambda segment: segment not in ('', '.')), '/')
