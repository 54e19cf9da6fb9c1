"""ranx and BEIR runs: scores by query and item, as JSON (also with .lz4) or Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eval_pipeline.adapters._cbor import cbor_value
from eval_pipeline.adapters._head import Head, look_at, open_content
from eval_pipeline.adapters._lines import document_items, grouped, rows_of
from eval_pipeline.adapters._values import as_id, as_number, hit_of
from eval_pipeline.adapters.from_qrels import PARQUET_COLUMNS
from eval_pipeline.adapters.tool import CERTAIN, Page, Piece, ReadOptions, ResultRow, Seen, Tool
from eval_pipeline.bundle.files import LINE_BYTES, BinaryStream
from eval_pipeline.errors import InputRejected

Scores = list[tuple[str, Any]]


def recognise(head: Head) -> Seen | None:
    """An object of objects of numbers, of which not all are whole; or the three columns of ranx."""
    if head.kind == "parquet" and head.columns >= PARQUET_COLUMNS:
        is_run = any(isinstance(row["score"], float) for row in head.rows)
        return Seen(CERTAIN, "a ranx run") if is_run else None
    document = _packed(head) if head.kind == "binary" else head.document
    if (
        not isinstance(document, dict)
        or not document
        or not all(isinstance(one, dict) for one in document.values())
    ):
        return None
    scores = [score for one in document.values() for score in one.values()]
    is_run = bool(scores) and all(as_number(one) is not None and not isinstance(one, str) for one in scores)
    return (
        Seen(CERTAIN, "a ranx or BEIR run")
        if is_run and any(isinstance(one, float) for one in scores)
        else None
    )


def _packed(head: Head) -> Any:
    """ranx' own packing holds CBOR and no JSON."""
    try:
        return cbor_value(head.data) if head.whole else None
    except ValueError:
        return None


def read(path: Path, options: ReadOptions) -> Iterator[Piece]:
    """A result per query, by score; what is level stands as it stands in the file."""
    for number, query, scores in _queries(path, options):
        hits = [hit_of(item, score=score) for item, score in _in_order(scores, options)]
        yield ResultRow({"query_id": query, "hits_top_k": hits}, number)


def _queries(path: Path, options: ReadOptions) -> Iterator[tuple[int | None, str | None, Scores]]:
    head = look_at(path)
    if head.kind == "binary":
        with open_content(path) as stream:
            found = cbor_value(_everything(stream))
        for number, (query, items) in enumerate(found.items(), start=1):
            yield number, query, list(items.items()) if isinstance(items, dict) else []
        return
    if head.kind != "parquet":
        for number, (_, query, items) in enumerate(document_items(path, ()), start=1):
            yield number, str(query), list(items.items()) if isinstance(items, dict) else []
        return
    rows = ((number, row) for number, row in rows_of(path) if isinstance(row, dict))
    for query, group in grouped(rows, lambda row: str(row["q_id"]), scattered=options.scattered):
        yield group[0][0], query, [(str(as_id(row["doc_id"])), row["score"]) for _, row in group]


def _everything(stream: BinaryStream) -> bytes:
    found = b""
    while chunk := stream.read(LINE_BYTES):
        found += chunk
        if len(found) > LINE_BYTES:
            raise InputRejected(f"unpacks to more than {LINE_BYTES >> 20} MiB: save it as JSON or Parquet")
    return found


def _in_order(scores: Scores, options: ReadOptions) -> Scores:
    if any(as_number(score) is None for _, score in scores):
        return scores
    if options.order == "trec_eval":
        scores = sorted(scores, key=lambda one: one[0], reverse=True)
    return sorted(scores, key=lambda one: -float(one[1]))


PAGE = Page(
    title="a ranx run",
    file='`Run.save("run.json")`, `.lz4` and Parquet of ranx, and the JSON of scores that BEIR\'s retrieval returns.',
    gives=(
        "hits with scores, by score; the document of a hit is the part of its id before the last `#`, else its id",
    ),
    cannot=("texts, answers, times", "a rank: level scores stand as they stand in the file"),
    ids="the keys, or the column `q_id`",
    notes=("Whole numbers by item are taken for qrels; `--from ranx` says that they are a run.",),
    options=("--order", "--missing"),
    example="run.json",
)
TOOL = Tool("ranx", PAGE, recognise, read)
