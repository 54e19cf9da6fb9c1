"""What a delivered row says: null equals absent, aliases, bare-text hits, errors, abstention."""

from __future__ import annotations

from typing import Any

from .arithmetic import is_number
from .readings import Readings
from .spans import Span

Row = dict[str, Any]


def query_id_of(golden: Row) -> str:
    value = golden.get("query_id")
    return str(golden["id"] if value is None else value)


def labels(golden: Row, field: str) -> list[Any]:
    """The list under a field; empty when it is absent or null."""
    value = golden.get(field)
    return [] if value is None else list(value)


def hits_of(result: Row, readings: Readings) -> list[Row]:
    """The stored hits in stored order: position is the rank (AX.2), a bare text names chunk and document."""
    hits: list[Row] = []
    for item in result.get("hits_top_k") or []:
        hit = {"chunk_id": item, "doc_id": item} if isinstance(item, str) else item
        if readings["dedupe_hits"] and any(hit["chunk_id"] == earlier["chunk_id"] for earlier in hits):
            continue
        hits.append(hit)
    return hits


def spans_of(carrier: Row) -> list[Span]:
    """The source spans of a hit or an archive line; a span without document lies in the carrier's."""
    spans = []
    for span in carrier.get("source_spans") or []:
        doc_id = span.get("doc_id")
        spans.append(Span(carrier["doc_id"] if doc_id is None else doc_id, span["start"], span["end"]))
    return spans


def labelled_spans(spans: list[Row]) -> list[Span]:
    return [Span(span["doc_id"], span["start"], span["end"]) for span in spans]


def answer_of(result: Row) -> Row | None:
    """The answer object as stored; None for a retrieval-only row. An empty object is an answer."""
    answer = result.get("answer")
    return answer if isinstance(answer, dict) else None


def is_blank(text: str | None) -> bool:
    return text is None or text.strip() == ""


def has_error(result: Row) -> bool:
    """A3.7: error text, whatever it says, or timed out."""
    return bool(result.get("error")) or result.get("timed_out") is True


def has_empty_answer(result: Row) -> bool:
    """A2.17: an answer object whose text is blank or missing; no answer object is not an empty answer."""
    answer = answer_of(result)
    return answer is not None and is_blank(answer.get("text"))


def usable_answer(result: Row) -> Row | None:
    """The answer of a row that is no error (A3.7)."""
    return None if has_error(result) else answer_of(result)


def is_answerable(golden: Row) -> bool:
    """AX.5: the label, else unanswerable exactly when the documents are labelled as none."""
    stated = golden.get("answerable")
    if stated is not None:
        return bool(stated)
    return golden.get("expected_doc_ids") != []


def judged(result: Row, verdict: str) -> Row:
    judge = result.get("judge") or {}
    return judge.get(verdict) or {}


def abstention_of(result: Row) -> bool | None:
    """S2.22: the explicit flag, else the judge's classification, else unknown."""
    explicit = (answer_of(result) or {}).get("abstained")
    if isinstance(explicit, bool):
        return explicit
    classified = judged(result, "abstention").get("abstained")
    return classified if isinstance(classified, bool) else None


def valid_score(value: Any) -> float | None:
    """A2.12: a JSON number from 0 to 5, else nothing."""
    return float(value) if is_number(value) and 0 <= value <= 5 else None


def judge_score(result: Row, verdict: str) -> float | None:
    return None if has_error(result) else valid_score(judged(result, verdict).get("score"))
