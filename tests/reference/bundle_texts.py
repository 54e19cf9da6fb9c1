"""Awkward but valid raw material for random bundles: ids, texts, headings, choices."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

ABSENT: Any = object()

HOSTILE_IDS = (
    "plain",
    "Plain",
    "two words",
    " padded ",
    "padded",
    'double "quote"',
    "apo'strophe''s",
    "pipe|pipe||",
    "line\nbreak",
    "carriage\r\nreturn",
    "tab\there",
    "back\\slash\\n",
    "comma,semi;colon",
    "percent%s {brace} ${x} $1",
    "'; drop table runs; --",
    "<b>&amp;</b>",
    '{"json": [1]}',
    "[1, 2]",
    "caf\u00e9",
    "cafe\u0301",
    "\u65e5\u672c\u8a9e",
    "\u05e2\u05d1\u05e8\u05d9\u05ea",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629",
    "\u0939\u093f\u0928\u094d\u0926\u0940",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467",
    "\U0001d518\U0001d52b\U0001d526",
    "zero\u200bwidth",
    "\ufefforder mark",
    "line\u2028separator",
    "next\u0085line",
    "unit\u001fseparator",
    "null",
    "None",
    "true",
    "1",
    "01",
    "1.0",
    "1e5",
    "NaN",
    "-0",
    "2026-01-01",
    "../up/and/away",
    "#hash",
    "a: b",
    "- dash",
    "*star",
    "~",
    "@at",
    "!bang",
    "=1+1",
    " ",
    "\u00a0",
    "stra\u00dfe",
    "STRASSE",
    "\ufb01ne",
    "long-" + "x" * 240,
)

TEXT_PIECES = (
    "blue",
    "Blue",
    "1 234",
    "1\u00a0234",
    "caf\u00e9",
    "cafe\u0301",
    "\u65e5\u672c",
    "\U0001f469\u200d\U0001f467",
    "\U0001f469",
    "a|b",
    '"quoted"',
    "it's",
    "stra\u00dfe",
    "STRASSE",
    "line\nbreak",
    "100%",
    "a_c",
    "back\\slash",
    ".*",
)

BLANK_TEXTS = ("", " ", "\n\t", "\u3000\n", "\u00a0", "\u0085", "\u001f")
SPACES = (" ", "  ", "\t", "\u00a0", "\u2003", "\u3000", "\n", "\u001f")

HEADINGS: tuple[tuple[str, ...], ...] = (
    (),
    ("Intro",),
    ("intro",),
    ("Introduction",),
    ("Intro", "Setup"),
    ("Intro", "Setup", "Linux"),
    ("Intro", "Set"),
    ("Intro Setup",),
    ("C# notes", "1"),
    ("\u65e5\u672c\u8a9e", "\u6982\u8981"),
    ("caf\u00e9",),
    ("cafe\u0301",),
)

REL_PATHS = (
    "work/health/plan.md",
    "work/healthy/plan.md",
    "work/health plan.md",
    "Work/health/plan.md",
    "work/health/sub/deep.md",
    "personal/\u65e5\u8a18/2024.md",
    "notes.md",
    "a'b/c|d.md",
    "a b/c \U0001f9ea.md",
)

FOLDERS = (
    "",
    ".",
    "work",
    "work/",
    "work/heal",
    "work/health",
    "work/health/sub",
    "work/health/plan.md",
    "Work",
    "personal",
    "personal/\u65e5\u8a18",
    "a'b",
    "a b",
    "nowhere",
)


def pick(rng: Random, *choices: tuple[float, Any]) -> Any:
    """One of the values, by weight."""
    weights = [weight for weight, _ in choices]
    return rng.choices([value for _, value in choices], weights=weights)[0]


def put(row: dict[str, Any], field: str, value: Any) -> None:
    """Set a field, unless the value is ABSENT: null and absent are different deliveries."""
    if value is not ABSENT:
        row[field] = value


def chance(rng: Random, share: float) -> bool:
    return rng.random() < share


def fresh_id(rng: Random, kind: str, taken: set[str]) -> str:
    """An id nobody has yet: ordinary, hostile, or a mixture."""
    hostile = rng.choice(HOSTILE_IDS)
    number = len(taken) + 1
    candidate = str(pick(rng, (5, f"{kind}{number}"), (3, hostile), (2, f"{hostile}{number}")))
    while candidate in taken:
        number += 1
        candidate = f"{candidate}{number}"
    taken.add(candidate)
    return candidate


def some(rng: Random, population: Sequence[Any], *, most: int) -> list[Any]:
    """Up to `most` draws in any order, with repetitions."""
    if not population:
        return []
    return [rng.choice(population) for _ in range(rng.randint(1, most))]


def sentence(rng: Random, *, most: int = 6) -> str:
    return " ".join(some(rng, TEXT_PIECES, most=most))


def render_heading(rng: Random, segments: Sequence[str]) -> Any:
    """The same heading in one of the forms systems deliver it in."""
    if not segments:
        return rng.choice([ABSENT, None, "", [], ">", "##", [""]])
    marked = [f"{rng.choice(['#', '##', '### '])}{segment}" for segment in segments]
    spaced = [f"{rng.choice(SPACES)}{segment}{rng.choice(SPACES)}" for segment in segments]
    return rng.choice(
        [
            " > ".join(segments),
            ">".join(segments),
            list(segments),
            " > ".join(marked),
            marked,
            ">".join(spaced),
            spaced,
            "> " + " > > ".join(segments) + " >",
            [" > ".join(segments)],
            " > ".join(segment.replace(" ", rng.choice(SPACES)) for segment in segments),
        ]
    )
