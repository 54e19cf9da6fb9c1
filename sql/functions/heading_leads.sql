-- arguments: [gold, heading, prefix]
-- why: docs/decisions.md#a2-2
-- examples:
--   - heading_leads('Intro', 'Intro > Setup', 'segments') => true
--   - heading_leads('Intro', 'Introduction', 'segments') => false
--   - heading_leads('Intro', 'Introduction', 'string') => true
--   - heading_leads('Intro > Setup', 'Intro', 'segments') => false
--   - heading_leads('', 'anything', 'segments') => true

-- Both headings are normal ones, so that a segment ends where the text does or where ` > ` follows.
case
    when gold = '' then true
    when prefix = 'string' then starts_with(heading, gold)
    else heading = gold or starts_with(heading, gold || ' > ')
end
