"""Two ways of cutting a document into chunks.

Spans are half-open code point ranges of the document's text. A chunk's text is what its spans cover; where a chunk has
several spans, because it runs over a heading, they are joined by a line break.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType

from bench.demo.corpus import Document
from eval_pipeline.demo.chunks import Chunk, Span
from eval_pipeline.demo.words import count_words, word_spans

BY_HEADING = "heading-1"
BY_WINDOW = "window-1"
WINDOW_WORDS = 36
WINDOW_STEP = 32

_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*$")
_TRAILING_SIGNS = re.compile(r"[^\w\s]+")


@dataclass(frozen=True)
class Section:
    """A heading with what stands below it up to the next heading; `body_start` is behind the heading's line."""

    headings: tuple[str, ...]
    start: int
    body_start: int
    end: int


def sections(document: Document) -> list[Section]:
    """The document cut at its headings; a text without headings is one section."""
    starts = [(0, 0, ())] if document.doc_type != "markdown" else list(_headings(document.text))
    if not starts or starts[0][0] > 0:
        starts.insert(0, (0, 0, ()))
    ends = [start for start, _, _ in starts[1:]] + [len(document.text)]
    return [Section(path, start, body, end) for (start, body, path), end in zip(starts, ends, strict=True)]


def by_heading(document: Document) -> list[Chunk]:
    """One chunk for each heading that has text of its own, heading line included."""
    chunks = []
    for number, section in enumerate(sections(document), start=1):
        if not document.text[section.body_start : section.end].strip():
            continue
        end = section.start + len(document.text[section.start : section.end].rstrip())
        span = Span(document.doc_id, section.start, end)
        chunks.append(_chunk(document, section, chunk_id=f"{document.doc_id}#s{number}", spans=(span,)))
    return chunks


def by_window(document: Document, *, size: int = WINDOW_WORDS, step: int = WINDOW_STEP) -> list[Chunk]:
    """Windows of `size` words, one every `step` words, over the text without its heading lines."""
    placed = [
        (section, span) for section in sections(document) for span in _body_word_spans(document, section)
    ]
    chunks = []
    for number, first in enumerate(range(0, len(placed), step), start=1):
        window = placed[first : first + size]
        spans = tuple(_covering_spans(document, window))
        chunks.append(_chunk(document, window[0][0], chunk_id=f"{document.doc_id}@w{number}", spans=spans))
        if first + size >= len(placed):
            break
    return chunks


CHUNKERS: Mapping[str, Callable[[Document], list[Chunk]]] = MappingProxyType(
    {BY_HEADING: by_heading, BY_WINDOW: by_window}
)


def chunk_corpus(documents: Iterable[Document], chunker_version: str) -> tuple[Chunk, ...]:
    chunker = CHUNKERS[chunker_version]
    return tuple(chunk for document in documents for chunk in chunker(document))


def _headings(text: str) -> Iterable[tuple[int, int, tuple[str, ...]]]:
    """Start of each heading line, start of the line after it, headings from the top down."""
    path: list[tuple[int, str]] = []
    offset, in_code = 0, False
    for line in text.splitlines(keepends=True):
        in_code ^= line.startswith("```")
        match = None if in_code else _HEADING.match(line)
        if match:
            depth = len(match.group(1))
            path = [(level, title) for level, title in path if level < depth] + [(depth, match.group(2))]
            yield offset, offset + len(line), tuple(title for _, title in path)
        offset += len(line)


def _body_word_spans(document: Document, section: Section) -> Iterable[tuple[int, int]]:
    body = document.text[section.body_start : section.end]
    return ((section.body_start + start, section.body_start + end) for start, end in word_spans(body))


def _covering_spans(document: Document, window: list[tuple[Section, tuple[int, int]]]) -> Iterable[Span]:
    for section, group in groupby(window, key=lambda placed: placed[0]):
        spans = [span for _, span in group]
        trailing = _TRAILING_SIGNS.match(document.text, spans[-1][1], section.end)
        yield Span(document.doc_id, spans[0][0], trailing.end() if trailing else spans[-1][1])


def _chunk(document: Document, section: Section, *, chunk_id: str, spans: tuple[Span, ...]) -> Chunk:
    text = "\n".join(document.text[span.start : span.end] for span in spans)
    return Chunk(
        chunk_id=chunk_id,
        doc_id=document.doc_id,
        rel_path=document.rel_path,
        heading_path=" > ".join(section.headings),
        source_spans=spans,
        token_count=count_words(text),
        text=text,
    )
