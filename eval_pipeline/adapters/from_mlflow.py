"""MLflow: the table of a GenAI evaluation, and traces with their assessments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from eval_pipeline.adapters._answers import (
    EXPECTED,
    HITS,
    QUESTIONS,
    REFERENCES,
    answer_in,
    documents,
    labels_in,
    question_in,
    retrieved_in,
)
from eval_pipeline.adapters._head import Head, look_at
from eval_pipeline.adapters._lines import document_items, rows_of, skeleton_of
from eval_pipeline.adapters._values import (
    as_id,
    as_number,
    as_text,
    listed,
    opened,
    score_in_words,
    utc_text,
)
from eval_pipeline.adapters.tool import (
    CERTAIN,
    LabelRow,
    Page,
    Piece,
    ReadOptions,
    Remark,
    ResultRow,
    Row,
    RunSaid,
    Seen,
    Tool,
)
from eval_pipeline.words import count

DATA = ("data",)
# Of `mlflow.models.evaluate`, whose other columns are those of somebody's own data.
SCORE, BECAUSE = "/score", "/justification"
FOUND = ("outputs", "predictions", "prediction", *HITS)
WANTED = ("targets", "target", "expected", *EXPECTED, *REFERENCES)
VALUE, REASON, ERROR = "/value", "/rationale", "/error_message"
ASKED = ("request", "inputs", "request_preview", "trace.request")
ANSWERED = ("response", "outputs", "response_preview")
# Columns of the frame that `mlflow.search_traces()` returns.
SEARCHED = {"trace_id", "trace_metadata", "assessments"}
CUT = 1000
SOURCES = {"HUMAN": "human", "LLM_JUDGE": "judge", "CODE": "code"}
# What MLflow counts the answers of its judges as.
ANSWERS = {"yes": 1.0, "no": 0.0}


def recognise(head: Head) -> Seen | None:
    """A table with columns `<scorer>/value`, as pandas or MLflow write it; or traces of info and data."""
    if head.kind == "lines" or isinstance(head.document, list):
        rows = head.rows or head.document
        if rows and all(isinstance(row, dict) and _is_trace(row) for row in rows):
            return Seen(CERTAIN, "MLflow traces")
    if isinstance(head.document, dict) and _is_trace(head.document):
        return Seen(CERTAIN, "an MLflow trace")
    names = _columns(head)
    scorers = sorted(name.removesuffix(VALUE) for name in names if name.endswith(VALUE))
    if names >= SEARCHED and not scorers:
        return Seen(CERTAIN, "MLflow traces, as a table")
    metrics = [name for name in names if name.endswith(SCORE)]
    if metrics and not scorers:
        return Seen(CERTAIN, f"an MLflow table of {count(len(metrics), 'metric')}")
    if scorers and names & {*ASKED, *ANSWERED, "trace_id"}:
        return Seen(CERTAIN, f"an MLflow evaluation table with {count(len(scorers), 'column')} of values")
    return None


def _is_trace(row: Row) -> bool:
    info, data = row.get("info"), row.get("data")
    return isinstance(info, dict) and isinstance(data, dict) and "trace_id" in info and "spans" in data


def _columns(head: Head) -> set[str]:
    document = head.document
    if isinstance(document, dict):
        return {str(one) for one in document.get("columns") or []}
    if isinstance(document, list):
        return {name for row in document if isinstance(row, dict) for name in row}
    return head.columns


def read(path: Path, _options: ReadOptions) -> Iterator[Piece]:
    """A result per row or trace."""
    started: float | None = None
    cut = 0
    for number, row in _rows(path):
        if isinstance(row, ResultRow):
            yield row
            continue
        flat = _of_trace(row) if _is_trace(row) else _of_metrics(row)
        at = as_number(flat.get("request_time"))
        started = at if started is None or (at is not None and at < started) else started
        cut += _is_cut(flat)
        yield from _pieces(flat, number)
    if cut:
        yield Remark(
            f"in {count(cut, 'row')} the answer is a preview cut at {CUT:,} characters, and no spans "
            f"are there to "
            "complete it: export the traces"
        )
    if started:
        yield RunSaid({"created_at": utc_text(started)})


def _rows(path: Path) -> Iterator[tuple[int, Row | ResultRow]]:
    document = look_at(path).document
    if isinstance(document, dict) and _is_trace(document):
        yield 1, skeleton_of(path)
    elif isinstance(document, dict):
        names = [str(one) for one in skeleton_of(path, DATA).get("columns") or []]
        for number, (_, _, cells) in enumerate(document_items(path, DATA), start=1):
            if isinstance(cells, list) and len(cells) == len(names):
                yield number, dict(zip(names, cells, strict=True))
            else:
                yield number, ResultRow({}, number, reason=f"a row has {len(names)} cells, one a column")
    else:
        yield from rows_of(path)


def _of_trace(trace: Row) -> Row:
    """A trace as a row of the table."""
    info, spans = trace["info"], [one for one in trace["data"]["spans"] if isinstance(one, dict)]
    return {
        **{
            name: info.get(name)
            for name in ("trace_id", "state", "tags", "assessments", "request_preview", "response_preview")
        },
        "request_time": _seconds(info.get("request_time")),
        "execution_duration": info.get("execution_duration_ms"),
        "spans": spans,
        "trace_metadata": info.get("trace_metadata"),
    }


def _of_metrics(row: Row) -> Row:
    """A row of `mlflow.models.evaluate` as one of the newer table; any other as it is."""
    metrics = [name.removesuffix(SCORE) for name in row if name.endswith(SCORE)]
    if not metrics:
        return row
    found, wanted = (_first_of(row, names) for names in (FOUND, WANTED))
    ids, gold = listed(found), listed(wanted)
    return {
        **{f"{name}{VALUE}": row[name + SCORE] for name in metrics},
        **{f"{name}{REASON}": row.get(name + BECAUSE) for name in metrics},
        "query_id": as_id(row.get("query_id")) or as_id(row.get("id")),
        "request": row.get("inputs") or {name: row[name] for name in QUESTIONS if name in row},
        "response": {"answer": found} if ids is None else {"retrieved": ids},
        "expectations": {"reference": wanted} if gold is None else {"expected_chunk_ids": gold},
    }


def _first_of(row: Row, names: tuple[str, ...]) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _seconds(value: Any) -> float | None:
    import datetime as dt

    if isinstance(value, str):
        try:
            return dt.datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp() * 1000
        except ValueError:
            return None
    return as_number(value)


def _object(value: Any) -> Row:
    found = opened(value)
    return found if isinstance(found, dict) else {}


def _spans(row: Row) -> list[Row]:
    return [one for one in listed(opened(row.get("spans"))) or [] if isinstance(one, dict)]


def _of_spans(row: Row, name: str, *kinds: str) -> list[Any]:
    """What spans of these kinds had as inputs or outputs; without a kind the root alone."""
    found = []
    for span in _spans(row):
        about = _object(span.get("attributes"))
        kind = str(opened(about.get("mlflow.spanType")) or "").strip('"')
        is_wanted = kind in kinds if kinds else not (span.get("parent_span_id") or span.get("parent_id"))
        if is_wanted and about.get(name) is not None:
            found.append(opened(about[name]))
    return found


def _asked(row: Row) -> Any:
    return next(iter(_of_spans(row, "mlflow.spanInputs")), None) or next(
        (row[name] for name in ASKED if row.get(name)), None
    )


def _answered(row: Row) -> Any:
    found = [*_of_spans(row, "mlflow.spanOutputs")[:1], *(row.get(name) for name in ANSWERED)]
    return next(filter(None, found), next((value for value in found if isinstance(value, str)), None))


def _is_cut(row: Row) -> bool:
    text = row.get("response_preview")
    is_only = not row.get("response") and not row.get("outputs") and not _of_spans(row, "mlflow.spanOutputs")
    return is_only and isinstance(text, str) and len(text) >= CUT


def _pieces(row: Row, number: int) -> Iterator[Piece]:
    tags, asked = _object(row.get("tags")), opened(_asked(row))
    query_id = as_id(tags.get("query_id")) or as_id(row.get("query_id"))
    query_id = query_id or (as_id(asked.get("query_id")) if isinstance(asked, Mapping) else None)
    question = question_in(asked)
    expected, scores = _assessed(row)
    result: Row = {"query_id": query_id, **_result(row), **({"scores": scores} if scores else {})}
    labels = labels_in({**tags, **_object(row.get("expectations")), **expected})
    yield LabelRow({"query_id": query_id, "query": question, **labels}, number)
    yield ResultRow(result, number, question=question)


def _result(row: Row) -> Row:
    found: Row = {}
    if row.get("state") == "ERROR":
        found["error"] = _why(row)
    else:
        answered = opened(_answered(row))
        found |= answer_in(answered)
        hits = _hits(row)
        found |= {"hits_top_k": hits} if hits is not None else retrieved_in(answered)
    took = as_number(row.get("execution_duration"))
    return found | ({"latency_ms": {"total": took}} if took is not None else {})


def _hits(row: Row) -> list[Row] | None:
    for kind in ("RERANKER", "RETRIEVER"):
        outputs = _of_spans(row, "mlflow.spanOutputs", kind)
        if outputs:
            found: dict[Any, Row] = {}
            for hit in documents([one for output in outputs for one in listed(output) or []]):
                found.setdefault(hit["chunk_id"], hit)
            return list(found.values())
    return None


def _why(row: Row) -> str:
    for span in _spans(row):
        status = span.get("status")
        message = as_text(status.get("message")) if isinstance(status, Mapping) else None
        for event in span.get("events") or []:
            about = _object(event.get("attributes")) if isinstance(event, dict) else {}
            message = message or as_text(opened(about.get("exception.message")))
        if message:
            return message.strip().splitlines()[0]
    return "error"


def _assessed(row: Row) -> tuple[Row, Row]:
    """What people expect, and what scorers found: of the assessments, and of the columns of values."""
    expected: Row = {}
    scores: Row = {}
    for one in listed(opened(row.get("assessments"))) or []:
        name = as_text(one.get("assessment_name") or one.get("name")) if isinstance(one, dict) else None
        if name is None:
            continue
        if one.get("expectation") is not None:
            expected[name] = _expected(one["expectation"])
        elif one.get("valid", True):
            scores[name] = _feedback(one)
    for column, value in row.items():
        name = column.removesuffix(VALUE)
        if name != column and name not in expected and name not in scores:
            if name.startswith("expected_"):
                expected[name] = opened(value)
            elif value is not None or as_text(row.get(name + ERROR)):
                reason = as_text(row.get(name + REASON)) or as_text(row.get(name + ERROR))
                scores[name] = score_in_words(_plain(value), ANSWERS, reason=reason)
    return expected, {name: score for name, score in scores.items() if score is not None}


def _expected(expectation: Any) -> Any:
    found = _object(expectation)
    serialized = found.get("serialized_value")
    return opened(serialized.get("value")) if isinstance(serialized, Mapping) else found.get("value")


def _feedback(one: Row) -> Any:
    feedback, source = _object(one.get("feedback")), _object(one.get("source"))
    error = feedback.get("error")
    message = as_text(error.get("error_message")) if isinstance(error, Mapping) else as_text(error)
    return score_in_words(
        None if error else feedback.get("value"),
        ANSWERS,
        reason=as_text(one.get("rationale")) or message,
        source=SOURCES.get(str(source.get("source_type"))),
    )


def _plain(value: Any) -> Any:
    """Cells of a CSV are texts."""
    if isinstance(value, str):
        number = as_number(value)
        return {"True": True, "False": False}.get(value, number if number is not None else as_text(value))
    return value


PAGE = Page(
    title="an MLflow evaluation",
    file=(
        "The artifact `eval_results_table.json`, `result.result_df` as CSV or Parquet, or traces: a "
        "line each (`trace.to_dict()`), or `mlflow.search_traces()` as CSV, JSON Lines or Parquet."
    ),
    gives=(
        (
            "answers from the root span's outputs, else `response`, whatever names it has (`answer`, "
            "`text`, `content`, `response`, `output`)"
        ),
        "hits of RETRIEVER (or RERANKER) spans, else `retrieved` and the like in the response",
        (
            "every `<scorer>/value` as a score, with its rationale; yes and no count 1 and 0; one that "
            "failed is unscored and not 0"
        ),
        "expectations as labels: `expected_chunk_ids`, `expected_response`",
        (
            "of the table that `mlflow.models.evaluate` logs: every `<metric>/score`; `outputs`, `predictions` or "
            "`retrieved` as hits where they are lists, else as the answer; `targets` or `expected` as labels"
        ),
        "errors and durations",
    ),
    cannot=(
        f"answers longer than {CUT:,} characters where only previews were kept",
        "the metrics of the run: they are no part of the table, and follow from the scores",
    ),
    ids=(
        "the tag `query_id`, else the golden row with the same question, else a hash of the "
        "question: trace ids differ from run to run"
    ),
    example="eval_results_table.json",
)
TOOL = Tool("mlflow", PAGE, recognise, read)
