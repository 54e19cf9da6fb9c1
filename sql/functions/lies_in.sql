-- arguments: [path, folders]
-- why: docs/decisions.md#a2-13
-- examples:
--   - lies_in('work/health/plan.md', ['home', 'work']) => true
--   - lies_in('work/health/plan.md', ['work/heal']) => false
--   - lies_in('work/health/plan.md', ['work/health/plan.md']) => true
--   - lies_in('work/health/plan.md', ['']) => true
--   - lies_in('work/health/plan.md', []) => false

-- Path and folders are normal ones; the empty folder is the one that holds everything.
len(
    list_filter(
        folders,
        lambda folder: folder = '' or path = folder or starts_with(path, folder || '/')
    )
) > 0
