-- arguments: [text]
-- why: docs/decisions.md#a3-9
-- examples:
--   - casefolded('PARIS') => "paris"
--   - casefolded('Straße') => "strasse"
--   - casefolded('ΣΊΣΥΦΟΣ') = casefolded('σίσυφος') => true
--   - casefolded(null) => null

-- Tells apart exactly what Python's str.casefold tells apart. `lower` does most of it; what it leaves are letters that
-- fold to one other (in `translate`; 837 and 8126 are the iotas below a letter) and letters that fold to several (in
-- the list, each followed by what it becomes).
list_reduce(
    [
        'ßss', 'ŉʼn', 'ǰǰ', 'ΐΐ', 'ΰΰ', 'ևեւ', 'ẖẖ', 'ẗẗ', 'ẘẘ', 'ẙẙ', 'ẚaʾ', 'ὐὐ', 'ὒὒ',
        'ὔὔ', 'ὖὖ', 'ᾀἀι', 'ᾁἁι', 'ᾂἂι', 'ᾃἃι', 'ᾄἄι', 'ᾅἅι', 'ᾆἆι', 'ᾇἇι', 'ᾐἠι', 'ᾑἡι', 'ᾒἢι', 'ᾓἣι',
        'ᾔἤι', 'ᾕἥι', 'ᾖἦι', 'ᾗἧι', 'ᾠὠι', 'ᾡὡι', 'ᾢὢι', 'ᾣὣι', 'ᾤὤι', 'ᾥὥι', 'ᾦὦι', 'ᾧὧι', 'ᾲὰι', 'ᾳαι',
        'ᾴάι', 'ᾶᾶ', 'ᾷᾶι', 'ῂὴι', 'ῃηι', 'ῄήι', 'ῆῆ', 'ῇῆι', 'ῒῒ', 'ΐΐ', 'ῖῖ', 'ῗῗ', 'ῢῢ',
        'ΰΰ', 'ῤῤ', 'ῦῦ', 'ῧῧ', 'ῲὼι', 'ῳωι', 'ῴώι', 'ῶῶ', 'ῷῶι', 'ﬀff', 'ﬁfi', 'ﬂfl', 'ﬃffi',
        'ﬄffl', 'ﬅst', 'ﬆst', 'ﬓմն', 'ﬔմե', 'ﬕմի', 'ﬖվն', 'ﬗմխ'
    ],
    lambda folded, pair: replace(folded, left(pair, 1), substr(pair, 2)),
    translate(
        lower(replace(text, 'İ', 'i' || chr(775))),
        'µſςϐϑϕϖϰϱϵᲀᲁᲂᲃᲄᲅᲆᲇᲈẛ' || chr(837) || chr(8126),
        'μsσβθφπκρεвдосттъѣꙋṡ' || 'ιι'
    )
)
