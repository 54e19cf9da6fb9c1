"""AutoRAG: questions with their gold, the corpus, and results of a node, all as Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eval_pipeline.adapters._head import Head, look_at
from eval_pipeline.adapters._lines import rows_of
from eval_pipeline.adapters._values import (
    as_id,
    as_text,
    hit_of,
    labels_of,
    listed,
    score_of,
    side_by_side,
)
from eval_pipeline.adapters.tool import (
    CERTAIN,
    ChunkRow,
    LabelRow,
    Page,
    Piece,
    ReadOptions,
    Remark,
    ResultRow,
    Row,
    Seen,
    Tool,
)
from eval_pipeline.words import count

CORPUS = {"doc_id", "contents"}
GOLD = {"qid", "retrieval_gt"}
OWN = frozenset(
    {
        *("qid", "query", "queries", "retrieval_gt", "generation_gt", "retrieved_contents", "retrieved_ids"),
        *("retrieve_scores", "generated_texts", "generated_tokens", "generated_log_probs", "prompts"),
    }
)


def recognise(head: Head) -> Seen | None:
    """Questions with retrieval_gt, passages with contents, or retrieved ids beside the questions; or their folder."""
    if head.kind == "folder":
        files = {Path(name).name for name in head.names}
        return Seen(CERTAIN, "an AutoRAG dataset") if "qa.parquet" in files else None
    if head.columns >= GOLD:
        has_results = "retrieved_ids" in head.columns or "generated_texts" in head.columns
        return Seen(CERTAIN, "results of an AutoRAG node" if has_results else "AutoRAG questions")
    return Seen(CERTAIN, "an AutoRAG corpus") if head.columns >= CORPUS else None


def read(path: Path, options: ReadOptions) -> Iterator[Piece]:
    """Golden rows, archive rows and results, as far as they are there."""
    if look_at(path).kind == "folder":
        for name in sorted(look_at(path).names):
            if Path(name).name in ("qa.parquet", "corpus.parquet"):
                yield from read(path / name, options)
        return
    either = grouped = 0
    for number, row in rows_of(path):
        if isinstance(row, ResultRow):
            yield row
        elif row.keys() >= CORPUS and not row.keys() >= GOLD:
            yield from _chunk(row, options)
        else:
            grouped += 1
            either += any(len(one) > 1 for one in _gold(row))
            yield from _pieces(row, number)
    if either:
        yield Remark(
            f"in {count(either, 'row')} of {grouped:,} one of several passages would do: each of them "
            f"is expected"
        )
    if not grouped and options.chunker is None:
        yield Remark("a corpus becomes the archive of a chunker version: name it with `load --chunker NAME`")


def _chunk(row: Row, options: ReadOptions) -> Iterator[Piece]:
    if options.chunker is not None and as_id(row.get("doc_id")):
        found: Row = {
            "chunk_id": as_id(row["doc_id"]),
            "doc_id": as_text(row.get("path")) or as_id(row["doc_id"]),
        }
        span = listed(row.get("start_end_idx"))
        if span and len(span) == 2 and all(isinstance(one, int) for one in span):
            # The second is the last character, not the one behind it.
            found["source_spans"] = [{"start": span[0], "end": span[1] + 1}]
        yield ChunkRow({**found, "text": as_text(row.get("contents"))})


def _gold(row: Row) -> list[list[Any]]:
    return [listed(one) or [] for one in listed(row.get("retrieval_gt")) or []]


def _pieces(row: Row, number: int) -> Iterator[Piece]:
    query_id, question = as_id(row.get("qid")), as_text(row.get("query"))
    labels: Row = labels_of(dict.fromkeys(one for group in _gold(row) for one in group))
    references = [one for one in listed(row.get("generation_gt")) or [] if as_text(one)]
    if references:
        labels["reference"] = references[0]
    yield LabelRow({"query_id": query_id, "query": question, **labels}, number)
    result: Row = {}
    hits = side_by_side(listed(row.get("retrieved_ids")), listed(row.get("retrieved_contents")))
    if hits is not None:
        scores = listed(row.get("retrieve_scores")) or []
        result["hits_top_k"] = [
            hit_of(
                hit["chunk_id"], text=hit.get("text"), score=scores[place] if place < len(scores) else None
            )
            for place, hit in enumerate(hits)
        ]
    if isinstance(row.get("generated_texts"), str):
        result["answer"] = {"text": row["generated_texts"]}
    metrics = {
        name: score_of(value)
        for name, value in row.items()
        if name not in OWN and isinstance(value, bool | int | float)
    }
    if result:
        yield ResultRow(
            {"query_id": query_id, **result, **({"scores": metrics} if metrics else {})},
            number,
            question=question,
        )


PAGE = Page(
    title="an AutoRAG dataset or result",
    file=(
        "`qa.parquet`, `corpus.parquet`, their folder, or the Parquet of a node whose columns "
        "include those of `qa.parquet`."
    ),
    gives=(
        "labels: every passage of `retrieval_gt`; the first of `generation_gt` as the model answer",
        "with `--chunker NAME` the corpus as the archive of that chunker version",
        "of a node: hits with texts and scores, generated texts, further columns of numbers as scores",
    ),
    cannot=("that one of several passages would do: each is expected, and it is said in how many questions",),
    ids="`qid`",
    options=("--chunker",),
    example="qa.parquet",
)
TOOL = Tool("autorag", PAGE, recognise, read)
