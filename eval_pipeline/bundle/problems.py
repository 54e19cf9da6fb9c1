"""What was wrong with a piece of input, and where it stood."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from eval_pipeline.errors import InputRejected
from eval_pipeline.records import ID_LENGTH

TEXT_SHOWN = 2000
MOST_BAD_ROWS = 100_000

_TYPE_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "nothing",
}
_STEP = re.compile(r"\.\.\.|[^.\[\]]+")
_WRONG_TYPE = re.compile(r"Expected `(?P<expected>[^`]+)`, got `(?P<got>[^`]+)`")
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]+)`")
_PLACE = re.compile(r" - at `(?P<key>key` in `)?\$(?P<place>[^`]*)`$")


@dataclass(frozen=True)
class Problem:
    """One rejected piece of input: a row, or with `line` None a whole file."""

    path: str
    reason: str
    line: int | None = None
    run_id: str | None = None
    query_id: str | None = None
    field: str | None = None
    text: str = ""


def _refuse_too_many(bad_rows: int) -> None:
    """So many reasons fit no memory and help nobody: a part like that is refused as a whole."""
    if bad_rows > MOST_BAD_ROWS:
        raise InputRejected(
            f"more than {MOST_BAD_ROWS:,} rows cannot be taken: the part is refused as a whole"
        )


def shorten(text: str) -> str:
    """Enough of the offending text to find it again."""
    return text if len(text) <= TEXT_SHOWN else text[:TEXT_SHOWN] + "…"


def explain_validation(error: msgspec.ValidationError) -> tuple[str, str]:
    """Say in words what a record refused: (field, reason)."""
    message = str(error)
    place = _PLACE.search(message)
    field = place["place"].lstrip(".") if place else ""
    if place and place["key"]:
        return field, "a key must be text"
    missing = _MISSING.search(message)
    if missing:
        return f"{field}.{missing['field']}".lstrip("."), "is required and was not given"
    wrong = _WRONG_TYPE.search(message)
    if wrong:
        return field, f"expected {_in_words(wrong['expected'])}, got {_in_words(wrong['got'])}"
    return field, _PLACE.sub("", message)


def _place_of_fraction(error: msgspec.ValidationError) -> list[str] | None:
    """The steps to where a whole number was expected and a number with a point stands; `...` is any key."""
    message = str(error)
    wrong, place = _WRONG_TYPE.search(message), _PLACE.search(message)
    if not wrong or not place or place["key"] or wrong["got"] != "float":
        return None
    if "int" not in [name.strip() for name in wrong["expected"].split("|")]:
        return None
    return _STEP.findall(place["place"]) or None


def _make_whole(holder: Any, steps: Sequence[str]) -> bool:
    """Write 5.0 as 5 there; whether there was anything to write."""
    step, *rest = steps
    if isinstance(holder, dict):
        keys: list[Any] = list(holder) if step == "..." else [step] * (step in holder)
    elif isinstance(holder, list) and step.isdigit():
        keys = [int(step)] * (int(step) < len(holder))
    else:
        return False
    made = False
    for key in keys:
        value = holder[key]
        if rest:
            made = _make_whole(value, rest) or made
        elif isinstance(value, float) and value.is_integer():
            holder[key], made = int(value), True
    return made


def _in_words(types: str) -> str:
    names = [name.strip() for name in types.split("|")]
    return " or ".join(_TYPE_WORDS.get(name, name) for name in names if name != "null" or len(names) == 1)


def _id_fault(value: str) -> str | None:
    """Why `value` cannot be an id, or None."""
    if not value:
        return "an id must not be empty"
    if len(value) > ID_LENGTH:
        return f"an id has at most {ID_LENGTH} characters, this one has {len(value)}"
    return _text_fault(value)


def _text_fault(value: str) -> str | None:
    """Why `value` cannot be stored as text, or None."""
    if "\x00" in value:
        return "text must not contain the character NUL"
    if not _encodable(value):
        return "text contains half of a surrogate pair"
    return None


def _encodable(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _first_text_fault(value: Any) -> tuple[str, str] | None:
    """The first text anywhere inside `value`, keys included, that cannot be stored: (field, reason)."""
    for place, item in _each_leaf(value):
        fault = _text_fault(item) if isinstance(item, str) else None
        if fault:
            return printable(place), fault
    return None


def _each_leaf(value: Any) -> Iterator[tuple[str, Any]]:
    """(place, value) of every text, number, true, false and null inside, and of every key; however deep."""
    waiting = [("", value)]
    while waiting:
        place, item = waiting.pop()
        if isinstance(item, dict):
            yield from ((place.lstrip("."), key) for key in item)
            waiting += [(f"{place}.{key}", inner) for key, inner in reversed(item.items())]
        elif isinstance(item, list):
            waiting += [(f"{place}[{number}]", inner) for number, inner in reversed(list(enumerate(item)))]
        else:
            yield place.lstrip("."), item


def printable(text: str) -> str:
    """The text with a question mark for what no file and no terminal could hold."""
    return text.encode("utf-8", errors="replace").decode().replace("\x00", "?")
