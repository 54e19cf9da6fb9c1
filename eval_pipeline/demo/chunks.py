"""Pieces of documents, as an index holds them and an archive lists them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Span:
    """A half-open range of code points of a document's text."""

    doc_id: str
    start: int
    end: int


@dataclass(frozen=True)
class Chunk:
    """A piece of a document; its text is what its spans cover."""

    chunk_id: str
    doc_id: str
    rel_path: str
    heading_path: str
    source_spans: tuple[Span, ...]
    token_count: int
    text: str


def read_archive(file: Path) -> tuple[Chunk, ...]:
    """The chunks that an archive of a bundle lists."""
    return tuple(_chunk(line) for line in file.read_text("utf-8").splitlines())


def _chunk(line: str) -> Chunk:
    row = json.loads(line)
    return Chunk(**row | {"source_spans": tuple(Span(**span) for span in row["source_spans"])})
