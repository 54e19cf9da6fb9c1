"""Somebody's own rows as results of the contract, through a mapping."""

# Nothing is refused here: what a value cannot be made into stays as it is, and the one reader of results says what is
# wrong with it. So every result keeps the line that its row (where there is a row per hit: its first row) stands on.

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_pipeline.adapters._names import hash_of
from eval_pipeline.adapters._values import document_id
from eval_pipeline.adapters.mapping import UNITS, RowMapping, Source
from eval_pipeline.adapters.tables import EACH, WHOLE, _opened, find_value, own_rows
from eval_pipeline.bundle.lines import Line
from eval_pipeline.errors import InputRejected

MOST_SCATTERED_HITS = 2_000_000
BEST_SCORE = 5

Row = dict[str, Any]


class ScatteredRows(Exception):
    """The rows of a query do not stand together."""


def mapped_rows(path: Path, mapping: RowMapping, *, scattered: bool = False) -> Iterator[Line[Row]]:
    """The file's results by line; rows that are none come along with the reason.

    With a row per hit, a query that returns after others raises ScatteredRows, unless `scattered` says to hold all.
    """
    yield from _mapped_lines(own_rows(path, mapping.file), mapping, scattered=scattered)


def _mapped_lines(
    rows: Iterable[Line[Row]], mapping: RowMapping, *, scattered: bool = False
) -> Iterator[Line[Row]]:
    """The same for rows that were read already."""
    if mapping.rows == "hit":
        yield from _grouped(rows, mapping, scattered=scattered)
        return
    for line in rows:
        yield line if line.record is None else Line(line.number, "", record=_as_result(line.record, mapping))


@dataclass
class _Group:
    """The rows of one query, where there is a row per hit."""

    line: int
    rows: list[Row] = field(default_factory=list)


def _grouped(rows: Iterable[Line[Row]], mapping: RowMapping, *, scattered: bool) -> Iterator[Line[Row]]:
    source = mapping.of("result")["query_id"]
    groups: dict[str, _Group] = {}
    done: set[str] = set()
    n_rows = 0
    for line in rows:
        if line.record is None:
            yield Line(line.number, line.text, reason=line.reason)
            continue
        key = json.dumps(_id(_value(line.record, source)), default=str)
        if key in done:
            raise ScatteredRows
        if key not in groups and groups and not scattered:
            done.update(groups)
            yield from _closed(groups, mapping)
            groups, n_rows = {}, 0
        groups.setdefault(key, _Group(line.number)).rows.append(line.record)
        n_rows += 1
        if n_rows > MOST_SCATTERED_HITS:
            raise InputRejected(
                f"more than {MOST_SCATTERED_HITS:,} rows are to be held at once, because the rows of a query do not "
                "stand together: sort the file by query",
                line=line.number,
            )
    yield from _closed(groups, mapping)


def _closed(groups: Mapping[str, _Group], mapping: RowMapping) -> Iterator[Line[Row]]:
    for group in groups.values():
        yield Line(group.line, "", record=_of_hit_rows(group.rows, mapping))


def _of_hit_rows(rows: Sequence[Row], mapping: RowMapping) -> Row:
    """What is not of a hit comes from the first row that has it; a row without ids says that the query was asked."""
    result: Row = {}
    for row in rows:
        for name, value in _without_hits(row, mapping).items():
            result.setdefault(name, value)
    items = _in_order(rows, mapping)
    hits = [_hit(item, mapping) for item in items]
    result["hits_top_k"] = [hit for hit in hits if hit["chunk_id"] is not None or hit["doc_id"] is not None]
    return result


def _as_result(row: Row, mapping: RowMapping) -> Row:
    """One row of somebody's own as a result."""
    result = _without_hits(row, mapping)
    if mapping.of("hits"):
        items = _items(row, mapping)
        result["hits_top_k"] = (
            [_hit(item, mapping) for item in _in_order(items, mapping)] if isinstance(items, list) else items
        )
    return result


def _items(row: Row, mapping: RowMapping) -> Any:
    """The hits as they are listed; or side by side, where every field has a list of its own."""
    place = mapping.setting("hits", "list", None)
    separator = mapping.setting("hits", "separator", None)
    if place is not None:
        return _listed(find_value(row, place), separator)
    places = {
        place for source in mapping.of("hits").values() for place in (*source.hash_of, source.place) if place
    }
    columns = {place: _listed(find_value(row, place), separator) for place in sorted(places)}
    lists = {place: column for place, column in columns.items() if isinstance(column, list)}
    length = max((len(column) for column in lists.values()), default=0)
    items = [
        {place: column[number] if number < len(column) else None for place, column in lists.items()}
        for number in range(length)
    ]
    each = mapping.of("hits")["chunk_id"].place if "chunk_id" in mapping.of("hits") else None
    # Of columns of ranks those without an id are ranks at which nothing was found.
    return [item for item in items if not each or not each.endswith(EACH) or not _is_absent(item.get(each))]


def _listed(value: Any, separator: str | None) -> Any:
    """A list; of an object its keys and values, of a text what stands between the separators."""
    value = _opened(value)
    if _is_absent(value):
        return []
    if isinstance(value, dict):
        return [{"key": key, "value": inner} for key, inner in value.items()]
    if isinstance(value, str):
        return [part.strip() for part in value.split(separator)] if separator else [value]
    return value


def _in_order(items: Sequence[Any], mapping: RowMapping) -> list[Any]:
    """By rank or score, where the mapping says so and every hit has one; what is level keeps its order."""
    order = mapping.setting("hits", "order", "list")
    if order == "list":
        return list(items)
    numbers = [_number(_value(item, mapping.of("hits")[order])) for item in items]
    if not all(isinstance(number, int | float) and number == number for number in numbers):
        return list(items)
    direction = -1 if order == "score" else 1
    return [items[place] for place in sorted(range(len(items)), key=lambda place: direction * numbers[place])]


def _hit(item: Any, mapping: RowMapping) -> Row:
    sources = mapping.of("hits")
    hit = _fields(item, sources, _HIT_KINDS)
    hit.setdefault("chunk_id", None)
    if "doc_id" not in sources:
        chunk_id = hit["chunk_id"]
        hit["doc_id"] = document_id(chunk_id) if isinstance(chunk_id, str) else chunk_id
    hit.setdefault("doc_id", None)
    rank = hit.get("rank")
    if isinstance(rank, int | float) and mapping.setting("hits", "first_rank", 1) == 0:
        hit["rank"] = rank + 1
    span = {name: hit.pop(name, None) for name in ("start", "end")}
    if span["start"] is not None or span["end"] is not None:
        hit["source_spans"] = [span]
    return hit


def _without_hits(row: Row, mapping: RowMapping) -> Row:
    result = _fields(row, mapping.of("result"), _RESULT_KINDS)
    result.setdefault("query_id", None)
    folders = result.get("selected_folders")
    if folders is not None:
        result["selected_folders"] = _listed(folders, ",")
    for name, found in (
        ("answer", _answer(row, mapping)),
        ("latency_ms", _latency(row, mapping)),
        ("judge", _judge(row, mapping)),
    ):
        if found:
            result[name] = found
    return result


def _answer(row: Row, mapping: RowMapping) -> Row:
    """The answer, where the row says anything about one that is not said of every row."""
    sources = mapping.of("answer")
    answer = _fields(row, sources, _ANSWER_KINDS)
    if "citations" in answer:
        cited = _listed(answer["citations"], mapping.setting("answer", "separator", None))
        place = mapping.setting("answer", "citation", WHOLE)
        answer["citations"] = (
            [{"citation": _id(find_value(one, place))} for one in cited] if isinstance(cited, list) else cited
        )
    references = _references(row, mapping)
    if references:
        answer["references"] = references
    said = [name for name in answer if name not in sources or sources[name].constant is None]
    return answer if said or all(source.constant is not None for source in sources.values()) else {}


def _references(row: Row, mapping: RowMapping) -> Any:
    place = mapping.setting("references", "list", None)
    items = _listed(find_value(row, place), None) if place is not None else []
    if not isinstance(items, list):
        return items
    return [_fields(item, mapping.of("references"), {"chunk_id": _id}) for item in items]


def _latency(row: Row, mapping: RowMapping) -> Row:
    factor = UNITS[mapping.setting("latency_ms", "unit", "ms")]
    found = _fields(row, mapping.of("latency_ms"), dict.fromkeys(mapping.of("latency_ms"), _number))
    return {name: _times(value, factor) for name, value in found.items()}


def _judge(row: Row, mapping: RowMapping) -> Row:
    factor = BEST_SCORE / mapping.setting("judge", "best_score", BEST_SCORE)
    found = _fields(row, mapping.of("judge"), _JUDGE_KINDS)
    judge: Row = {}
    if "groundedness" in found:
        judge["groundedness"] = {"score": _times(found["groundedness"], factor)}
    correctness = {
        "score": _times(found.get("correctness"), factor),
        "reasoning": found.get("reasoning"),
    }
    if any(value is not None for value in correctness.values()):
        judge["correctness"] = correctness
    for name, key in (("abstained", "abstention"), ("acknowledged", "conflict")):
        if name in found:
            judge[key] = {name: found[name]}
    return judge


def _times(value: Any, factor: float) -> Any:
    if factor == 1 or isinstance(value, bool) or not isinstance(value, int | float):
        return value
    try:
        return value * factor
    except OverflowError:
        return value


def _fields(row: Any, sources: Mapping[str, Source], kinds: Mapping[str, Callable[[Any], Any]]) -> Row:
    """The fields that are there, each made into its kind where that is possible."""
    found: Row = {}
    for name, source in sources.items():
        value = kinds.get(name, _as_it_is)(_value(row, source))
        if value is not None:
            found[name] = value
    return found


def _value(row: Any, source: Source) -> Any:
    if source.constant is not None:
        return source.constant
    if source.hash_of:
        values = [find_value(row, place) for place in source.hash_of]
        if all(_is_absent(value) for value in values):
            return None
        return hash_of(*values)
    value = find_value(row, source.place)
    if source.before and isinstance(value, str) and source.before in value:
        return value.rpartition(source.before)[0]
    return value


def _is_absent(value: Any) -> bool:
    return value is None or value == ""


def _as_it_is(value: Any) -> Any:
    return None if _is_absent(value) else value


def _id(value: Any) -> Any:
    """Whole numbers are ids too, as they are written; so are those that a table made into 17.0."""
    if isinstance(value, bool) or _is_absent(value):
        return value if isinstance(value, bool) else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int) else value


def _number(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    for kind in (int, float):
        with suppress(ValueError):
            return kind(value)
    return value


def _truth(value: Any) -> Any:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False, "": None}
    if isinstance(value, str):
        return words.get(value.strip().lower(), value)
    return bool(value) if value in (0, 1) and not isinstance(value, bool) else value


_RESULT_KINDS = {"query_id": _id, "timed_out": _truth}
_HIT_KINDS = {
    "chunk_id": _id,
    "doc_id": _id,
    **dict.fromkeys(("rank", "score", "token_count", "start", "end"), _number),
}
_ANSWER_KINDS = {"text": lambda text: text, "grounded": _truth, "abstained": _truth}
_JUDGE_KINDS = {
    **dict.fromkeys(("groundedness", "correctness"), _number),
    **dict.fromkeys(("abstained", "acknowledged"), _truth),
}
