-- arguments: [heading, strip_markers]
-- why: docs/decisions.md#a2-3
-- examples:
--   - normal_heading('Intro>Setup', true) => "Intro > Setup"
--   - "normal_heading('  ## Intro  >  > # #Set   up ', true)" => "Intro > Set up"
--   - normal_heading('## Intro', false) => "## Intro"
--   - normal_heading('C# notes', true) => "C# notes"
--   - normal_heading(null, true) => ""
array_to_string(
    list_filter(
        list_transform(
            string_split(plain_spaces(coalesce(heading, '')), '>'),
            lambda segment: case when strip_markers then ltrim(trim(segment), '# ') else trim(segment) end
        ),
        lambda segment: segment <> ''
    ),
    ' > '
)
