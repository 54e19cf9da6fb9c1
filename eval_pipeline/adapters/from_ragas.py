"""ragas: datasets and results as JSON Lines, CSV, Parquet or a JSON list; names before 0.2 too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from eval_pipeline.adapters._answers import EXPECTED
from eval_pipeline.adapters._head import Head, look_at
from eval_pipeline.adapters._lines import rows_of
from eval_pipeline.adapters._values import (
    as_id,
    as_number,
    as_text,
    labels_of,
    listed,
    score_of,
    side_by_side,
    text_id,
)
from eval_pipeline.adapters.tool import (
    CERTAIN,
    LIKELY,
    LabelRow,
    Page,
    Piece,
    ReadOptions,
    Remark,
    ResultRow,
    Row,
    Seen,
    Tool,
    Unused,
)
from eval_pipeline.words import count

OLD_NAMES = {
    "question": "user_input",
    "contexts": "retrieved_contexts",
    "answer": "response",
    "ground_truth": "reference",
    "ground_truths": "reference",
}
# Ids that somebody keeps beside the texts.
HIT_IDS = (
    *("retrieved_context_ids", "retrieved_ids", "retrieved_chunk_ids", "retrieved_doc_ids"),
    *("context_ids", "chunk_ids", "doc_ids"),
)
IDS = ("query_id", "id", "sample_id", "question_id", "qid")
KNOWN = frozenset(
    {
        *("user_input", "retrieved_contexts", "reference_contexts", "response", "reference"),
        *(*HIT_IDS, *EXPECTED),
    }
)
ABOUT = frozenset(
    {
        *("multi_responses", "rubrics", "rubric", "persona_name", "query_style", "query_length"),
        *("reference_tool_calls", "reference_topics", "synthesizer_name", "evolution_type", "metadata"),
    }
)
# Names of columns that are not scores: conversation_id, timestamp_ms, createdAt. id_based_context_recall is one.
_NOT_A_SCORE = re.compile(
    r"timestamp|(?:^|[^a-z])(?:ids?|idx|uuid|guid|epoch|date|datetime|created_at|updated_at)$|[a-z](?-i:Id|At)$",
    re.IGNORECASE,
)
_LARGEST_EXACT = 1 << 53


def recognise(head: Head) -> Seen | None:
    """user_input beside contexts or answers; or the question, contexts and answer of earlier versions."""
    names = _names(head)
    if "user_input" in names and names & {
        "retrieved_contexts",
        "response",
        "reference",
        "retrieved_context_ids",
    }:
        results = sorted(_metrics(head))
        return Seen(
            CERTAIN, f"ragas results with {count(len(results), 'metric')}" if results else "a ragas dataset"
        )
    if {"question", "contexts"} <= names and names & {"answer", "ground_truth", "ground_truths"}:
        return Seen(LIKELY, "a ragas dataset with the names of version 0.1")
    return None


def _first_rows(head: Head) -> list[Row]:
    if head.kind == "document" and isinstance(head.document, list):
        return [row for row in head.document if isinstance(row, dict)]
    return head.rows


def _names(head: Head) -> set[str]:
    return {name for row in _first_rows(head) for name in row}


def _metrics(head: Head) -> set[str]:
    """The other columns of numbers, except ids and times by their names, and whole numbers too large for a double."""
    rows = [_renamed(row) for row in _first_rows(head)]
    left = {name for row in rows for name in row} - KNOWN - ABOUT - {*IDS, "", "Unnamed: 0"}
    values = {name: [row[name] for row in rows if row.get(name) not in (None, "")] for name in left}
    return {
        name
        for name, found in values.items()
        if found and all(map(_is_score, found)) and not _NOT_A_SCORE.search(name)
    }


def _is_score(value: Any) -> bool:
    if isinstance(value, bool) or value in ("nan", "NaN", "True", "False"):
        return True
    number = as_number(value)
    if number is None:
        return isinstance(value, float)
    return abs(number) <= _LARGEST_EXACT or not float(number).is_integer()


def _renamed(row: Row) -> Row:
    if "user_input" in row:
        return row
    return {OLD_NAMES.get(name, name): value for name, value in row.items()}


def read(path: Path, _options: ReadOptions) -> Iterator[Piece]:
    """A result per row, with its labels where the file has references."""
    metrics = _metrics(look_at(path))
    if metrics:
        yield Remark(f"taken for a score: {count(len(metrics), 'column')}: {', '.join(sorted(metrics))}")
    odd = 0
    for number, raw in rows_of(path):
        if isinstance(raw, ResultRow):
            yield raw
            continue
        row = _renamed(raw)
        question, said = _asked(row.get("user_input"))
        hits = _hits(row)
        odd += hits is None and bool(row.get("retrieved_contexts") or row.get("retrieved_context_ids"))
        query_id = next((found for name in IDS if (found := as_id(row.get(name)))), None)
        yield LabelRow({"query_id": query_id, "query": question, **_labels(row)}, number)
        yield ResultRow(
            {"query_id": query_id, **_result(row, hits, said), **_scores(row, metrics)},
            number,
            question=question,
        )
        for name, value in row.items():
            if name not in KNOWN and name not in metrics and name not in IDS and value not in (None, ""):
                yield Unused(name)
    if odd:
        yield Remark(f"in {count(odd, 'row')} the contexts are no list that can be read: taken as not given")


def _result(row: Row, hits: list[Row] | None, said: str | None) -> Row:
    found: Row = {} if hits is None else {"hits_top_k": hits}
    response = row.get("response")
    answer = as_text(response) or said or (response if isinstance(response, str) else None)
    return found | ({"answer": {"text": answer}} if answer is not None else {})


def _hits(row: Row) -> list[Row] | None:
    return side_by_side(_hit_ids(row), listed(row.get("retrieved_contexts")))


def _hit_ids(row: Row) -> list[Any] | None:
    """The ids of what was retrieved: ragas' own, or another list of ids as long as that of the texts."""
    own, texts = listed(row.get(HIT_IDS[0])), listed(row.get("retrieved_contexts"))
    others = (listed(row.get(name)) for name in HIT_IDS[1:])
    return own or next((one for one in others if one and texts is not None and len(one) == len(texts)), own)


def _asked(value: Any) -> tuple[str | None, str | None]:
    """The question and, of a conversation, the last answer: a conversation is asked by all that the human said."""
    turns = listed(value) if not isinstance(value, str) or value.lstrip()[:2] == "[{" else None
    if turns is None:
        return as_text(value), None
    said = [(turn.get("type"), as_text(turn.get("content"))) for turn in turns if isinstance(turn, Mapping)]
    asked = "\n".join(text for kind, text in said if kind == "human" and text)
    answers = [text for kind, text in said if kind == "ai" and text]
    return asked or None, answers[-1] if answers else None


def _labels(row: Row) -> Row:
    found: Row = {}
    reference = as_text(row.get("reference")) or _first_text(row.get("reference"))
    if reference is not None:
        found["reference"] = reference
    ids = next((one for name in EXPECTED if (one := listed(row.get(name)))), None)
    texts = listed(row.get("reference_contexts"))
    if ids:
        found |= labels_of(ids)
    elif texts and _hit_ids(row) is None:
        found |= labels_of(map(text_id, texts))
    return found


def _first_text(value: Any) -> str | None:
    texts = listed(value) or []
    return as_text(texts[0]) if texts else None


def _scores(row: Row, metrics: set[str]) -> Row:
    found = {name: score_of(_number(row[name])) for name in sorted(metrics) if name in row}
    return {"scores": found} if found else {}


def _number(value: Any) -> Any:
    if value in ("True", "False"):
        return value == "True"
    return value if isinstance(value, bool) else as_number(value)


PAGE = Page(
    title="a ragas dataset or result",
    file=(
        "`dataset.to_jsonl()`, `result.to_pandas()` as CSV, JSON Lines or Parquet, of ragas 0.2 and "
        "later; the names of 0.1 too."
    ),
    gives=(
        (
            "hits with their texts, from `retrieved_context_ids` (or a list of your own as long as it: "
            "`retrieved_ids`, `chunk_ids` and the like) beside `retrieved_contexts`"
        ),
        "answers (`response`); of a conversation what was said last",
        (
            "labels: `reference_context_ids` (or `expected_chunk_ids` and the like), or the texts of "
            "`reference_contexts`; `reference` as the "
            "model answer"
        ),
        "each further column of numbers as a score, except ids, times and whole numbers above 2^53",
    ),
    cannot=(
        "times and errors: ragas does not keep them",
        "labels of texts where the hits have ids: nothing says which id a text has",
    ),
    ids=(
        "none in the file: an extra column `query_id` or `id`, else the golden row with the same "
        "question, else a hash of the question"
    ),
    notes=(
        "Without ids a passage is named by a hash of its text: labels of the same text find it.",
        "Lists that pandas printed into a CSV are read as lists.",
    ),
    example="results.csv",
)
TOOL = Tool("ragas", PAGE, recognise, read)
