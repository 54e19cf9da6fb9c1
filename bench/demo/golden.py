"""Reads `golden.yaml` and derives from its quotations what a golden set must state: spans, headings, chunks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.demo.chunkers import sections
from bench.demo.corpus import Document
from eval_pipeline.demo.chunks import Chunk, Span

GOLDEN_FILE = Path(__file__).parent / "golden.yaml"


class GoldenSourceError(ValueError):
    """An entry of `golden.yaml` that the corpus does not bear out."""


@dataclass(frozen=True)
class Passage:
    """A literal quotation that answers a question, or at least bears on it."""

    span: Span
    quote: str
    rel_path: str
    heading: str | list[str]
    snippets: tuple[str, ...]
    recency: str | None
    support_only: bool


@dataclass(frozen=True)
class Question:
    query_id: str
    query: str
    lang: str
    group: str | None
    category: str
    difficulty: str
    tags: tuple[str, ...]
    vaults: tuple[str, ...]
    passages: tuple[Passage, ...]
    support_groups: tuple[tuple[int, ...], ...]
    multi_hop: bool
    rule: str | None
    must_contain: tuple[str, ...]
    forbidden: tuple[str, ...]
    refuse: bool
    freeze: bool

    @property
    def answering(self) -> tuple[Passage, ...]:
        return tuple(passage for passage in self.passages if not passage.support_only)

    @property
    def reference(self) -> str | None:
        """The answer in the words of the corpus: what the first complete group quotes, else every answering passage."""
        first = self.support_groups[0] if self.support_groups else None
        told = self.answering if first is None else [self.passages[place] for place in first]
        return " ".join(_sentence(passage.quote) for passage in told) or None


def read_questions(documents: Iterable[Document], file: Path = GOLDEN_FILE) -> tuple[Question, ...]:
    by_id = {document.doc_id: document for document in documents}
    entries = yaml.safe_load(file.read_text(encoding="utf-8"))
    return tuple(_question(entry, by_id) for entry in entries)


def expected_chunks(question: Question, chunks: Iterable[Chunk]) -> list[Chunk]:
    """The chunks that hold an answering quotation from its first to its last character."""
    return [
        chunk
        for chunk in chunks
        if any(_holds(span, passage.span) for span in chunk.source_spans for passage in question.answering)
    ]


def golden_row(question: Question, chunks: Sequence[Chunk]) -> dict[str, Any]:
    """The row of the delivered golden set, its expected chunks named for the given chunks; no label is null."""
    vaults = list(question.vaults)
    row: dict[str, Any] = {
        "query_id": question.query_id,
        "query": question.query,
        "lang": question.lang,
        "group": question.group,
        "category": question.category,
        "difficulty": question.difficulty,
        "tags": list(question.tags),
        "vault": vaults[0] if len(vaults) == 1 else None,
        "vaults": vaults if len(vaults) > 1 else None,
        **_expectations(question, chunks),
        "recency_conflict_rule": question.rule,
        "must_contain": list(question.must_contain) or None,
        "forbidden": list(question.forbidden) or None,
        "reference": question.reference,
    }
    return {label: value for label, value in row.items() if value is not None}


def _expectations(question: Question, chunks: Sequence[Chunk]) -> dict[str, Any]:
    if question.refuse:
        return {"answerable": False, "expected_doc_ids": []}
    if not question.passages:
        return {}
    wanted = expected_chunks(question, chunks)
    folders = {passage.rel_path.rpartition("/")[0] for passage in question.answering}
    frozen = {chunk.chunk_id: [span_row(span) for span in chunk.source_spans] for chunk in wanted}
    return {
        "folders": sorted(folders),
        "answerable": True,
        "expected_doc_ids": sorted({passage.span.doc_id for passage in question.answering}),
        "expected_chunk_ids": [chunk.chunk_id for chunk in wanted],
        "expected_chunk_spans": frozen if question.freeze else None,
        "gold_supports": [_support_row(passage) for passage in question.passages],
        "multi_hop": question.multi_hop or None,
        "required_support_groups": [list(group) for group in question.support_groups] or None,
        "ground_truth_spans": [span_row(passage.span) for passage in question.answering],
    }


def _sentence(quote: str) -> str:
    return quote if quote.endswith((".", "。")) else f"{quote}."


def span_row(span: Span) -> dict[str, Any]:
    return {"doc_id": span.doc_id, "start": span.start, "end": span.end}


def _support_row(passage: Passage) -> dict[str, Any]:
    row = {
        "rel_path": passage.rel_path,
        "heading_path": passage.heading,
        "snippets": list(passage.snippets) or None,
        "recency": passage.recency,
    }
    return {label: value for label, value in row.items() if value is not None}


def _holds(outer: Span, inner: Span) -> bool:
    return outer.doc_id == inner.doc_id and outer.start <= inner.start and inner.end <= outer.end


def _question(entry: Mapping[str, Any], documents: Mapping[str, Document]) -> Question:
    query_id = entry["query_id"]
    passages = tuple(_passage(given, documents, query_id=query_id) for given in entry.get("passages", ()))
    question = Question(
        query_id=query_id,
        query=entry["query"],
        lang=entry.get("lang", "en"),
        group=entry.get("group"),
        category=entry["category"],
        difficulty=entry["difficulty"],
        tags=tuple(entry["tags"]),
        vaults=tuple(entry.get("vaults", [entry.get("vault")])),
        passages=passages,
        support_groups=tuple(tuple(group) for group in entry.get("groups", ())),
        multi_hop=entry.get("multi_hop", False),
        rule=entry.get("recency_conflict_rule"),
        must_contain=tuple(entry.get("must_contain", ())),
        forbidden=tuple(entry.get("forbidden", ())),
        refuse=entry.get("refuse", False),
        freeze=entry.get("freeze", False),
    )
    _check_strings(question, documents)
    return question


def _passage(given: Mapping[str, Any], documents: Mapping[str, Document], *, query_id: str) -> Passage:
    document, quote = documents.get(given["doc"]), given["quote"]
    if document is None:
        raise GoldenSourceError(f"{query_id}: no document {given['doc']!r}; name one of the corpus")
    if document.text.count(quote) != 1:
        found = document.text.count(quote)
        raise GoldenSourceError(
            f"{query_id}: {quote!r} occurs {found} times in {document.doc_id}; quote a passage that occurs once"
        )
    start = document.text.index(quote)
    section = next(part for part in sections(document) if part.start <= start < part.end)
    derived = " > ".join(section.headings)
    return Passage(
        span=Span(document.doc_id, start, start + len(quote)),
        quote=quote,
        rel_path=document.rel_path,
        heading=given.get("heading", derived),
        snippets=tuple(given.get("snippets", ())),
        recency=given.get("recency"),
        support_only=given.get("support_only", False),
    )


def _check_strings(question: Question, documents: Mapping[str, Document]) -> None:
    sources = [documents[passage.span.doc_id].text for passage in question.passages]
    for text in question.must_contain:
        if not any(text in source for source in sources):
            raise GoldenSourceError(
                f"{question.query_id}: must_contain {text!r} is in none of its documents; quote it literally"
            )
