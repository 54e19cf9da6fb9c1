"""Words of a text: the unit that chunkers count and the retriever indexes."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Chinese and Japanese are written without spaces, so there each character is a word.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=。)|\n+")

_STOP_WORDS = """
a an and are as at be been by can did do does for from has have how i if in into is it its may me my no not of off on
one or our than that the their them there they this to us was we what when where which who why with you your
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())


def word_spans(text: str) -> Iterator[tuple[int, int]]:
    """Half-open code point ranges of the words of a text, in order."""
    return (match.span() for match in _WORD.finditer(text))


def words(text: str) -> list[str]:
    """The words of a text, case folded."""
    return [match.group().casefold() for match in _WORD.finditer(text)]


def count_words(text: str) -> int:
    return sum(1 for _ in word_spans(text))


def without_ending(word: str) -> str:
    """A word without its commonest English endings; short words stay as they are."""
    for ending in ("ings", "ing", "ied", "ed", "ies", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word.removesuffix(ending)
    return word


def sentences(text: str) -> list[str]:
    """Sentences, list entries and table rows of a Markdown text, without headings."""
    pieces = (piece.strip() for piece in _SENTENCE_END.split(text))
    return [piece.removeprefix("- ") for piece in pieces if count_words(piece) and not piece.startswith("#")]
