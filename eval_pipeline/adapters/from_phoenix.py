"""Phoenix: frames of spans, pages of its REST interface, and the runs of an experiment."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eval_pipeline.adapters._answers import answer_in, labels_in, question_in, retrieved_in
from eval_pipeline.adapters._grouping import gathered
from eval_pipeline.adapters._head import Head, look_at
from eval_pipeline.adapters._lines import rows_of
from eval_pipeline.adapters._spans import Span, flat, kind_of, pieces_of
from eval_pipeline.adapters._values import as_id, as_number, as_object, as_text, opened, score_of
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

DATA = ("data",)
EXPERIMENT = {"example_id", "output"}


def recognise(head: Head) -> Seen | None:
    """Columns of context and attributes, spans of a page, or outputs by example."""
    if {"context.trace_id", "parent_id"} <= head.columns:
        return Seen(CERTAIN, "a frame of Phoenix spans")
    rows = _first_rows(head)
    if rows and all(isinstance(row.get("context"), dict) and "trace_id" in row["context"] for row in rows):
        return Seen(CERTAIN, "Phoenix spans")
    is_experiment = rows and all(
        row.keys() >= EXPERIMENT and {"reference_output", "input"} & row.keys() for row in rows
    )
    return Seen(CERTAIN, "the runs of a Phoenix experiment") if is_experiment else None


def _first_rows(head: Head) -> list[Row]:
    document = head.document
    rows = (
        document.get("data")
        if isinstance(document, dict)
        else document
        if isinstance(document, list)
        else head.rows
    )
    return [row for row in rows or [] if isinstance(row, dict)] if isinstance(rows, list) else []


def read(path: Path, _options: ReadOptions) -> Iterator[Piece]:
    """A result per trace, or per run of the experiment."""
    head = look_at(path)
    places = (DATA,) if isinstance(head.document, dict) else ((),)
    rows = rows_of(path, places)
    if not {"context.trace_id"} & head.columns and any(row.keys() >= EXPERIMENT for row in _first_rows(head)):
        yield from _experiment(rows)
        return
    broken: list[ResultRow] = []
    for trace, spans in gathered(_spans(rows, broken), lambda span: span.trace):
        yield from pieces_of(trace, spans)
    yield from broken


def _spans(rows: Iterator[tuple[int, Any]], broken: list[ResultRow]) -> Iterator[tuple[int, Span]]:
    for number, row in rows:
        if isinstance(row, ResultRow):
            broken.append(row)
        else:
            yield number, _span(row)


def _span(row: Row) -> Span:
    context = as_object(row.get("context"))
    own = {
        name.removeprefix("attributes."): opened(value)
        for name, value in row.items()
        if name.startswith("attributes.")
    }
    inside = opened(row.get("attributes"))
    attributes = {
        name: value
        for name, value in flat({**(inside if isinstance(inside, dict) else {}), **own}).items()
        if value is not None
    }
    failed = str(row.get("status_code")).upper() == "ERROR"
    return Span(
        str(context.get("trace_id") or row.get("context.trace_id") or ""),
        str(context.get("span_id") or row.get("context.span_id") or ""),
        as_text(row.get("parent_id")) or "",
        str(row.get("name") or ""),
        kind_of(attributes, row.get("span_kind")),
        _nanoseconds(row.get("start_time")),
        _nanoseconds(row.get("end_time")),
        (as_text(row.get("status_message")) or "error") if failed else None,
        attributes,
    )


def _nanoseconds(value: Any) -> int:
    if isinstance(value, str) and not value.isdigit():
        try:
            value = dt.datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            return 0
    if isinstance(value, dt.datetime):
        zone = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return round(zone.timestamp() * 1e9)
    number = as_number(value)
    if number is None:
        return 0
    while 0 < number < 1e17:
        number *= 1000
    return int(number)


def _experiment(rows: Iterator[tuple[int, Any]]) -> Iterator[Piece]:
    seen: Counter[str] = Counter()
    for number, row in rows:
        if isinstance(row, ResultRow):
            yield row
            continue
        query_id, question = as_id(row.get("example_id")), question_in(row.get("input"))
        seen[str(query_id)] += 1
        repetition = row.get("repetition_number")
        epoch = repetition if isinstance(repetition, int) and repetition > 0 else seen[str(query_id)]
        metadata = as_object(row.get("metadata"))
        query_id = as_id(metadata.get("query_id")) or query_id
        result = {"query_id": query_id, **_result(row)}
        expected = opened(row.get("reference_output"))
        labels = labels_in({**metadata, **(expected if isinstance(expected, dict) else {})})
        reference = answer_in(expected).get("answer", {}).get("text")
        yield LabelRow(
            {
                "query_id": query_id,
                "query": question,
                **labels,
                **({"reference": reference} if reference else {}),
            },
            number,
        )
        yield ResultRow(result, number, epoch=epoch, question=question)


def _result(row: Row) -> Row:
    found: Row = (
        {"error": row["error"]}
        if as_text(row.get("error"))
        else {**answer_in(row.get("output")), **retrieved_in(row.get("output"))}
    )
    latency = as_number(row.get("latency_ms"))
    if latency is not None:
        found["latency_ms"] = {"total": latency}
    scores = {
        str(one["name"]): score_of(
            one["score"] if one.get("score") is not None else one.get("label"),
            reason=as_text(one.get("explanation")),
        )
        for one in row.get("annotations") or []
        if isinstance(one, dict) and as_text(one.get("name"))
    }
    return found | ({"scores": scores} if scores else {})


PAGE = Page(
    title="Phoenix spans or an experiment",
    file=(
        "`client.spans.get_spans_dataframe()` as Parquet, CSV or JSON Lines; a page of "
        "`/v1/projects/…/spans`; the runs of an experiment as JSON."
    ),
    gives=(
        "of spans: the same as of OpenTelemetry traces",
        "of an experiment: answers, hits inside the output, errors, times, annotations as scores",
        "labels from an experiment's reference outputs",
    ),
    cannot=("further pages: load the files of all pages as runs of their own, or a frame",),
    ids=(
        "of spans `query_id` of the root's metadata, else the trace id; of experiments `query_id` of "
        "the metadata, else the example's id"
    ),
    notes=("Repetitions of an example are runs `x`, `x.e2`, …, each a replicate of the first.",),
    example="spans.parquet",
)
TOOL = Tool("phoenix", PAGE, recognise, read)
