"""OpenTelemetry: a trace per query as OTLP/JSON, its numbers as events of OTel GenAI."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from eval_pipeline.exporting._form import Export, Files, Form, Page, as_lines
from eval_pipeline.exporting._material import Answered, Asked, answered, asked
from eval_pipeline.exporting.documents import _per_query_numbers
from eval_pipeline.store.open import Connection, first_value
from eval_pipeline.store.runs import RunRow

SERVICE = "eval-pipeline"
EVENT = "gen_ai.evaluation.result"
ERROR_CODE = 2
Numbers = Mapping[str, float | None]


def files(export: Export) -> Files:
    """A file per run."""
    for _, runs in export.datasets().items():
        questions = asked(export.store.con, runs[0])
        for run in runs:
            yield f"{run.run_id}.jsonl", as_lines(_requests(export, run, questions))


def _requests(export: Export, run: RunRow, questions: Mapping[str, Asked]) -> Iterator[dict[str, Any]]:
    numbers = _per_query_numbers(export.store, run)
    start = _nanoseconds_of(export.store.con, run)
    resource = {"service.name": SERVICE, "eval.run_id": run.run_id, "eval.dataset": run.dataset}
    for one in answered(export.store.con, run):
        spans = _spans(one, questions.get(one.query_id), numbers.get(one.query_id, {}), run, start)
        scope = {"scope": {"name": SERVICE}, "spans": spans}
        yield {"resourceSpans": [{"resource": {"attributes": _attributes(resource)}, "scopeSpans": [scope]}]}


def _nanoseconds_of(con: Connection, run: RunRow) -> int:
    at: dt.datetime = first_value(
        con, "select ordered_at from ledger.runs_in_order where run_key = ?", [run.run_key]
    )
    return (at - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1) * 1000


def _spans(
    one: Answered, question: Asked | None, numbers: Numbers, run: RunRow, start: int
) -> list[dict[str, Any]]:
    """The root with question, answer and numbers; below it what was retrieved, and how long generating took."""
    trace = _id_of(run.run_id, one.query_id)
    root = _span(trace, "", "query", start, one.total_ms, _about(one, question, run))
    root["events"] = [
        {
            "timeUnixNano": root["endTimeUnixNano"],
            "name": EVENT,
            "attributes": _attributes(
                {"gen_ai.evaluation.name": name, "gen_ai.evaluation.score.value": float(value)}
            ),
        }
        for name, value in numbers.items()
        if value is not None
    ]
    root["status"] = {"code": ERROR_CODE, "message": one.error} if one.error else {}
    spans = [root]
    if one.hits or not one.error:
        spans.append(_span(trace, root["spanId"], "retrieve", start, one.retrieval_ms, _retrieved(one)))
    if one.generation_ms is not None:
        kind = {"openinference.span.kind": "LLM"}
        spans.append(_span(trace, root["spanId"], "generate", start, one.generation_ms, kind))
    return spans


def _span(
    trace: str, parent: str, name: str, start: int, took: float | None, about: Mapping[str, Any]
) -> dict[str, Any]:
    """A span; one of which nobody knows how long it took ends when it starts."""
    return {
        "traceId": trace,
        "spanId": _id_of(trace, name)[:16],
        "parentSpanId": parent,
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + round((took or 0) * 1e6)),
        "attributes": _attributes(about),
    }


def _about(one: Answered, question: Asked | None, run: RunRow) -> dict[str, Any]:
    labels = {**question.about, **question.labels()} if question else {}
    about = {"query_id": one.query_id, "run_id": run.run_id, **labels}
    found = {"openinference.span.kind": "CHAIN", "metadata": _json(about)}
    if question and question.text:
        found["input.value"] = question.text
    if one.has_answer:
        found |= {"output.value": _json(_answer(one)), "output.mime_type": "application/json"}
    return found


def _answer(one: Answered) -> dict[str, Any]:
    said = {
        "answer": one.answer,
        "grounded": one.grounded,
        "abstained": one.abstained,
        "citations": list(one.citations) or None,
    }
    return {name: value for name, value in said.items() if value is not None}


def _retrieved(one: Answered) -> dict[str, Any]:
    found: dict[str, Any] = {"openinference.span.kind": "RETRIEVER"}
    for place, hit in enumerate(one.hits):
        said = {
            "id": hit.chunk_id,
            "content": hit.text,
            "score": hit.score,
            "metadata": _json({"doc_id": hit.doc_id}),
        }
        found |= {
            f"retrieval.documents.{place}.document.{name}": value
            for name, value in said.items()
            if value is not None
        }
    return found


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"key": name, "value": {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}}
        for name, value in values.items()
    ]


def _id_of(*names: str) -> str:
    """The same for the same names: a second export gives the same traces."""
    return hashlib.sha256(_json(names).encode()).hexdigest()[:32]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


PAGE = Page(
    title="OpenTelemetry traces",
    files=(
        (
            "RUN_ID.jsonl",
            "OTLP/JSON, a request a line and a trace per query, as the collector's file receiver reads it",
        ),
    ),
    carries=(
        f"every number per query as an event `{EVENT}` of the root span: `gen_ai.evaluation.name` and "
        "`gen_ai.evaluation.score.value`",
        "question, answer with its citations, error and times on spans of OpenInference (CHAIN, RETRIEVER, LLM)",
        "hits with ids, documents, texts and scores; labels, category and difficulty in the root's `metadata`",
    ),
    cannot=(
        "why a number is undefined: it has no event",
        "times below a nanosecond; a span of which no time is known ends when it starts",
        "spans of chunks, what a judge said, and labels other than expected chunks and documents",
        "golden queries that the run did not answer",
    ),
    again="eval-pipeline load RUN_ID.jsonl --dataset NAME",
    notes=("Trace ids follow from run and query, so that a second export gives the same bytes.",),
)
FORM = Form("otlp", PAGE, files)
