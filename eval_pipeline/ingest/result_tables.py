"""A block of results as flat tables: results, hits, spans, citations and references that point back to their result."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from eval_pipeline.ingest.columns import arrow_schema, only_chunk, positions_in_lists
from eval_pipeline.ingest.problems import Problem
from eval_pipeline.records import Hit

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

    @property
    def nbytes(self) -> int:
        """What its tables hold in memory."""
        return sum(
            int(table.nbytes)
            for table in (self.results, self.hits, self.hit_spans, self.citations, self.references)
        )


def hit_field(hits: pa.StructArray, name: str) -> pa.Array:
    """A field of all hits; nulls when the block does not name it."""
    place = hits.type.get_field_index(name)
    return hits.field(place) if place >= 0 else pa.nulls(len(hits), arrow_schema(Hit).field(name).type)


def flatten(table: pa.Table, *, odd_scores: pa.Array | None = None) -> ResultsBlock:
    """Nested columns → flat tables that point back to their result."""
    row_no = only_chunk(table["row_no"])
    hits_column = only_chunk(table["hits_top_k"])
    answer = only_chunk(table["answer"])
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
    parents, rank = positions_in_lists(hits)
    items = hits.flatten()
    table = pa.table(
        {
            "result": parents,
            "rank": pc.cast(rank, pa.int32()),
            "chunk_id": hit_field(items, "chunk_id"),
            "doc_id": hit_field(items, "doc_id"),
            "delivered_rank": hit_field(items, "rank"),
            "score": hit_field(items, "score"),
            "rel_path": hit_field(items, "rel_path"),
            "heading_path": hit_field(items, "heading_path"),
            "token_count": hit_field(items, "token_count"),
            "text": hit_field(items, "text"),
        }
    )
    spans_column = hit_field(items, "source_spans")
    owners, span_no = positions_in_lists(spans_column)
    spans = spans_column.flatten()
    own_document = pc.coalesce(spans.field("doc_id"), hit_field(items, "doc_id").take(owners))
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
