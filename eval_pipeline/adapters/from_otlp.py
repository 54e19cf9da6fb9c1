"""OpenTelemetry traces as OTLP/JSON, with the attributes of OpenInference or of OTel GenAI."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eval_pipeline.adapters._head import Head, look_at
from eval_pipeline.adapters._lines import document_items, grouped, rows_of
from eval_pipeline.adapters._spans import Span, flat, kind_of, pieces_of
from eval_pipeline.adapters._values import as_text, utc_text
from eval_pipeline.adapters.tool import CERTAIN, Page, Piece, ReadOptions, ResultRow, Row, RunSaid, Seen, Tool

ERROR_CODES = (2, "2", "STATUS_CODE_ERROR", "ERROR")


def recognise(head: Head) -> Seen | None:
    """Requests of resourceSpans, one a line or one in all."""
    rows = head.rows if head.kind == "lines" else [head.document]
    is_own = bool(rows) and all(isinstance(row, dict) and _spans_key(row) for row in rows)
    return Seen(CERTAIN, "OpenTelemetry traces (OTLP/JSON)") if is_own else None


def _spans_key(row: Row) -> str | None:
    return next(
        (name for name in ("resourceSpans", "resource_spans") if isinstance(row.get(name), list)), None
    )


def read(path: Path, options: ReadOptions) -> Iterator[Piece]:
    """A result per trace."""
    broken: list[ResultRow] = []
    started = 0
    for trace, spans in grouped(_spans(path, broken), lambda span: span.trace, scattered=options.scattered):
        first = min((span.start for _, span in spans if span.start), default=0)
        started = min(filter(None, (started, first)), default=0)
        yield from pieces_of(trace, spans)
    yield from broken
    if started:
        yield RunSaid({"created_at": utc_text(started / 1e9)})


def _spans(path: Path, broken: list[ResultRow]) -> Iterator[tuple[int, Span]]:
    for number, resource in _resources(path):
        if isinstance(resource, ResultRow):
            broken.append(resource)
            continue
        for scope in resource.get("scopeSpans") or resource.get("scope_spans") or []:
            for span in scope.get("spans") or [] if isinstance(scope, dict) else []:
                if isinstance(span, dict):
                    yield number, _span_of(span)


def _resources(path: Path) -> Iterator[tuple[int, Row | ResultRow]]:
    if look_at(path).kind == "document":
        for number, (_, _, one) in enumerate(
            document_items(path, ("resourceSpans",), ("resource_spans",)), start=1
        ):
            yield (
                number,
                one if isinstance(one, dict) else ResultRow({}, number, reason="a resource is an object"),
            )
        return
    for number, row in rows_of(path):
        if isinstance(row, ResultRow):
            yield number, row
            continue
        for one in row.get(_spans_key(row) or "", []):
            if isinstance(one, dict):
                yield number, one


def _span_of(row: Row) -> Span:
    """A span of OTLP/JSON; its numbers come as texts."""
    attributes = flat(_attributes(row.get("attributes")))
    events = [
        {"name": one.get("name"), "attributes": _attributes(one.get("attributes"))}
        for one in row.get("events") or []
        if isinstance(one, dict)
    ]
    return Span(
        str(row.get("traceId") or row.get("trace_id") or ""),
        str(row.get("spanId") or row.get("span_id") or ""),
        str(row.get("parentSpanId") or row.get("parent_span_id") or ""),
        str(row.get("name") or ""),
        kind_of(attributes),
        _nanoseconds(row.get("startTimeUnixNano") or row.get("start_time_unix_nano")),
        _nanoseconds(row.get("endTimeUnixNano") or row.get("end_time_unix_nano")),
        _error(row.get("status"), events),
        attributes,
        events,
    )


def _nanoseconds(value: Any) -> int:
    try:
        return int(value or 0)
    except (TypeError, ValueError):
        return 0


def _error(status: Any, events: list[Row]) -> str | None:
    if not isinstance(status, dict) or status.get("code") not in ERROR_CODES:
        return None
    raised = [one["attributes"].get("exception.message") for one in events if one["name"] == "exception"]
    return as_text(status.get("message")) or next(filter(None, map(as_text, raised)), None) or "error"


def _attributes(items: Any) -> Row:
    found: Row = {}
    for one in items if isinstance(items, list) else []:
        if isinstance(one, dict) and isinstance(one.get("key"), str):
            found[one["key"]] = _plain(one.get("value"))
    return found


def _plain(value: Any) -> Any:
    """What one of OTLP's typed values holds."""
    if not isinstance(value, dict) or not value:
        return None
    kind, inner = next(iter(value.items()))
    if kind == "arrayValue":
        return [_plain(one) for one in (inner or {}).get("values") or []]
    if kind == "kvlistValue":
        return _attributes((inner or {}).get("values"))
    if kind == "intValue":
        try:
            return int(inner)
        except (TypeError, ValueError):
            return None
    return inner


PAGE = Page(
    title="OpenTelemetry traces",
    file=(
        "OTLP/JSON, a request a line as the collector's file exporter writes it, or one document; "
        "OpenInference or OTel GenAI."
    ),
    gives=(
        "a result per trace: question and answer of its root, errors by its status",
        "hits of the RETRIEVER spans, or of the last RERANKER where there is one",
        "times: of the root, and of retrieving and generating",
        "annotations, evaluations and `gen_ai.evaluation.result` events as scores; the model",
    ),
    cannot=("labels, unless the root's metadata has them", "texts that were not recorded: content is opt-in"),
    ids="`query_id` of the root's metadata, else the trace id",
    notes=(
        "Trace ids differ from run to run: two runs can be compared only where the metadata has a query id.",
        "Traces whose root is an EVALUATOR are left out.",
    ),
    example="traces.jsonl",
)
TOOL = Tool("otlp", PAGE, recognise, read)
