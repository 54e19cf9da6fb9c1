"""A golden set: YAML or JSON Lines → checked rows in the order they were written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from eval_pipeline.bundle._yaml_items import yaml_items
from eval_pipeline.bundle.files import HELD_BYTES, line_blocks
from eval_pipeline.bundle.lines import BadRow, Line, _to_record, read_lines
from eval_pipeline.bundle.problems import Problem, _id_fault, _refuse_too_many, _text_fault, shorten
from eval_pipeline.bundle.results import DROP, ERROR, InvertedSpans, _drop_from_golden_row, _span_fault
from eval_pipeline.errors import InputRejected
from eval_pipeline.records import GoldenRow, Span

RECENCY = ("newer", "older")
# 2 to the power of a grade is a gain, and has to be a number.
HIGHEST_GRADE = 1000
CONFLICT_RULES = ("cite_newer", "acknowledge_both", "cite_both")
ReadRow = Callable[[dict[str, Any]], GoldenRow]


@dataclass(frozen=True)
class GoldenSet:
    """The rows of a golden set and what was wrong with the others."""

    rows: list[GoldenRow]
    problems: list[Problem]


def read_golden_set(path: Path, *, inverted_spans: InvertedSpans = ERROR) -> GoldenSet:
    """Read a whole golden set; a query named twice makes the set as a whole unusable."""
    rows: list[GoldenRow] = []
    problems: list[Problem] = []
    first_seen: dict[str, int] = {}
    for line in _golden_lines(path, inverted_spans=inverted_spans):
        if line.record is None:
            problems.append(
                Problem(
                    str(path),
                    line.reason or "",
                    line=line.number,
                    query_id=line.query_id,
                    field=line.field,
                    text=line.text,
                )
            )
            _refuse_too_many(len(problems))
            continue
        query_id = line.record.query_id
        if query_id in first_seen:
            raise InputRejected(
                f"query_id {query_id!r} stands on line {first_seen[query_id]} and again on line {line.number}: "
                "every query once",
                line=line.number,
                field="query_id",
                text=line.text,
            )
        first_seen[query_id] = line.number
        rows.append(line.record)
    chunkers = sorted({row.chunker_version for row in rows if row.chunker_version})
    if len(chunkers) > 1:
        raise InputRejected(
            f"chunker_version is {chunkers[0]!r} in some rows and {chunkers[1]!r} in others; the chunk ids of a "
            "golden set belong to one chunker version",
            field="chunker_version",
        )
    return GoldenSet(rows, problems)


def _golden_lines(path: Path, *, inverted_spans: InvertedSpans = ERROR) -> Iterator[Line[GoldenRow]]:
    """Every row of a golden set, checked by itself."""
    read = partial(read_golden_row, inverted_spans=inverted_spans)
    return _yaml_rows(path, read) if path.suffix in (".yaml", ".yml") else _json_rows(path, read)


def _json_rows(path: Path, read: ReadRow) -> Iterator[Line[GoldenRow]]:
    blocks = list(line_blocks(path, most_bytes=HELD_BYTES))
    for block in blocks:
        yield from read_lines(block, read, last_block=block is blocks[-1])


def _yaml_rows(path: Path, read: ReadRow) -> Iterator[Line[GoldenRow]]:
    for item in yaml_items(path):
        if item.reason:
            yield Line(item.line, shorten(item.text), reason=item.reason)
            continue
        text = shorten(item.text)
        if not isinstance(item.value, dict):
            yield Line(item.line, text, reason="a golden row is a mapping of keys to values")
            continue
        named = item.value.get("query_id", item.value.get("id"))
        query_id = named if isinstance(named, str) and not _text_fault(named) else None
        try:
            yield Line(item.line, text, record=read(item.value), query_id=query_id)
        except BadRow as bad:
            quotes = "; in YAML, quote it" if bad.reason.startswith("expected text, got") else ""
            yield Line(item.line, text, field=bad.field, reason=bad.reason + quotes, query_id=query_id)


def read_golden_row(row: dict[str, Any], *, inverted_spans: InvertedSpans = ERROR) -> GoldenRow:
    """Check one golden row, whichever of the accepted names it uses."""
    row = dict(row)
    for by_id in ("expected_chunk_spans", "grades"):
        if isinstance(row.get(by_id), dict):
            row[by_id] = {key: value for key, value in row[by_id].items() if value is not None}
    for name, also in (("query_id", "id"), ("query", "question")):
        if row.get(also) is not None:
            if row.get(name) is not None and row[name] != row[also]:
                raise BadRow(
                    also, f"contradicts {name}: {row[name]!r} against {row[also]!r}; give one of them"
                )
            row[name] = row[also]
    record = _to_record(row, GoldenRow)
    if inverted_spans == DROP:
        _drop_from_golden_row(record)
    _check_ids(record)
    _check_grades(record)
    _check_supports(record)
    _check_spans(record)
    return record


def _check_ids(row: GoldenRow) -> None:
    named = [("query_id", row.query_id)]
    for field in ("expected_chunk_ids", "expected_doc_ids"):
        named += [(f"{field}[{number}]", value) for number, value in enumerate(getattr(row, field) or [])]
    named += [("expected_chunk_spans", chunk_id) for chunk_id in row.expected_chunk_spans or {}]
    named += [("grades", name) for name in row.grades or {}]
    for place, value in named:
        fault = _id_fault(value)
        if fault:
            raise BadRow(place, fault)


def _check_grades(row: GoldenRow) -> None:
    for name, grade in (row.grades or {}).items():
        if abs(grade) > HIGHEST_GRADE:
            raise BadRow(
                f"grades.{name}",
                f"{grade} is out of range: a grade is a whole number from -{HIGHEST_GRADE} to {HIGHEST_GRADE}",
            )


def _check_supports(row: GoldenRow) -> None:
    supports = row.gold_supports or []
    for number, support in enumerate(supports):
        if support.recency is not None and support.recency not in RECENCY:
            raise BadRow(f"gold_supports[{number}].recency", _not_one_of(support.recency, RECENCY))
    for number, group in enumerate(row.required_support_groups or []):
        place = f"required_support_groups[{number}]"
        if not group:
            raise BadRow(place, "a group names at least one support; remove the empty one")
        outside = [index for index in group if not 0 <= index < len(supports)]
        if outside:
            raise BadRow(
                place, f"index {outside[0]} is outside gold_supports, which has {len(supports)} (from 0)"
            )
    rule = row.recency_conflict_rule
    if rule is not None and rule not in CONFLICT_RULES:
        raise BadRow("recency_conflict_rule", _not_one_of(rule, CONFLICT_RULES))


def _not_one_of(value: str, allowed: tuple[str, ...]) -> str:
    return f"{value!r} is none of {', '.join(allowed)}"


def _check_spans(row: GoldenRow) -> None:
    named: list[tuple[str, Span]] = [
        (f"ground_truth_spans[{number}]", span) for number, span in enumerate(row.ground_truth_spans or [])
    ]
    for chunk_id, spans in (row.expected_chunk_spans or {}).items():
        named += [(f"expected_chunk_spans.{chunk_id}[{number}]", span) for number, span in enumerate(spans)]
    for place, span in named:
        fault = _span_fault(span.start, span.end) or _id_fault(span.doc_id)
        if fault:
            raise BadRow(place, fault)
