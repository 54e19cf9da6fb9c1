"""Langfuse: the export to blob storage, observations and scores in two folders."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from eval_pipeline.adapters._answers import answer_in, documents, labels_in, question_in, retrieved_in
from eval_pipeline.adapters._grouping import gathered
from eval_pipeline.adapters._head import Head, look_at
from eval_pipeline.adapters._lines import rows_of
from eval_pipeline.adapters._values import as_id, as_number, as_text, listed, opened, score_of, utc_text
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
    Unused,
)

OBSERVED = ("observations_v2", "observations")
FOLDERS = (*OBSERVED, "traces", "scores")
SOURCES = {"EVAL": "judge", "ANNOTATION": "human", "API": "code"}
Kept = tuple[str, Row]


def recognise(head: Head) -> Seen | None:
    """A folder with observations, and mostly scores and traces beside them."""
    found = sorted(
        {part for name in head.names for part in PurePosixPath(name).parent.parts if part in FOLDERS}
    )
    if head.kind != "folder" or not set(found) & {*OBSERVED, "traces"}:
        return None
    return Seen(CERTAIN, f"a Langfuse export ({', '.join(found)})")


def read(path: Path, _options: ReadOptions) -> Iterator[Piece]:
    """A result per trace."""
    counts: Counter[str] = Counter()
    started = ""
    for trace, rows in gathered(_rows(path, counts), _trace_of):
        own = _once(rows, counts)
        roots = [row for kind, row in own if kind == "traces"]
        observed = [row for kind, row in own if kind in OBSERVED]
        if not roots and not observed:
            counts["scores of traces that are not in the export"] += len(own)
            continue
        started = min(filter(None, (started, _began([*roots, *observed]))), default="")
        yield from _pieces(trace, roots, observed, [row for kind, row in own if kind == "scores"])
    for what, number in sorted(counts.items()):
        yield Remark(f"{what}: {number:,}")
    if started:
        yield RunSaid({"created_at": utc_text(started)})


def _rows(path: Path, counts: Counter[str]) -> Iterator[tuple[int, Kept]]:
    number = 0
    for name in look_at(path).names:
        kind = next((part for part in reversed(PurePosixPath(name).parent.parts) if part in FOLDERS), None)
        if kind is None or PurePosixPath(name).name.startswith("."):
            continue
        for _, row in rows_of(path / name):
            number += 1
            if isinstance(row, ResultRow):
                counts[f"rows of {name} that cannot be read"] += 1
            else:
                yield number, (kind, row)


def _trace_of(kept: Kept) -> str:
    kind, row = kept
    return str(row.get("id") if kind == "traces" else row.get("trace_id") or "")


def _once(rows: Sequence[tuple[int, Kept]], counts: Counter[str]) -> list[Kept]:
    """Every row once: exports hold some twice, and scores of one evaluation more than once."""
    found: dict[Any, Kept] = {}
    for _, (kind, row) in rows:
        key = (kind, row.get("id"))
        if kind == "scores" and row.get("execution_trace_id"):
            key = (kind, (row.get("name"), row.get("observation_id"), row["execution_trace_id"]))
        if key in found:
            counts[f"rows of {kind} that stand twice and were taken once"] += 1
        # The later one is the newer state of the same thing.
        found[key] = (kind, row)
    return list(found.values())


def _began(rows: Sequence[Row]) -> str:
    return min(
        (str(row.get("start_time") or row.get("timestamp") or "~") for row in rows), default="~"
    ).replace("~", "")


def _pieces(trace: str, roots: list[Row], observed: list[Row], scores: list[Row]) -> Iterator[Piece]:
    observed.sort(key=lambda row: str(row.get("start_time")))
    ids = {row.get("id") for row in observed}
    root = next(
        (
            row
            for row in observed
            if not row.get("parent_observation_id") or row["parent_observation_id"] not in ids
        ),
        None,
    )
    # What the trace itself says counts; older exports have it in a folder of its own.
    own = roots[0] if roots else {}
    whole: Row = {
        **own,
        **(root or {}),
        **{name: value for name, value in own.items() if value not in (None, "")},
    }
    metadata = _object(whole.get("metadata"))
    query_id = as_id(metadata.get("query_id")) or trace
    question = question_in(whole.get("input"))
    result = {"query_id": query_id, **_result(whole, root, observed), **_scores(scores)}
    yield LabelRow({"query_id": query_id, "query": question, **labels_in(metadata)})
    yield ResultRow(result, question=question)
    model = next(
        (found for row in observed if (found := as_text(row.get("provided_model_name") or row.get("model")))),
        None,
    )
    if model:
        yield RunSaid({"config": {"llm_model": model}})
    if question is None:
        yield Unused("input")


def _object(value: Any) -> Row:
    """A mapping, also as JSON, or as Parquet keeps maps: a list of pairs."""
    found = opened(value)
    if isinstance(found, list) and all(isinstance(one, list | tuple) and len(one) == 2 for one in found):
        found = {str(key): opened(inner) for key, inner in found}
    return found if isinstance(found, dict) else {}


def _result(whole: Row, root: Row | None, observed: list[Row]) -> Row:
    found: Row = {}
    hits = _hits(observed)
    if root is not None and root.get("level") == "ERROR":
        found["error"] = as_text(root.get("status_message")) or "error"
    else:
        found |= answer_in(whole.get("output")) or _generated(observed)
        if hits is None:
            found |= retrieved_in(whole.get("output"))
    if hits is not None and (hits or "error" not in found):
        found["hits_top_k"] = hits
    latency = {
        "total": _took([root] if root else []),
        "retrieval": _took([row for row in observed if row.get("type") == "RETRIEVER"]),
        "generation": _took([row for row in observed if row.get("type") == "GENERATION"]),
    }
    found["latency_ms"] = {name: value for name, value in latency.items() if value is not None}
    return found


def _hits(observed: list[Row]) -> list[Row] | None:
    retrievers = [row for row in observed if row.get("type") == "RETRIEVER"]
    if not retrievers:
        return None
    found: dict[Any, Row] = {}
    for row in retrievers:
        output = opened(row.get("output"))
        items = listed(output)
        hits = documents(items) if items is not None else retrieved_in(output).get("hits_top_k", [])
        for hit in hits:
            found.setdefault(hit["chunk_id"], hit)
    return list(found.values())


def _generated(observed: list[Row]) -> Row:
    outputs = [row.get("output") for row in observed if row.get("type") == "GENERATION"]
    return next((found for one in reversed(outputs) if (found := answer_in(one))), {})


def _took(rows: Sequence[Row]) -> float | None:
    """By start and end: what an export calls latency is in seconds or milliseconds, depending on its age."""
    timed = [
        taken for row in rows if (taken := _between(row.get("start_time"), row.get("end_time"))) is not None
    ]
    return round(sum(timed), 3) if timed else None


def _between(start: Any, end: Any) -> float | None:
    first, last = _time(start), _time(end)
    return (last - first).total_seconds() * 1000 if first and last else None


def _time(value: Any) -> dt.datetime | None:
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    try:
        return dt.datetime.fromisoformat(str(value).replace("Z", "+00:00")).replace(tzinfo=None)
    except ValueError:
        return None


def _scores(rows: list[Row]) -> Row:
    found: Row = {}
    for row in rows:
        name = as_text(row.get("name"))
        if name is not None:
            reason = as_text(row.get("comment"))
            if row.get("data_type") == "TEXT":
                reason = as_text(row.get("string_value")) or reason
            found[name] = score_of(_value(row), reason=reason, source=SOURCES.get(str(row.get("source"))))
    return {"scores": found} if found else {}


def _value(row: Row) -> Any:
    kind, value = row.get("data_type"), row.get("value")
    if kind == "TEXT":
        return None
    if kind == "CATEGORICAL":
        return as_text(row.get("string_value"))
    number = as_number(value)
    return bool(number) if kind == "BOOLEAN" and number is not None else number


PAGE = Page(
    title="a Langfuse export",
    file=(
        "The folder of an export to blob storage: `observations_v2/` and `scores/`, also the older "
        "`traces/` and `observations/`; JSON Lines, JSON, CSV or Parquet."
    ),
    gives=(
        "a result per trace: question and answer of its root, errors by its level",
        "hits of the RETRIEVER observations",
        "times from start and end: of the whole, of retrieving and of generating",
        "scores with their source; categories as texts; free texts are unscored",
    ),
    cannot=(
        "labels, unless the trace's metadata has them",
        "scores of sessions and of traces outside of the export",
    ),
    ids="`query_id` of the root's metadata, else the trace id",
    notes=(
        "Rows that stand twice are taken once, and counted.",
        (
            "`latency` is not read: it is in seconds or in milliseconds, depending on when the export "
            "was set up."
        ),
    ),
    example="export/",
)
TOOL = Tool("langfuse", PAGE, recognise, read)
