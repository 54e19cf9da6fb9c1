"""results.jsonl and results.parquet as flat tables, read in bulk or line by line; odd spans."""

# Two readers, one outcome. The fast one parses a whole block into columns and accepts it only when nothing in it could
# need a second look; any doubt sends the block to the careful one, which reads line by line and gives reasons.

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from eval_pipeline.bundle.columns import (
    ResultsBlock,
    _arrow_schema,
    _flatten,
    _hit_field,
    _ids_are_clean,
    _numbers_are_finite,
    _table_of,
    only_chunk,
)
from eval_pipeline.bundle.files import (
    BLOCK_BYTES,
    PARQUET,
    UNPACKED_BYTES,
    LineBlock,
    line_blocks,
    read_ahead,
)
from eval_pipeline.bundle.lines import BadRow, Line, _to_record, problem_of, read_lines
from eval_pipeline.bundle.parquet import RowBatch, _columns_as, _json_lines, row_batches
from eval_pipeline.bundle.problems import Problem, _id_fault, _refuse_too_many
from eval_pipeline.bundle.scores import _full_scores, score_rows, score_table
from eval_pipeline.records import GoldenRow, Hit, HitSpan, Result, Span

InvertedSpans: TypeAlias = Literal["error", "drop"]
ERROR: Final[InvertedSpans] = "error"
DROP: Final[InvertedSpans] = "drop"
S = TypeVar("S", Span, HitSpan)
B = TypeVar("B")
LARGEST_OFFSET = 1 << 62
AHEAD_BYTES = 3 * BLOCK_BYTES


def _drop_from_result(record: Result) -> None:
    """Leave such spans of the hits out."""
    for hit in record.hits_top_k or []:
        hit.source_spans = _straight(hit.source_spans)


def _drop_from_golden_row(row: GoldenRow) -> None:
    """The same for what a golden row labels."""
    row.ground_truth_spans = _straight(row.ground_truth_spans)
    if row.expected_chunk_spans:
        row.expected_chunk_spans = {
            chunk_id: _straight(spans) or [] for chunk_id, spans in row.expected_chunk_spans.items()
        }


def _straight(spans: Sequence[S] | None) -> list[S] | None:
    """The spans that run forwards, from 0 at the earliest."""
    return None if spans is None else [span for span in spans if 0 <= span.start <= span.end]


def read_results(
    path: Path,
    held: bytes | None = None,
    *,
    run_id: str,
    called: Path | None = None,
    inverted_spans: InvertedSpans = ERROR,
) -> Iterator[ResultsBlock]:
    """The file's rows, block by block; rows that cannot be taken come along as problems of the file as it is called.

    `held` are the bytes of the file, where somebody has them already.
    """
    named = str(called or path)
    is_parquet = path.name.endswith(PARQUET)
    blocks: Iterator[LineBlock | RowBatch] = (
        row_batches(path, held, most_bytes=UNPACKED_BYTES) if is_parquet else line_blocks(path, held)
    )
    pieces = _with_last(blocks)
    first = next(pieces, None)
    if first is None:
        return

    def read(piece: tuple[LineBlock | RowBatch, bool]) -> ResultsBlock:
        block, is_last = piece
        table = read_fast_rows(block) if isinstance(block, RowBatch) else read_fast(block)
        if table is not None:
            return _flatten(table)
        if isinstance(block, RowBatch):
            block = LineBlock(_json_lines(block), block.first_row)
        return _read_carefully(
            block, named=named, run_id=run_id, last_block=is_last, inverted_spans=inverted_spans
        )

    found = read(first)
    bad_rows = len(found.problems)
    yield found
    if not first[1]:
        for found in read_ahead(pieces, read, weigh=_weight, budget=AHEAD_BYTES):
            bad_rows += len(found.problems)
            _refuse_too_many(bad_rows)
            yield found


def _weight(piece: tuple[LineBlock | RowBatch, bool]) -> int:
    block = piece[0]
    return int(block.rows.nbytes) if isinstance(block, RowBatch) else len(block.data)


def _with_last(blocks: Iterator[B]) -> Iterator[tuple[B, bool]]:
    """Every block, and whether it is the last one."""
    block = next(blocks, None)
    while block is not None:
        following = next(blocks, None)
        yield block, following is None
        block = following


def read_fast(block: LineBlock) -> pa.Table | None:
    """The block as columns, or None when any line of it deserves a second look."""
    data, numbers = _without_blank_lines(block)
    lines = _object_lines(data)
    # Most files have no backslash at all, and one character is found ten times faster than six.
    if lines is None or (b"\\" in data and b"\\u0000" in data):
        return None
    table = _parse(data)
    if table is None or table.num_rows != lines or not _is_clean(table) or _has_bare_citations(table):
        return None
    first = block.first_line
    taken = np.arange(first, first + lines) if numbers is None else numbers
    return table.append_column("row_no", pa.array(taken, pa.int64()))


def _without_blank_lines(block: LineBlock) -> tuple[bytes, list[int] | None]:
    """The block without them, and the numbers of the others: a row made of several stands where the first did."""
    if b"\n\n" not in block.data and not block.data.startswith(b"\n"):
        return block.data, None
    lines = block.data.split(b"\n")
    numbers = [number for number, line in enumerate(lines, block.first_line) if line]
    return b"\n".join(line for line in lines if line), numbers


def read_fast_rows(batch: RowBatch) -> pa.Table | None:
    """The rows of a Parquet file as the same columns, or None when any of them deserves a second look."""
    table = _columns_as(batch.rows, _arrow_schema(Result))
    if table is None or not _is_clean(table):
        return None
    with suppress(KeyError, AttributeError):
        fields = batch.rows.schema.field("answer").type.field("citations").type.value_type
        if {field.name for field in fields} - {"citation", "path"} and _has_bare_citations(table):
            return None
    first = batch.first_row
    return table.append_column("row_no", pa.array(np.arange(first, first + table.num_rows), pa.int64()))


def _parse(data: bytes) -> pa.Table | None:
    """The lines as columns, as if they were all like the first; if they are not, once more with every field.

    Looking for a field that no hit has costs as much as reading one that they have.
    """
    if not _is_text(data):
        return None
    first_line = data[: data.find(b"\n") + 1]
    names = tuple(name for name in _arrow_schema(Hit).names if f'"{name}"'.encode() in first_line)
    table = _read_json(data, _schema_with_hits(names), others="error")
    return table if table is not None else _read_json(data, _arrow_schema(Result), others="ignore")


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


@cache
def _schema_with_hits(names: tuple[str, ...]) -> pa.Schema:
    """The result's columns with these fields of a hit only."""
    full = _arrow_schema(Result)
    hit = pa.struct([one for one in _arrow_schema(Hit) if one.name in names])
    return full.set(full.get_field_index("hits_top_k"), pa.field("hits_top_k", pa.list_(hit)))


def _read_json(data: bytes, schema: pa.Schema, *, others: str) -> pa.Table | None:
    try:
        return pyarrow.json.read_json(
            pa.BufferReader(data),
            # In one piece and on this thread: whoever has many blocks reads several of them at a time.
            read_options=pyarrow.json.ReadOptions(block_size=len(data) + 1, use_threads=False),
            parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _object_lines(data: bytes) -> int | None:
    """How many lines there are, or None unless each runs from a brace to a brace.

    So every line holds whole objects, and Arrow never meets a block that begins with null, which would end the process.
    """
    content = data.removesuffix(b"\n").removesuffix(b"\r")
    if not content.startswith(b"{") or not content.endswith(b"}"):
        return None
    characters = np.frombuffer(content, np.uint8)
    breaks = np.flatnonzero(characters == ord("\n"))
    before = characters[breaks - 1]
    before = np.where(before == ord("\r"), characters[breaks - 2], before)
    is_whole = (before == ord("}")) & (characters[breaks + 1] == ord("{"))
    return len(breaks) + 1 if is_whole.all() else None


def _is_clean(table: pa.Table) -> bool:
    if not _ids_are_clean(table["query_id"]) or not all(_numbers_are_finite(c) for c in _arrays(table)):
        return False
    hits = only_chunk(table["hits_top_k"]).flatten()
    if (
        hits.null_count
        or table["scores"].null_count < table.num_rows
        or not _ids_are_clean(_hit_field(hits, "chunk_id"))
        or not _ids_are_clean(_hit_field(hits, "doc_id"))
    ):
        return False
    return _spans_are_clean(_hit_field(hits, "source_spans").flatten()) and _elements_are_clean(table)


def _spans_are_clean(spans: pa.StructArray) -> bool:
    start, end = spans.field("start"), spans.field("end")
    if spans.null_count or start.null_count or end.null_count:
        return False
    if not len(spans):
        return True
    ordered = pc.all(pc.less_equal(start, end)).as_py()
    empty_document = pc.any(pc.equal(spans.field("doc_id"), "")).as_py()
    in_range = pc.min(start).as_py() >= 0 and pc.max(end).as_py() < LARGEST_OFFSET
    return bool(ordered and in_range and not empty_document)


def _elements_are_clean(table: pa.Table) -> bool:
    """No null stands where a list wants a text or an object."""
    answer, judge = only_chunk(table["answer"]), only_chunk(table["judge"])
    lists = [
        answer.field("citations"),
        answer.field("references"),
        only_chunk(table["selected_folders"]),
        judge.field("groundedness").field("supported_claims"),
        judge.field("groundedness").field("unsupported_claims"),
    ]
    return not any(array.flatten().null_count for array in lists)


def _has_bare_citations(table: pa.Table) -> bool:
    """Whether a citation has neither a chunk id nor a path; it may have fields that are not read."""
    citations = only_chunk(table["answer"]).field("citations").flatten()
    is_bare = pc.and_(citations.field("citation").is_null(), citations.field("path").is_null())
    return bool(pc.any(is_bare).as_py())


def _arrays(table: pa.Table) -> Iterator[pa.Array]:
    for name in table.column_names:
        yield only_chunk(table[name])


def _read_carefully(
    block: LineBlock, *, named: str, run_id: str, last_block: bool, inverted_spans: InvertedSpans = ERROR
) -> ResultsBlock:
    problems: list[Problem] = []
    good: list[Line[Result]] = []
    odd: list[str | None] = []
    found: dict[int, str] = {}

    def read(row: dict[str, Any]) -> Result:
        record, delivered = read_result(row, inverted_spans=inverted_spans)
        found[id(record)] = delivered
        return record

    for line in read_lines(block, read, last_block=last_block):
        if line.record is None:
            problems.append(problem_of(line, named, run_id=run_id))
        else:
            good.append(line)
            odd.append(found[id(line.record)] or None)
    records = [line.record for line in good if line.record is not None]
    scores = score_table(
        row for place, one in enumerate(records) for row in score_rows(one.scores, result=place)
    )
    for one in records:
        one.scores = None
    table = _table_of(records, Result)
    table = table.append_column("row_no", pa.array([line.number for line in good], pa.int64()))
    flat = _flatten(table, odd_scores=pa.array(odd, pa.string()), scores=scores)
    return replace(flat, problems=problems)


def read_result(row: dict[str, Any], *, inverted_spans: InvertedSpans = ERROR) -> tuple[Result, str]:
    """One result row and, as JSON, the judge's scores that are no numbers (empty when there are none)."""
    row = dict(row)
    if isinstance(row.get("hits_top_k"), list):
        row["hits_top_k"] = [_full_hit(hit) for hit in row["hits_top_k"]]
    answer = row.get("answer")
    for name, read in _PARTS_OF_ANSWERS.items():
        if isinstance(answer, dict) and isinstance(answer.get(name), list):
            row["answer"] = answer = {**answer, name: [read(one) for one in answer[name]]}
    odd = _take_odd_scores(row)
    record = _to_record(_full_scores(row), Result)
    if inverted_spans == DROP:
        _drop_from_result(record)
    _check_ids(record)
    _check_spans(record)
    return record, odd


def _full_hit(hit: Any) -> Any:
    if isinstance(hit, str):
        return {"chunk_id": hit, "doc_id": hit}
    return _with_joined_heading(hit)


def _with_joined_heading(passage: Any) -> Any:
    """A hit, reference or archive line whose heading path came as a list of segments."""
    if isinstance(passage, dict) and isinstance(passage.get("heading_path"), list):
        return {**passage, "heading_path": " > ".join(str(part) for part in passage["heading_path"])}
    return passage


def _full_citation(citation: Any) -> Any:
    """A citation that may be an object; one that names neither a chunk nor a path is marked by an empty path."""
    if isinstance(citation, dict) and isinstance(citation.get("citation"), dict):
        citation = citation["citation"]
    is_known = not isinstance(citation, dict) or not citation or {"citation", "path"} & citation.keys()
    return citation if is_known else {"path": ""}


_PARTS_OF_ANSWERS = {"references": _with_joined_heading, "citations": _full_citation}


def _take_odd_scores(row: dict[str, Any]) -> str:
    """Scores that are no finite numbers count as not given; what was delivered stays readable beside them."""
    judge = row.get("judge")
    if not isinstance(judge, dict):
        return ""
    judge = row["judge"] = dict(judge)
    if judge.get("input") is not None and not isinstance(judge["input"], str):
        judge["input"] = _as_json(judge["input"])
    odd: dict[str, Any] = {}
    for name in ("groundedness", "correctness"):
        verdict = judge.get(name)
        if not isinstance(verdict, dict) or verdict.get("score") is None:
            continue
        number = finite_number(verdict["score"])
        if number is None:
            odd[name] = verdict["score"]
        judge[name] = {**verdict, "score": number}
    return _as_json(odd) if odd else ""


def finite_number(score: Any) -> float | None:
    """A number as it is; true and false are none."""
    if isinstance(score, bool) or not isinstance(score, int | float):
        return None
    try:
        return float(score) if math.isfinite(score) else None
    except OverflowError:
        return None


def _as_json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, OverflowError, ValueError):
        return repr(value).encode("utf-8", errors="replace").decode()


def _check_ids(record: Result) -> None:
    named = [("query_id", record.query_id)]
    for number, hit in enumerate(record.hits_top_k or []):
        named.append((f"hits_top_k[{number}].chunk_id", hit.chunk_id))
        named.append((f"hits_top_k[{number}].doc_id", hit.doc_id))
    for place, value in named:
        fault = _id_fault(value)
        if fault:
            raise BadRow(place, fault)


def _check_spans(record: Result) -> None:
    for number, hit in enumerate(record.hits_top_k or []):
        for place, span in enumerate(hit.source_spans or []):
            fault = _span_fault(span.start, span.end)
            if fault is None and span.doc_id == "":
                fault = "an id must not be empty"
            if fault:
                raise BadRow(f"hits_top_k[{number}].source_spans[{place}]", fault)


def _span_fault(start: int, end: int) -> str | None:
    """Why these offsets are no span, or None."""
    if start < 0 or end < 0:
        return f"offsets must not be negative, got [{start}, {end})"
    if end < start:
        return f"a span must not end before it starts, got [{start}, {end})"
    if max(start, end) >= LARGEST_OFFSET:
        return f"offsets are too large, got [{start}, {end})"
    return None
