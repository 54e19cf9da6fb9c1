-- arguments: [haystack, needle, match]
-- why: docs/decisions.md#a3-9
-- examples:
--   - contains_text('Paris', 'aris', 'exact') => true
--   - contains_text('Paris', 'PARIS', 'exact') => false
--   - contains_text('Paris', 'PARIS', 'casefold') => true
--   - contains_text('Hauptstraße', 'STRASSE', 'casefold') => true
--   - contains_text(null, 'a', 'exact') => false
case
    when haystack is null then false
    when match = 'casefold' then contains(casefolded(haystack), casefolded(needle))
    else contains(haystack, needle)
end
