"""Answers, questions and hits inside inputs and outputs of any form, by their usual names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eval_pipeline.adapters._values import (
    as_id,
    as_number,
    as_text,
    hit_of,
    labels_of,
    listed,
    opened,
    side_by_side,
    text_id,
)

Row = dict[str, Any]
ANSWERS = ("answer", "text", "content", "response", "output", "completion", "result", "generation")
QUESTIONS = ("question", "query", "user_input", "input", "prompt", "text", "content", "messages")
HITS = (
    *(
        "retrieved",
        "retrieved_ids",
        "retrieved_context_ids",
        "retrieved_chunk_ids",
        "chunk_ids",
        "hits_top_k",
        "hits",
    ),
    *("documents", "retrieved_documents", "source_documents", "context_ids", "sources", "chunks", "nodes"),
)
TEXTS = ("contexts", "retrieved_contexts", "retrieved_texts", "context", "retrieval_context")
CITED = ("citations", "cited", "cited_ids")
HIT_IDS = ("chunk_id", "id", "document.id", "doc_id", "id_", "node_id", "document_id")
HIT_DOCS = ("doc_id", "doc_uri", "document_id", "source", "file", "path")
HIT_TEXTS = ("text", "content", "page_content", "document.content", "snippet")
HIT_SCORES = ("score", "document.score", "relevance_score", "similarity", "distance")
EXPECTED = ("expected_chunk_ids", "expected_ids", "reference_context_ids", "relevant_ids", "gold_ids")
EXPECTED_DOCS = ("expected_doc_ids", "expected_document_ids")
REFERENCES = (
    "reference",
    "reference_answer",
    "expected_response",
    "expected_answer",
    "expected_output",
    "ground_truth",
)
# What a hit says that gives no more than ids has none of these names.
_MORE_THAN_IDS = frozenset(
    {*HIT_TEXTS, *HIT_SCORES, *HIT_DOCS, "node", "document", "metadata", "document.metadata"}
)
TEXTS_OF_LABELS, PLACES_OF_LABELS = ("must_contain", "forbidden", "tags"), ("category", "difficulty", "lang")
_LABELS = frozenset(
    {*EXPECTED, *EXPECTED_DOCS, *REFERENCES, *TEXTS_OF_LABELS, "answerable", *PLACES_OF_LABELS}
)
JOINTS = ",;|\n[{"
DEEPEST = 4


def answer_in(value: Any) -> Row:
    """Return the answer in an output, with its citations. An empty text is an answer."""
    value = opened(value)
    text = text_in(value, ANSWERS)
    if text is None:
        text = text_in(value, ANSWERS, may_be_blank=True)
    found: Row = {} if text is None else {"text": text}
    cited = _first(value, CITED) if isinstance(value, dict) else None
    citations = [citation_of(item) for item in listed(cited) or [] if item]
    if citations:
        found["citations"] = citations
    for name in ("abstained", "grounded"):
        if isinstance(value, dict) and isinstance(value.get(name), bool):
            found[name] = value[name]
    return {"answer": found} if found else {}


def question_in(value: Any) -> str | None:
    """What was asked, of an input in any form; of messages what the user said last."""
    return text_in(opened(value), QUESTIONS)


def text_in(value: Any, names: tuple[str, ...], depth: int = 0, *, may_be_blank: bool = False) -> str | None:
    """The text that stands under the first of these names; of an object with a single text that one."""
    value = opened(value) if depth else value
    if isinstance(value, str):
        return value if may_be_blank else as_text(value)
    if depth > DEEPEST:
        return None
    if isinstance(value, dict):
        for name in names:
            inner = value.get(name)
            found = None if inner is None else text_in(inner, names, depth + 1, may_be_blank=may_be_blank)
            if found is not None:
                return found
        texts = [one for one in value.values() if isinstance(one, str) and (may_be_blank or one.strip())]
        return texts[0] if len(texts) == 1 and len(value) == 1 else None
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        said = [one for one in value if one.get("role") in ("user", "assistant", "human", "ai")] or value
        return text_in(dict(said[-1]), names, depth + 1, may_be_blank=may_be_blank)
    return None


def retrieved_in(value: Any) -> Row:
    """The hits that an output lists: ids, objects, or texts."""
    value = opened(value)
    if not isinstance(value, dict):
        return {}
    hits = listed(opened(_first(value, HITS)))
    texts = listed(_first(value, TEXTS))
    if hits is None and texts is None:
        return {}
    if hits is not None and any(isinstance(one, dict) for one in hits):
        return {"hits_top_k": documents(hits)}
    found = side_by_side(hits, texts if texts and all(isinstance(one, str) for one in texts) else None)
    return {} if found is None else {"hits_top_k": found}


def documents(items: list[Any]) -> list[Row]:
    """Objects that say what was retrieved, as hits in their order."""
    return [document(one) for one in items if isinstance(one, dict | str)]


def document(one: Any) -> Row:
    """One object that says what was retrieved; its metadata may name it."""
    if isinstance(one, str):
        return hit_of(one)
    if _MORE_THAN_IDS.isdisjoint(one):
        return hit_of(_first(one, HIT_IDS))
    inner = one["node"] if isinstance(one.get("node"), dict) else one.get("document")
    own: Row = {**inner, **one} if isinstance(inner, dict) else one
    metadata = opened(own.get("metadata") or own.get("document.metadata"))
    about: Row = metadata if isinstance(metadata, dict) else {}
    text = as_text(_first(own, HIT_TEXTS))
    chunk = as_id(about.get("chunk_id")) or as_id(_first(own, HIT_IDS)) or (text_id(text) if text else None)
    doc = as_id(_first(about, HIT_DOCS)) or as_id(own.get("doc_id"))
    return hit_of(chunk, doc=doc, text=text, score=as_number(_first(own, HIT_SCORES)) or about.get("score"))


def _first(value: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    # A generator would take longer than all it asks, and this is asked of every hit several times.
    for name in names if value else ():
        found = value.get(name)
        if found is not None:
            return found
    return None


def _id_of(one: Any) -> str | None:
    return as_id(_first(one, ("citation", *HIT_IDS)) if isinstance(one, dict) else one)


def citation_of(citation: Any) -> Row:
    """A citation by its chunk id; an object without an id stays as it is, for it may name a path."""
    found = _id_of(citation)
    return citation if found is None and isinstance(citation, dict) else {"citation": found}


def _ids_in(value: Any) -> list[Any] | None:
    """A list of ids; one that stands alone is a list of one, unless it looks like several."""
    found = listed(opened(value))
    if found is not None:
        return found
    alone = as_id(value)
    return None if alone is None or any(mark in alone for mark in JOINTS) else [alone]


def labels_in(value: Any) -> Row:
    """The labels among what a file says of a query: expected ids, a model answer, where the query belongs."""
    about: Row = value if isinstance(value, dict) else {}
    if _LABELS.isdisjoint(about):
        return {}
    found: Row = {}
    chunks, docs = _ids_in(_first(about, EXPECTED)), _ids_in(_first(about, EXPECTED_DOCS))
    if chunks is not None:
        found |= labels_of(chunks)
    if docs is not None:
        found["expected_doc_ids"] = [one for one in map(as_id, docs) if one]
    reference = as_text(_first(about, REFERENCES))
    if reference is not None:
        found["reference"] = reference
    for name in TEXTS_OF_LABELS:
        texts = [one for one in listed(opened(about.get(name))) or [] if isinstance(one, str)]
        if texts:
            found[name] = texts
    if isinstance(about.get("answerable"), bool):
        found["answerable"] = about["answerable"]
    return found | {name: about[name] for name in PLACES_OF_LABELS if as_text(about.get(name))}
