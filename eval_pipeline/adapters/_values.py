"""What values of other people's files mean: lists that were printed, numbers as text, scores, times."""

from __future__ import annotations

import ast
import datetime as dt
import json
import math
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eval_pipeline.adapters._names import hash_of

Row = dict[str, Any]
_PRINTED = re.compile(r"\s*[\[(].*[\])]\s*\Z", re.DOTALL)
_NUMBERS = re.compile(r"\s*[-+]?[\d.]+(e[-+]?\d+)?(\s+[-+]?[\d.]+(e[-+]?\d+)?)*\s*")
_ARRAY = re.compile(r"array\((\[.*?\])(?:, dtype=[^)]*)?\)", re.DOTALL)
PRINTED_BYTES = 16 << 20
NO_DOCUMENT = (
    "The hits name no document: it is the part of the chunk id before the last '#', else the chunk id."
)


def _literal(text: str) -> Any:
    """What Python printed. What it thinks of a backslash in somebody's text is nothing to tell."""
    with warnings.catch_warnings(action="ignore"):
        return ast.literal_eval(text)


def printed_list(text: str) -> list[Any] | None:
    """The list that a text is: as JSON writes it, or as Python, NumPy and pandas print it; None of other texts."""
    if not _PRINTED.match(text) or len(text) > PRINTED_BYTES:
        return None
    # Texts side by side are several to NumPy, and to Python one.
    for read in (json.loads, _numpy_list, _literal):
        try:
            found = read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
        if found is not None:
            return list(found) if isinstance(found, list | tuple) else None
    bare = _ARRAY.sub(r"\1", text)
    return None if bare == text else printed_list(bare)


def _numpy_list(text: str) -> list[Any] | None:
    """Values side by side in brackets, without commas, as NumPy prints them; only where nothing else stands there."""
    inner = text.strip()[1:-1]
    if _NUMBERS.fullmatch(inner):
        return [int(one) if one.lstrip("+-").isdigit() else float(one) for one in inner.split()]
    found = re.findall(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", inner)
    if not found or re.sub(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", "", inner).strip():
        return None
    try:
        return [_literal(one) for one in found]
    except (ValueError, SyntaxError):
        return None


def listed(value: Any) -> list[Any] | None:
    """The list that a value is or prints; None of everything else."""
    if isinstance(value, str):
        return printed_list(value)
    return list(value) if isinstance(value, list | tuple) else None


def opened(value: Any) -> Any:
    """The object or list that a text holds as JSON, or the object that Python printed; everything else as it is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return _printed_object(value)


def _printed_object(text: str) -> Any:
    """The object that Python printed into a cell; any other text as it is."""
    if not text.startswith(("{'", '{"')) or len(text) > PRINTED_BYTES:
        return text
    try:
        found = _literal(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return text
    return found if isinstance(found, dict) else text


def as_object(value: Any) -> Row:
    """An object, or an empty one for everything else."""
    return value if isinstance(value, dict) else {}


def as_id(value: Any) -> str | None:
    """A text or whole number as an id."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int) else None


def as_number(value: Any) -> float | None:
    """A finite number, also as text; true and false are none."""
    if value is None or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def as_text(value: Any) -> str | None:
    """A text that says something."""
    return value if isinstance(value, str) and value.strip() else None


def document_id(chunk_id: str) -> str:
    """The document of a hit that names none: the part of the chunk id before the last `#`, else the chunk id."""
    return chunk_id.rpartition("#")[0] or chunk_id


def hit_of(chunk: Any, *, doc: Any = None, text: Any = None, score: Any = None) -> Row:
    """A hit; see `document_id` for a hit without a document."""
    chunk_id = as_id(chunk)
    found: Row = {"chunk_id": chunk_id, "doc_id": as_id(doc) or (chunk_id and document_id(chunk_id))}
    if isinstance(text, str):
        found["text"] = text
    number = as_number(score)
    if number is not None:
        found["score"] = number
    return found


def side_by_side(ids: Sequence[Any] | None, texts: Sequence[Any] | None) -> list[Row] | None:
    """Hits of a list of ids and a list of texts: the one names the other where they are equally long."""
    if ids is not None:
        named = texts if texts is not None and len(texts) == len(ids) else None
        return [hit_of(one, text=named[place] if named else None) for place, one in enumerate(ids)]
    return None if texts is None else [hit_of(text_id(one), text=one) for one in texts]


def text_id(text: Any) -> str:
    """The id of a passage that has none: a hash of what it says."""
    return hash_of(text)


def labels_of(chunks: Iterable[Any]) -> Row:
    """The labels of a file with one kind of ids: expected chunks; an empty list expects a refusal."""
    ids = [one for one in map(as_id, chunks) if one is not None]
    return {"expected_chunk_ids": ids, **({} if ids else {"expected_doc_ids": []})}


def graded(grades: dict[str, int]) -> Row:
    """Labels with grades; what is at least 1 is expected."""
    relevant = [name for name, grade in grades.items() if grade >= 1]
    return {"grades": grades, **(labels_of(relevant) if relevant else {})}


def score_of(value: Any, **said: Any) -> Any:
    """A score as the bundle takes it; one without a value keeps why, so that it is counted as unscored."""
    about = {name: text for name, text in said.items() if text not in (None, "")}
    if isinstance(value, float) and not math.isfinite(value):
        value = None
    if not isinstance(value, bool | int | float | str) and value is not None:
        return None
    return {"value": value, **about} if about or value is None else value


def score_in_words(value: Any, numbers: Mapping[str, float], **said: Any) -> Any:
    """A text is the number that the tool counts it as, and stays beside it for who counts it otherwise."""
    if isinstance(value, str) and value in numbers:
        return score_of(numbers[value], label=value, **said)
    return score_of(value, **said)


def utc_text(value: Any) -> str | None:
    """A time as run.json says it: of a text, or of seconds, milliseconds or nanoseconds since 1970."""
    if isinstance(value, str) and not value.strip().isdigit():
        try:
            return dt.datetime.fromisoformat(value.strip().replace("Z", "+00:00")).isoformat()
        except ValueError:
            return None
    number = as_number(value)
    if number is None or number <= 0:
        return None
    while number > 1e11:
        number /= 1000
    return dt.datetime.fromtimestamp(number, dt.UTC).isoformat(timespec="milliseconds")


def milliseconds_between(start: Any, end: Any) -> float | None:
    """How long it took from one time to the other, both as texts of ISO 8601."""
    try:
        first, last = (dt.datetime.fromisoformat(str(one).replace("Z", "+00:00")) for one in (start, end))
        return round((last - first).total_seconds() * 1000, 3)
    except (ValueError, TypeError):
        return None
