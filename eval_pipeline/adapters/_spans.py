"""Spans of one trace as a result: what was asked, retrieved, answered and scored."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval_pipeline.adapters._answers import answer_in, documents, labels_in, question_in
from eval_pipeline.adapters._values import as_id, as_text, listed, opened, score_of
from eval_pipeline.adapters.tool import LabelRow, Piece, ResultRow, RunSaid

Row = dict[str, Any]
IDS = ("query_id", "query.id", "example_id", "id")
_ITEM = re.compile(
    r"(?P<list>retrieval\.documents|reranker\.output_documents)\.(?P<place>\d+)\.document\.(?P<name>.+)\Z"
)
_SCORE = re.compile(
    r"(?:trace\.|session\.)?(?:annotations|evaluations)\.(?P<place>\d+)\.(?:annotation|evaluation)\.(?P<name>.+)\Z"
)
_SOURCES = {"LLM": "judge", "HUMAN": "human", "CODE": "code"}
_KINDS = {
    "retrieval": "RETRIEVER",
    "chat": "LLM",
    "text_completion": "LLM",
    "generate_content": "LLM",
    "rerank": "RERANKER",
}


@dataclass(frozen=True)
class Span:
    """One span: times in nanoseconds, attributes with dotted names."""

    trace: str
    span: str
    parent: str
    name: str = ""
    kind: str = ""
    start: int = 0
    end: int = 0
    error: str | None = None
    attributes: Row = field(default_factory=dict)
    events: Sequence[Row] = ()


def flat(value: Any, place: str = "") -> Row:
    """Objects and lists of objects as dotted names; lists of plain values stay lists."""
    if isinstance(value, dict):
        found: Row = {}
        for name, inner in value.items():
            below = f"{place}.{name}" if place else str(name)
            if isinstance(inner, dict | list):
                found |= flat(inner, below)
            else:
                found[below] = inner
        return found
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        found = {}
        for number, inner in enumerate(value):
            found |= flat(inner, f"{place}.{number}")
        return found
    return {place: value}


def kind_of(attributes: Row, said: Any = None) -> str:
    """The kind of a span, by OpenInference or by the operation of OTel GenAI."""
    found = as_text(said) or as_text(attributes.get("openinference.span.kind"))
    return found.upper() if found else _KINDS.get(str(attributes.get("gen_ai.operation.name")), "")


def pieces_of(trace: str, numbered: Sequence[tuple[int, Span]]) -> Iterator[Piece]:
    """The result of a trace, and what it says of its query; nothing of one that judges others."""
    spans = sorted((span for _, span in numbered), key=lambda one: one.start)
    ids = {one.span for one in spans}
    root = next((one for one in spans if not one.parent or one.parent not in ids), spans[0])
    if root.kind == "EVALUATOR":
        return
    about = _about(root)
    query_id = next((found for name in IDS if (found := as_id(about.get(name)))), None) or trace
    question = question_in(root.attributes.get("input.value")) or _asked(spans)
    result = {"query_id": query_id, **_result(root, spans)}
    yield LabelRow({"query_id": query_id, "query": question, **labels_in(about)}, min(n for n, _ in numbered))
    yield ResultRow(result, min(number for number, _ in numbered), question=question)
    model = next(filter(None, map(_model, spans)), None)
    if model:
        yield RunSaid({"config": {"llm_model": model}})


def _about(root: Span) -> Row:
    """What the root says of its query: metadata as JSON, or attributes below it, and tags."""
    own = opened(root.attributes.get("metadata"))
    found: Row = {
        name.removeprefix("metadata."): value
        for name, value in root.attributes.items()
        if name.startswith("metadata.")
    }
    found |= own if isinstance(own, dict) else {}
    for name in IDS[:2]:
        if name in root.attributes:
            found.setdefault(name, root.attributes[name])
    tags = root.attributes.get("tag.tags")
    return found | ({"tags": tags} if isinstance(tags, list) else {})


def _asked(spans: Sequence[Span]) -> str | None:
    for span in spans:
        for name in ("gen_ai.retrieval.query.text", "input.value", "gen_ai.input.messages"):
            found = question_in(span.attributes.get(name))
            if found:
                return found
    return None


def _result(root: Span, spans: Sequence[Span]) -> Row:
    found: Row = {}
    hits = _hits(spans)
    if root.error is not None:
        found["error"] = root.error
    else:
        found |= answer_in(root.attributes.get("output.value")) or _generated(spans)
    if hits is not None and (hits or root.error is None):
        found["hits_top_k"] = hits
    latency = {
        "total": _took([root]),
        "retrieval": _took([one for one in spans if one.kind in ("RETRIEVER", "RERANKER")]),
        "generation": _took([one for one in spans if one.kind == "LLM"]),
    }
    found["latency_ms"] = {name: value for name, value in latency.items() if value is not None}
    scores = {name: score for span in spans for name, score in _scores(span)}
    return found | ({"scores": scores} if scores else {})


def _took(spans: Sequence[Span]) -> float | None:
    timed = [one.end - one.start for one in spans if 0 < one.start < one.end]
    return sum(timed) / 1e6 if timed else None


def _generated(spans: Sequence[Span]) -> Row:
    for span in reversed(spans):
        if span.kind == "LLM":
            for name in ("output.value", "llm.output_messages.0.message.content", "gen_ai.output.messages"):
                found = answer_in(span.attributes.get(name))
                if found:
                    return found
    return {}


def _model(span: Span) -> str | None:
    names = ("llm.model_name", "gen_ai.request.model", "gen_ai.response.model")
    return (
        next((found for name in names if (found := as_text(span.attributes.get(name)))), None)
        if span.kind == "LLM"
        else None
    )


def _hits(spans: Sequence[Span]) -> list[Row] | None:
    """What the last reranker put out; else what the retrievers found, each id once."""
    rerankers = [one for one in spans if one.kind == "RERANKER"]
    if rerankers:
        return documents(_documents(rerankers[-1], "reranker.output_documents"))
    retrievers = [one for one in spans if one.kind == "RETRIEVER"]
    if not retrievers:
        return None
    found: dict[Any, Row] = {}
    for span in retrievers:
        for hit in documents(_documents(span, "retrieval.documents")):
            found.setdefault(hit["chunk_id"], hit)
    return list(found.values())


def _documents(span: Span, name: str) -> list[Any]:
    items: dict[int, Row] = {}
    for key, value in span.attributes.items():
        found = _ITEM.match(key)
        if found and found["list"] == name:
            items.setdefault(int(found["place"]), {})[found["name"]] = value
    if items:
        return [_nested(items[place]) for place in sorted(items)]
    for other in (name, "gen_ai.retrieval.documents", "output.value"):
        whole = listed(opened(span.attributes.get(other)))
        if whole is not None:
            return whole
    return [
        _nested({key.rpartition(".")[2]: value})
        for key, value in sorted(span.attributes.items())
        if key.startswith("gen_ai.retrieval.documents.") and key.endswith(".id")
    ]


def _nested(item: Row) -> Row:
    """Metadata below dots as an object again."""
    inner = {
        key.removeprefix("metadata."): value for key, value in item.items() if key.startswith("metadata.")
    }
    return {**item, **({"metadata": inner} if inner else {})}


def _scores(span: Span) -> Iterator[tuple[str, Any]]:
    items: dict[str, Row] = {}
    for key, value in span.attributes.items():
        if "ation" in key and (found := _SCORE.match(key)):
            items.setdefault(key[: found.start("name")], {})[found["name"]] = value
    for item in items.values():
        if as_text(item.get("name")):
            value = item["score"] if item.get("score") is not None else item.get("label")
            source = _SOURCES.get(str(item.get("annotator_kind")))
            yield item["name"], score_of(value, reason=as_text(item.get("explanation")), source=source)
    for event in span.events:
        about = event.get("attributes") or {}
        name = as_text(about.get("gen_ai.evaluation.name"))
        if name:
            value = about.get("gen_ai.evaluation.score.value")
            value = about.get("gen_ai.evaluation.score.label") if value is None else value
            reason = as_text(about.get("gen_ai.evaluation.explanation")) or as_text(about.get("error.type"))
            yield name, score_of(value, reason=reason)
