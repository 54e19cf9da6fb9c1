"""The helpers that handle text, beside Python's own handling of it, character by character."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from eval_pipeline.computing.scope import visible_catalogue
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.settings import utc_now
from eval_pipeline.store.open import Connection, open_in_memory
from tests.bundle_files import settings_in

SURROGATES = range(0xD800, 0xE000)
PIECES = (
    "Intro",
    "C# notes",
    "a  b",
    "#",
    "##",
    "# #x",
    "日本語",
    "\u2003wide\u3000",
    "tab\there",
    ">",
    " > ",
    "",
)


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    registry = load_registry(settings_in(tmp_path_factory.mktemp("functions")))
    with open_in_memory(utc_now) as connection, visible_catalogue(connection, registry.helpers.values()):
        yield connection


def characters() -> list[str]:
    """Every character that this Python knows."""
    points = (point for point in range(1, 0x110000) if point not in SURROGATES)
    return [char for char in map(chr, points) if unicodedata.category(char) not in ("Cn", "Co")]


def answers(con: Connection, expression: str, texts: list[str]) -> list[str]:
    """The expression over x for each text, in order."""
    rows = con.execute(
        f"select {expression} from (select unnest(?) as x, generate_subscripts(?, 1) as place) order by place",
        [texts, texts],
    ).fetchall()
    return [row[0] for row in rows]


def test_casefolded_tells_apart_exactly_the_characters_that_python_tells_apart(con: Connection) -> None:
    known = characters()
    lowered = answers(con, "lower(x)", known)
    cased = [
        char
        for char, low in zip(known, lowered, strict=True)
        if {low, char.casefold(), char.upper()} != {char}
    ]
    texts = [*cased, *(char.casefold() for char in cased)]
    assert len(texts) > 2500
    folded = answers(con, "casefolded(x)", texts)
    by_python: dict[str, set[str]] = {}
    by_helper: dict[str, set[str]] = {}
    for text, answer in zip(texts, folded, strict=True):
        by_python.setdefault(text.casefold(), set()).add(answer)
        by_helper.setdefault(answer, set()).add(text.casefold())
    assert {python: seen for python, seen in by_python.items() if len(seen) > 1} == {}
    assert {answer: seen for answer, seen in by_helper.items() if len(seen) > 1} == {}


def test_a_folded_text_is_the_folded_characters_one_after_the_other(con: Connection) -> None:
    rng = Random(1)
    odd = [char for char in characters() if len(char.casefold()) > 1]
    texts = ["".join(rng.choices([*odd, "a", "Σ", "ς", "Z", "\u0301", "İ"], k=12)) for _ in range(60)]
    whole = answers(con, "casefolded(x)", texts)
    assert whole == answers(con, "casefolded(x)", whole)
    assert whole == ["".join(answers(con, "casefolded(x)", list(text))) for text in texts]


def test_white_space_is_what_python_splits_at_and_nothing_else(con: Connection) -> None:
    texts = [f"a{char}b" for char in characters()]
    assert answers(con, "plain_spaces(x)", texts) == [
        " ".join(text.split()) if text[1].isspace() else text for text in texts
    ]


@pytest.mark.parametrize("strip_markers", [True, False])
def test_a_normal_heading_is_its_segments_cleaned_one_by_one(con: Connection, strip_markers: bool) -> None:
    rng = Random(2)
    texts = ["".join(rng.choices(PIECES, k=rng.randint(0, 7))) for _ in range(500)]
    expected = []
    for text in texts:
        segments = [" ".join(segment.split()) for segment in text.split(">")]
        while strip_markers and any(segment.startswith("#") for segment in segments):
            segments = [segment.removeprefix("#").strip() for segment in segments]
        expected.append(" > ".join(segment for segment in segments if segment))
    flag = str(strip_markers).lower()
    assert answers(con, f"normal_heading(x, {flag})", texts) == expected


def test_a_leading_heading_ends_where_a_segment_ends_unless_text_alone_counts(con: Connection) -> None:
    rng = Random(3)
    names = ("a", "ab", "a b", "b")
    pairs = [
        (
            " > ".join(rng.choices(names, k=rng.randint(0, 2))),
            " > ".join(rng.choices(names, k=rng.randint(0, 3))),
        )
        for _ in range(300)
    ]
    for gold, heading in pairs:
        wanted, given = ([part for part in text.split(" > ") if part] for text in (gold, heading))
        row = con.execute(
            "select heading_leads($1, $2, 'segments'), heading_leads($1, $2, 'string')", [gold, heading]
        ).fetchall()[0]
        assert row == (given[: len(wanted)] == wanted, heading.startswith(gold))


def test_a_folder_holds_what_lies_below_it_in_whole_segments(con: Connection) -> None:
    folders = ["", ".", "./", "a", "a/", "/a", "a//b", "a/./b", "ab", "a/b/c.md", "nowhere"]
    paths = ["a/b/c.md", "ab/c.md", "./a/c.md", "c.md", "a"]
    for path in paths:
        for folder in folders:
            wanted, given = (
                [part for part in Path(text).parts if part not in ("/", "")] for text in (folder, path)
            )
            row = con.execute(
                "select lies_in(normal_path($1), [normal_path($2)])", [path, folder]
            ).fetchall()[0]
            assert row == (given[: len(wanted)] == wanted,)
