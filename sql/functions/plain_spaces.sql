-- arguments: [text]
-- why: docs/decisions.md#ax-10
-- examples:
--   - plain_spaces('a  b') => "a b"
--   - plain_spaces(chr(160) || 'a' || chr(12288) || chr(31) || 'b') => " a b"
--   - plain_spaces('a' || chr(8203) || 'b') = 'a' || chr(8203) || 'b' => true
--   - plain_spaces(null) => null

-- Exactly the characters that Python's str.split takes for white space, whatever the locale; a run of them is one space.
regexp_replace(
    text,
    '[\x{9}-\x{d}\x{1c}-\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]+',
    ' ',
    'g'
)
