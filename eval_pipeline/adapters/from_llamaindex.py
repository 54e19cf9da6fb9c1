"""LlamaIndex: retrieval evaluations as JSON Lines, and batches of answer evaluators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from eval_pipeline.adapters._head import Head, look_at
from eval_pipeline.adapters._lines import document_items, rows_of
from eval_pipeline.adapters._values import as_id, as_text, labels_of, listed, opened, score_of, side_by_side
from eval_pipeline.adapters.tool import (
    CERTAIN,
    LabelRow,
    Page,
    Piece,
    ReadOptions,
    ResultRow,
    Row,
    Seen,
    Tool,
)

BATCH = {"query", "response", "passing", "score"}


def recognise(head: Head) -> Seen | None:
    """Retrieved and expected ids beside a query; or lists of evaluations by evaluator."""
    rows = head.document if isinstance(head.document, list) else head.rows
    names = {name for row in rows if isinstance(row, dict) for name in row}
    if {"query", "retrieved_ids"} <= names and names & {"metric_dict", "expected_ids"}:
        return Seen(CERTAIN, "a LlamaIndex retrieval evaluation")
    return Seen(CERTAIN, "a LlamaIndex batch of evaluations") if _is_batch(head.document) else None


def _is_batch(document: Any) -> bool:
    lists = list(document.values()) if isinstance(document, dict) else []
    first = [one[0] for one in lists if isinstance(one, list) and one]
    return (
        bool(first)
        and len(lists) == len(first)
        and all(isinstance(one, dict) and one.keys() >= BATCH for one in first)
    )


def read(path: Path, _options: ReadOptions) -> Iterator[Piece]:
    """A result per query."""
    if _is_batch(look_at(path).document):
        yield from _batch(path)
        return
    for number, row in rows_of(path):
        if isinstance(row, ResultRow):
            yield row
            continue
        query_id, question = as_id(row.get("query_id")), as_text(row.get("query"))
        expected = listed(row.get("expected_ids"))
        yield LabelRow(
            {
                "query_id": query_id,
                "query": question,
                **(labels_of(expected) if expected is not None else {}),
            },
            number,
        )
        hits = side_by_side(listed(row.get("retrieved_ids")), listed(row.get("retrieved_texts")))
        result: Row = {"query_id": query_id} | ({} if hits is None else {"hits_top_k": hits})
        metrics = opened(row.get("metric_dict"))
        scores = {name: _score(one) for name, one in metrics.items()} if isinstance(metrics, Mapping) else {}
        yield ResultRow(result | ({"scores": scores} if scores else {}), number, question=question)


def _score(value: Any) -> Any:
    return score_of(value.get("score")) if isinstance(value, Mapping) else score_of(value)


def _batch(path: Path) -> Iterator[Piece]:
    """One list per evaluator, all in the order of the questions; a question that stands twice is two rows."""
    found: dict[tuple[str, int], Row] = {}
    for _, evaluator, evaluations in document_items(path, ()):
        asked: Counter[str] = Counter()
        for place, one in enumerate(evaluations if isinstance(evaluations, list) else [], start=1):
            question = as_text(one.get("query")) if isinstance(one, dict) else None
            if question is None:
                yield ResultRow({}, place, reason=f"an evaluation of {evaluator} does not say its query")
                continue
            asked[question] += 1
            row = found.setdefault((question, asked[question]), {"scores": {}})
            if isinstance(one.get("response"), str):
                row["answer"] = {"text": one["response"]}
            hits = side_by_side(None, listed(one.get("contexts")))
            if hits:
                row["hits_top_k"] = hits
            value = one.get("score") if one.get("score") is not None else one.get("passing")
            row["scores"][str(evaluator)] = score_of(
                value, reason=one.get("feedback") or one.get("invalid_reason")
            )
    for number, ((question, _), row) in enumerate(found.items(), start=1):
        yield ResultRow(row, number, question=question)


PAGE = Page(
    title="a LlamaIndex evaluation",
    file="`RetrievalEvalResult.model_dump()` a line, or the dictionary of `BatchEvalRunner` as JSON.",
    gives=(
        "hits with their texts, from `retrieved_ids` beside `retrieved_texts`",
        "labels: `expected_ids`",
        "every metric, or every evaluator, as a score",
        "of a batch: answers and contexts",
    ),
    cannot=("times and errors", "queries that LlamaIndex left out because they have no label"),
    ids="none in the file: the golden row with the same question, else a hash of the question",
    notes=("An empty list of `expected_ids` says that nothing should be found.",),
    example="retrieval.jsonl",
)
TOOL = Tool("llamaindex", PAGE, recognise, read)
