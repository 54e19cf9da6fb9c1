"""The example's system under evaluation: looks chunks up by words, and answers with their sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval_pipeline.demo.answers import document_years
from eval_pipeline.demo.chunks import Chunk
from eval_pipeline.demo.folders import build_folder_index, select_folders
from eval_pipeline.demo.retriever import Hit, Index, RetrieverSettings, build_index, search

FEWEST_HITS = 3


@dataclass(frozen=True)
class Engine:
    """The system as it stood in one night; `years` dates the documents that carry a date."""

    index: Index
    folder_index: Index | None
    years: Mapping[str, int]


@dataclass(frozen=True)
class Retrieval:
    """What was found, and in which folders it was looked for."""

    hits: tuple[Hit, ...]
    selected_folders: tuple[str, ...] | None


def build_engine(
    chunks: Sequence[Chunk],
    settings: RetrieverSettings,
    *,
    folder_mode: str,
    folders_by_text: bool,
    dated: Sequence[Chunk],
) -> Engine:
    """The system over these chunks; `dated`: those that may say of which year their document is."""
    folders = None
    if folder_mode != "off":
        folders = build_folder_index(chunks, settings, with_texts=folders_by_text)
    return Engine(build_index(chunks, settings), folders, document_years(dated))


def retrieve(engine: Engine, query: str, *, top_k: int, folder_mode: str) -> Retrieval:
    """The best chunks: of the best folders where the engine chooses folders."""
    if engine.folder_index is None:
        return Retrieval(search(engine.index, query, top_k=top_k), None)
    folders = select_folders(engine.folder_index, query)
    hits = search(engine.index, query, top_k=top_k, folders=folders)
    if folder_mode == "on_with_fallback" and len(hits) < FEWEST_HITS:
        hits = search(engine.index, query, top_k=top_k)
    return Retrieval(hits, tuple(folders))


def hit_row(hit: Hit, rank: int, *, with_text: bool) -> dict[str, Any]:
    """A hit as results list it."""
    chunk = hit.chunk
    row: dict[str, Any] = {
        "chunk_id": chunk.chunk_id,
        "doc_id": chunk.doc_id,
        "rank": rank,
        "score": hit.score,
        "rel_path": chunk.rel_path,
        "heading_path": chunk.heading_path,
        "source_spans": [{"start": span.start, "end": span.end} for span in chunk.source_spans],
    }
    return row | {"text": chunk.text} if with_text else row
