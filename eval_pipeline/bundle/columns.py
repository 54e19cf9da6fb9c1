"""Records as Arrow columns, and a block of results as flat tables."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eval_pipeline.bundle.problems import Problem
from eval_pipeline.records import ID_LENGTH, Hit, Record

_PLAIN = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
ODD_SCORES = "judge_scores_delivered"
SCORE_COLUMNS = pa.schema(
    [
        ("result", pa.int64()),
        ("name", pa.string()),
        ("value", pa.float64()),
        ("label", pa.string()),
        ("text", pa.string()),
        *((name, pa.string()) for name in ("source", "model", "version")),
    ]
)
NO_SCORES = SCORE_COLUMNS.empty_table()


@cache
def _arrow_schema(kind: type[Record]) -> pa.Schema:
    """One column per field; what is taken as delivered is a number under `score` and text elsewhere."""
    return pa.schema(list(_fields(kind)))


def _fields(kind: type[Record]) -> typing.Iterator[pa.Field]:
    hints = typing.get_type_hints(kind)
    for one in msgspec.structs.fields(kind):
        yield pa.field(one.name, _arrow_type(hints[one.name], one.name))


def _arrow_type(hint: Any, name: str) -> pa.DataType:
    if hint is Any:
        return pa.float64() if name == "score" else pa.string()
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        chosen = next(option for option in typing.get_args(hint) if option is not type(None))
        return _arrow_type(chosen, name)
    if typing.get_origin(hint) is dict:
        # Of names that are data there is no column: the fast reader leaves what holds some to the careful one.
        return pa.string()
    if typing.get_origin(hint) is list:
        return pa.list_(_arrow_type(typing.get_args(hint)[0], name))
    if isinstance(hint, type) and issubclass(hint, Record):
        return pa.struct(list(_fields(hint)))
    return _PLAIN[hint]


def _table_of(records: Sequence[Record], kind: type[Record]) -> pa.Table:
    """Checked records as the same columns that the fast reader makes."""
    rows = [msgspec.to_builtins(record) for record in records]
    return pa.Table.from_pylist(rows, schema=_arrow_schema(kind))


def _ids_are_clean(column: pa.ChunkedArray | pa.Array) -> bool:
    """Whether every id is there, not empty and not too long."""
    if column.null_count:
        return False
    if not len(column):
        return True
    lengths = pc.min_max(pc.utf8_length(column))
    return bool(lengths["min"].as_py() > 0 and lengths["max"].as_py() <= ID_LENGTH)


def _numbers_are_finite(array: pa.Array) -> bool:
    """Whether no floating-point number anywhere inside is NaN or infinite; a sum that overflows counts as doubt."""
    kind = array.type
    if pa.types.is_floating(kind):
        return math.isfinite(pc.sum(array).as_py() or 0.0)
    if pa.types.is_struct(kind):
        return all(_numbers_are_finite(array.field(number)) for number in range(kind.num_fields))
    if pa.types.is_list(kind):
        return _numbers_are_finite(array.flatten())
    return True


def only_chunk(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column in one piece, without copying one that is."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _positions_in_lists(array: pa.ListArray) -> tuple[pa.Array, pa.Array]:
    """For every element of every list: the row it belongs to (from 0) and its place there (from 1)."""
    starts = array.offsets.to_numpy()
    lengths = np.diff(starts)
    parents = np.repeat(np.arange(len(array), dtype=np.int64), lengths)
    before = np.repeat(starts[:-1] - starts[:1], lengths)
    places = np.arange(1, len(parents) + 1, dtype=np.int64) - before
    return pa.array(parents), pa.array(places)


@dataclass(frozen=True)
class ResultsBlock:
    """Flat rows of one block; `result` is the place of a row's result in `results`, from 0."""

    results: pa.Table
    hits: pa.Table
    hit_spans: pa.Table
    citations: pa.Table
    references: pa.Table
    scores: pa.Table
    problems: list[Problem] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        """What its tables hold in memory."""
        return sum(
            int(table.nbytes)
            for table in (
                self.results,
                self.hits,
                self.hit_spans,
                self.citations,
                self.references,
                self.scores,
            )
        )


def _hit_field(hits: pa.StructArray, name: str) -> pa.Array:
    """A field of all hits; nulls when the block does not name it."""
    place = hits.type.get_field_index(name)
    return hits.field(place) if place >= 0 else pa.nulls(len(hits), _arrow_schema(Hit).field(name).type)


def _flatten(
    table: pa.Table, *, odd_scores: pa.Array | None = None, scores: pa.Table = NO_SCORES
) -> ResultsBlock:
    """Nested columns → flat tables that point back to their result."""
    row_no = only_chunk(table["row_no"])
    hits_column = only_chunk(table["hits_top_k"])
    answer = only_chunk(table["answer"])
    hits, hit_spans = _hits(hits_column)
    return ResultsBlock(
        results=_results(table, row_no, hits_column, odd_scores),
        hits=hits,
        hit_spans=hit_spans,
        citations=_elements(_inside(answer, "citations"), {"chunk_id": "citation", "path": "path"}),
        references=_elements(
            _inside(answer, "references"),
            {name: name for name in ("rel_path", "heading_path", "chunk_id", "text")},
        ),
        scores=scores,
    )


def _results(table: pa.Table, row_no: pa.Array, hits: pa.Array, odd_scores: pa.Array | None) -> pa.Table:
    answer, judge = only_chunk(table["answer"]), only_chunk(table["judge"])
    latency = only_chunk(table["latency_ms"])
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
        "answer_text_is_blank": _is_blank(answer),
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


def _is_blank(answer: pa.StructArray) -> pa.Array:
    """Whether the text is white space only; null where there is none, unless one is said to be kept back."""
    text = _inside(answer, "text")
    is_blank = pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(text)), 0)
    is_withheld = pc.fill_null(_inside(answer, "text_withheld"), False)
    return pc.if_else(pc.and_(pc.is_null(text), is_withheld), False, is_blank)


def _inside(struct: pa.StructArray, name: str) -> pa.Array:
    """A field of a struct column, null where the struct itself is absent."""
    return pc.struct_field(struct, name)


def _hits(hits: pa.ListArray) -> tuple[pa.Table, pa.Table]:
    parents, rank = _positions_in_lists(hits)
    items = hits.flatten()
    table = pa.table(
        {
            "result": parents,
            "rank": pc.cast(rank, pa.int32()),
            "chunk_id": _hit_field(items, "chunk_id"),
            "doc_id": _hit_field(items, "doc_id"),
            "delivered_rank": _hit_field(items, "rank"),
            "score": _hit_field(items, "score"),
            "rel_path": _hit_field(items, "rel_path"),
            "heading_path": _hit_field(items, "heading_path"),
            "token_count": _hit_field(items, "token_count"),
            "text": _hit_field(items, "text"),
        }
    )
    spans_column = _hit_field(items, "source_spans")
    owners, span_no = _positions_in_lists(spans_column)
    spans = spans_column.flatten()
    own_document = pc.coalesce(spans.field("doc_id"), _hit_field(items, "doc_id").take(owners))
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
    parents, place = _positions_in_lists(column)
    items = column.flatten()
    columns = {"result": parents, "item_no": pc.cast(place, pa.int32())}
    return pa.table({**columns, **{name: items.field(source) for name, source in fields.items()}})
