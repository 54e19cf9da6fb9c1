"""results.jsonl → flat tables of results, hits, spans, citations and references.

Two readers, one outcome. The fast one parses a whole block into columns and accepts it only when nothing in it could
need a second look; any doubt sends the block to the careful one, which reads line by line and gives reasons.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from eval_pipeline.ingest.columns import (
    arrow_schema,
    ids_are_clean,
    numbers_are_finite,
    positions_in_lists,
    table_of,
)
from eval_pipeline.ingest.files import LineBlock, line_blocks
from eval_pipeline.ingest.lines import BadRow, Line, read_lines, to_record
from eval_pipeline.ingest.problems import Problem, id_fault
from eval_pipeline.records import Result

ODD_SCORES = "judge_scores_delivered"


@dataclass(frozen=True)
class ResultsBlock:
    """Flat rows of one block; `result` is the place of a row's result in `results`, from 0."""

    results: pa.Table
    hits: pa.Table
    hit_spans: pa.Table
    citations: pa.Table
    references: pa.Table
    problems: list[Problem] = field(default_factory=list)


def read_results(path: Path, *, run_id: str) -> Iterator[ResultsBlock]:
    """The file's rows, block by block; rows that cannot be taken come along as problems."""
    blocks = line_blocks(path)
    block = next(blocks, None)
    while block is not None:
        following = next(blocks, None)
        table = read_fast(block)
        if table is None:
            yield _read_carefully(block, path=path, run_id=run_id, last_block=following is None)
        else:
            yield flatten(table)
        block = following


def read_fast(block: LineBlock) -> pa.Table | None:
    """The block as columns, or None when any line of it deserves a second look."""
    if block.data.lstrip()[:1] != b"{" or b"\\u0000" in block.data:
        return None
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(block.data),
            read_options=pyarrow.json.ReadOptions(block_size=4 << 20),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=arrow_schema(Result), unexpected_field_behavior="ignore"
            ),
        ).combine_chunks()
        block.data.decode("utf-8")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
        return None
    lines = block.data.count(b"\n") + (not block.data.endswith(b"\n"))
    if table.num_rows != lines or not _is_clean(table):
        return None
    first = block.first_line
    return table.append_column("row_no", pa.array(np.arange(first, first + lines), pa.int64()))


def _is_clean(table: pa.Table) -> bool:
    if not ids_are_clean(table["query_id"]) or not all(numbers_are_finite(c) for c in _arrays(table)):
        return False
    hits = _only_chunk(table["hits_top_k"]).flatten()
    if (
        hits.null_count
        or not ids_are_clean(hits.field("chunk_id"))
        or not ids_are_clean(hits.field("doc_id"))
    ):
        return False
    spans = hits.field("source_spans").flatten()
    return _spans_are_clean(spans) and _elements_are_clean(table)


def _spans_are_clean(spans: pa.StructArray) -> bool:
    start, end = spans.field("start"), spans.field("end")
    if spans.null_count or start.null_count or end.null_count:
        return False
    if not len(spans):
        return True
    ordered = pc.all(pc.less_equal(start, end)).as_py()
    empty_document = pc.any(pc.equal(spans.field("doc_id"), "")).as_py()
    return bool(ordered and pc.min(start).as_py() >= 0 and not empty_document)


def _elements_are_clean(table: pa.Table) -> bool:
    """No null stands where a list wants a text or an object."""
    answer, judge = _only_chunk(table["answer"]), _only_chunk(table["judge"])
    lists = [
        answer.field("citations"),
        answer.field("references"),
        _only_chunk(table["selected_folders"]),
        judge.field("groundedness").field("supported_claims"),
        judge.field("groundedness").field("unsupported_claims"),
    ]
    return not any(array.flatten().null_count for array in lists)


def _arrays(table: pa.Table) -> Iterator[pa.Array]:
    for name in table.column_names:
        yield _only_chunk(table[name])


def _only_chunk(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _read_carefully(block: LineBlock, *, path: Path, run_id: str, last_block: bool) -> ResultsBlock:
    problems: list[Problem] = []
    good: list[Line[Result]] = []
    odd: list[str | None] = []
    found: dict[int, str] = {}

    def read(row: dict[str, Any]) -> Result:
        record, delivered = read_result(row)
        found[id(record)] = delivered
        return record

    for line in read_lines(block, read, last_block=last_block):
        if line.record is None:
            problems.append(
                Problem(
                    path=str(path),
                    line=line.number,
                    run_id=run_id,
                    query_id=line.query_id,
                    field=line.field,
                    reason=line.reason or "",
                    text=line.text,
                )
            )
        else:
            good.append(line)
            odd.append(found[id(line.record)] or None)
    table = table_of([line.record for line in good if line.record is not None], Result)
    table = table.append_column("row_no", pa.array([line.number for line in good], pa.int64()))
    flat = flatten(table, odd_scores=pa.array(odd, pa.string()))
    return ResultsBlock(flat.results, flat.hits, flat.hit_spans, flat.citations, flat.references, problems)


def read_result(row: dict[str, Any]) -> tuple[Result, str]:
    """One result row and, as JSON, the judge's scores that are no numbers (empty when there are none)."""
    row = dict(row)
    if isinstance(row.get("hits_top_k"), list):
        row["hits_top_k"] = [_full_hit(hit) for hit in row["hits_top_k"]]
    odd = _take_odd_scores(row)
    record = to_record(row, Result)
    _check_ids(record)
    _check_spans(record)
    return record, odd


def _full_hit(hit: Any) -> Any:
    if isinstance(hit, str):
        return {"chunk_id": hit, "doc_id": hit}
    if isinstance(hit, dict) and isinstance(hit.get("heading_path"), list):
        return {**hit, "heading_path": " > ".join(str(part) for part in hit["heading_path"])}
    return hit


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
        if isinstance(verdict, dict) and not _is_number(verdict.get("score")):
            odd[name] = verdict["score"]
            judge[name] = {**verdict, "score": None}
    return _as_json(odd) if odd else ""


def _is_number(score: Any) -> bool:
    if score is None:
        return True
    if isinstance(score, bool) or not isinstance(score, int | float):
        return False
    return bool(abs(score) <= 1e300)


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
        fault = id_fault(value)
        if fault:
            raise BadRow(place, fault)


def _check_spans(record: Result) -> None:
    for number, hit in enumerate(record.hits_top_k or []):
        for place, span in enumerate(hit.source_spans or []):
            fault = span_fault(span.start, span.end)
            if fault is None and span.doc_id == "":
                fault = "an id must not be empty"
            if fault:
                raise BadRow(f"hits_top_k[{number}].source_spans[{place}]", fault)


def span_fault(start: int, end: int) -> str | None:
    """Why these offsets are no span, or None."""
    if start < 0 or end < 0:
        return f"offsets must not be negative, got [{start}, {end})"
    if end < start:
        return f"a span must not end before it starts, got [{start}, {end})"
    if max(start, end) >= 1 << 62:
        return f"offsets are too large, got [{start}, {end})"
    return None


def flatten(table: pa.Table, *, odd_scores: pa.Array | None = None) -> ResultsBlock:
    """Nested columns → flat tables that point back to their result."""
    row_no = _only_chunk(table["row_no"])
    hits_column = _only_chunk(table["hits_top_k"])
    answer = _only_chunk(table["answer"])
    hits, hit_spans = _hits(hits_column)
    return ResultsBlock(
        results=_results(table, row_no, hits_column, odd_scores),
        hits=hits,
        hit_spans=hit_spans,
        citations=_elements(_inside(answer, "citations"), {"chunk_id": "citation"}),
        references=_elements(
            _inside(answer, "references"),
            {name: name for name in ("rel_path", "heading_path", "chunk_id", "text")},
        ),
    )


def _results(table: pa.Table, row_no: pa.Array, hits: pa.Array, odd_scores: pa.Array | None) -> pa.Table:
    answer, judge = _only_chunk(table["answer"]), _only_chunk(table["judge"])
    latency = _only_chunk(table["latency_ms"])
    groundedness, correctness = _inside(judge, "groundedness"), _inside(judge, "correctness")
    tokens = _inside(judge, "tokens")
    columns = {
        "row_no": row_no,
        "query_id": table["query_id"],
        "n_hits": pc.cast(pc.fill_null(pc.list_value_length(hits), 0), pa.int32()),
        "error": table["error"],
        "timed_out": table["timed_out"],
        "folder_mode": table["folder_mode"],
        "selected_folders": table["selected_folders"],
        "has_answer": pc.is_valid(answer),
        "answer_text": _inside(answer, "text"),
        "answer_text_is_blank": pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(_inside(answer, "text"))), 0),
        "grounded": _inside(answer, "grounded"),
        "abstained": _inside(answer, "abstained"),
        "judge_groundedness": _inside(groundedness, "score"),
        "supported_claims": _inside(groundedness, "supported_claims"),
        "unsupported_claims": _inside(groundedness, "unsupported_claims"),
        "judge_correctness": _inside(correctness, "score"),
        "judge_reasoning": _inside(correctness, "reasoning"),
        "judge_abstained": _inside(_inside(judge, "abstention"), "abstained"),
        "judge_acknowledged": _inside(_inside(judge, "conflict"), "acknowledged"),
        "judge_prompt_tokens": _inside(tokens, "prompt"),
        "judge_completion_tokens": _inside(tokens, "completion"),
        "judge_input": _inside(judge, "input"),
        ODD_SCORES: odd_scores if odd_scores is not None else pa.nulls(len(row_no), pa.string()),
        **{
            f"{stage}_ms": _inside(latency, stage)
            for stage in ("total", "folder_selection", "retrieval", "generation", "judge")
        },
    }
    return pa.table(columns)


def _inside(struct: pa.StructArray, name: str) -> pa.Array:
    """A field of a struct column, null where the struct itself is absent."""
    return pc.struct_field(struct, name)


def _hits(hits: pa.ListArray) -> tuple[pa.Table, pa.Table]:
    parents, rank = positions_in_lists(hits)
    items = hits.flatten()
    table = pa.table(
        {
            "result": parents,
            "rank": pc.cast(rank, pa.int32()),
            "chunk_id": items.field("chunk_id"),
            "doc_id": items.field("doc_id"),
            "delivered_rank": items.field("rank"),
            "score": items.field("score"),
            "rel_path": items.field("rel_path"),
            "heading_path": items.field("heading_path"),
            "token_count": items.field("token_count"),
            "text": items.field("text"),
        }
    )
    spans_column = items.field("source_spans")
    owners, span_no = positions_in_lists(spans_column)
    spans = spans_column.flatten()
    own_document = pc.coalesce(spans.field("doc_id"), items.field("doc_id").take(owners))
    return table, pa.table(
        {
            "result": table["result"].take(owners),
            "rank": table["rank"].take(owners),
            "span_no": pc.cast(span_no, pa.int32()),
            "doc_id": own_document,
            "start": spans.field("start"),
            "end": spans.field("end"),
        }
    )


def _elements(column: pa.ListArray, fields: dict[str, str]) -> pa.Table:
    parents, place = positions_in_lists(column)
    items = column.flatten()
    columns = {"result": parents, "item_no": pc.cast(place, pa.int32())}
    return pa.table({**columns, **{name: items.field(source) for name, source in fields.items()}})
