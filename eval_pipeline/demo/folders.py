"""Choosing the folders to search in, as a step before retrieval."""

from __future__ import annotations

from collections.abc import Sequence

from eval_pipeline.demo.chunks import Chunk
from eval_pipeline.demo.retriever import Index, RetrieverSettings, build_index, search

MOST_FOLDERS = 3


def build_folder_index(chunks: Sequence[Chunk], settings: RetrieverSettings, *, with_texts: bool) -> Index:
    """One entry a folder: the headings below it, and on request the texts as well."""
    folders = sorted({_folder(chunk) for chunk in chunks})
    entries = [_folder_entry(folder, chunks, with_texts=with_texts) for folder in folders]
    return build_index(entries, settings)


def select_folders(index: Index, query: str) -> list[str]:
    """The best folders for a query, best first; none when no word of it is known to any."""
    return [hit.chunk.chunk_id for hit in search(index, query, top_k=MOST_FOLDERS)]


def _folder(chunk: Chunk) -> str:
    return chunk.rel_path.rpartition("/")[0]


def _folder_entry(folder: str, chunks: Sequence[Chunk], *, with_texts: bool) -> Chunk:
    inside = [chunk for chunk in chunks if _folder(chunk) == folder]
    headings = sorted({chunk.heading_path for chunk in inside})
    text = "\n".join([folder, *headings, *(chunk.text for chunk in inside if with_texts)])
    return Chunk(folder, folder, folder, "", (), 0, text)
