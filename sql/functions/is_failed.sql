-- arguments: [error, timed_out]
-- why: docs/decisions.md#a3-7
-- examples:
--   - is_failed('no connection', false) => true
--   - is_failed(null, true) => true
--   - is_failed('', null) => false
coalesce(error, '') <> '' or coalesce(timed_out, false)
