"""LangSmith: experiment results, a run, its example and its evaluations a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from eval_pipeline.adapters._answers import answer_in, labels_in, question_in, retrieved_in
from eval_pipeline.adapters._head import Head
from eval_pipeline.adapters._lines import rows_of
from eval_pipeline.adapters._values import as_id, as_text, milliseconds_between, score_of, utc_text
from eval_pipeline.adapters.tool import (
    CERTAIN,
    LabelRow,
    Page,
    Piece,
    ReadOptions,
    ResultRow,
    Row,
    RunSaid,
    Seen,
    Tool,
)


def recognise(head: Head) -> Seen | None:
    """A run beside its example or its evaluations in every row."""
    rows = head.document if isinstance(head.document, list) else head.rows
    is_own = rows and all(isinstance(row, dict) and isinstance(row.get("run"), dict) for row in rows)
    if not is_own or not any("evaluation_results" in row or "example" in row for row in rows):
        return None
    return Seen(CERTAIN, "LangSmith experiment results") if "inputs" in rows[0]["run"] else None


def read(path: Path, _options: ReadOptions) -> Iterator[Piece]:
    """A result per row; repeats of an example are runs of their own."""
    seen: dict[str, int] = {}
    started: str | None = None
    for number, row in rows_of(path):
        if isinstance(row, ResultRow):
            yield row
            continue
        run, example = _object(row.get("run")), _object(row.get("example"))
        started = min(filter(None, (started, as_text(run.get("start_time")))), default=None)
        key = as_id(run.get("reference_example_id")) or as_id(example.get("id")) or as_id(run.get("id")) or ""
        seen[key] = seen.get(key, 0) + 1
        metadata = _object(example.get("metadata"))
        query_id = as_id(metadata.get("query_id")) or as_id(metadata.get("id")) or key or None
        question = question_in(run.get("inputs")) or question_in(example.get("inputs"))
        result = {"query_id": query_id, **_result(run), **_scores(row.get("evaluation_results"))}
        yield LabelRow({"query_id": query_id, "query": question, **_labels(example, metadata)}, number)
        yield ResultRow(result, number, epoch=seen[key], question=question)
    if started:
        yield RunSaid({"created_at": utc_text(started)})


def _object(value: Any) -> Row:
    return value if isinstance(value, dict) else {}


def _result(run: Row) -> Row:
    if as_text(run.get("error")):
        found: Row = {"error": run["error"].strip().splitlines()[0]}
    else:
        found = {**answer_in(run.get("outputs")), **retrieved_in(run.get("outputs"))}
    took = milliseconds_between(run.get("start_time"), run.get("end_time"))
    return found | ({"latency_ms": {"total": took}} if took is not None else {})


def _labels(example: Row, metadata: Row) -> Row:
    outputs = _object(example.get("outputs"))
    reference = answer_in(outputs).get("answer", {}).get("text")
    found = labels_in({**metadata, **outputs})
    return found | ({"reference": reference} if reference else {})


def _scores(results: Any) -> Row:
    if isinstance(results, Mapping):
        results = results.get("results")
    found = {
        str(one["key"]): score_of(
            one["score"] if one.get("score") is not None else one.get("value"), reason=one.get("comment")
        )
        for one in results or []
        if isinstance(one, dict) and one.get("key") is not None
    }
    return {"scores": found} if found else {}


PAGE = Page(
    title="LangSmith experiment results",
    file="A line per row of `evaluate(…)`: `{run, example, evaluation_results}` as JSON.",
    gives=(
        "answers and retrieved ids from the run's `outputs`, errors, times from start and end",
        (
            "labels from the example's `outputs`: `expected_chunk_ids` or `expected_ids`; its `answer` "
            "as the model answer"
        ),
        "every evaluation as a score: its `score`, else its `value`",
    ),
    cannot=("scores of a failed run that LangSmith has set to 0: they come along as it says them",),
    ids="`metadata.query_id` of the example, else the example's id",
    notes=("Repeats of an example are runs `x`, `x.e2`, …, each a replicate of the first.",),
    example="results.jsonl",
)
TOOL = Tool("langsmith", PAGE, recognise, read)
