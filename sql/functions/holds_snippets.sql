-- arguments: [text, snippets, rule]
-- why: docs/decisions.md#a2-5
-- examples:
--   - holds_snippets('blue paint', ['blue', 'red'], 'any') => true
--   - holds_snippets('blue paint', ['blue', 'red'], 'all') => false
--   - holds_snippets('Blue paint', ['blue'], 'any') => false
--   - holds_snippets(null, ['blue'], 'any') => true
--   - holds_snippets('blue paint', cast(null as varchar []), 'any') => true
case
    when text is null or coalesce(len(snippets), 0) = 0 then true
    when rule = 'all' then len(list_filter(snippets, lambda snippet: not contains(text, snippet))) = 0
    else len(list_filter(snippets, lambda snippet: contains(text, snippet))) > 0
end
