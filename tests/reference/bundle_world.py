"""Documents cut into chunks by several chunkers, and the archives that remember them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from .bundle_texts import ABSENT, HEADINGS, REL_PATHS, chance, fresh_id, pick, put, render_heading, sentence

Row = dict[str, Any]
ARCHIVED_VERSIONS = ("chunker-1", "chunker-2")
UNARCHIVED_VERSION = "chunker:3+b"
DOCUMENT_LENGTH = 400


@dataclass(frozen=True)
class Chunk:
    chunk_id: str
    doc_id: str
    rel_path: str
    heading: tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True)
class World:
    """What one dataset talks about: chunks per chunker version."""

    chunks: dict[str, list[Chunk]]

    @property
    def labelled(self) -> list[Chunk]:
        """The chunks the golden set was labelled with."""
        return self.chunks[ARCHIVED_VERSIONS[0]]


def random_world(rng: Random, *, documents: int, taken_ids: set[str]) -> World:
    chunks: dict[str, list[Chunk]] = {version: [] for version in (*ARCHIVED_VERSIONS, UNARCHIVED_VERSION)}
    taken_documents: set[str] = set()
    for _ in range(documents):
        doc_id = fresh_id(rng, "doc", taken_documents)
        rel_path = rng.choice(REL_PATHS)
        headings = {start: rng.choice(HEADINGS) for start in range(DOCUMENT_LENGTH + 1)}
        kept_ids: dict[tuple[int, int], str] = {}
        for version, own_chunks in chunks.items():
            for start, end in cuts(rng, version):
                # A piece that two chunkers cut alike often keeps its id, as content hashes do.
                chunk_id = kept_ids.get((start, end)) if chance(rng, 0.7) else None
                chunk_id = chunk_id or fresh_id(rng, "chunk", taken_ids)
                kept_ids.setdefault((start, end), chunk_id)
                own_chunks.append(Chunk(chunk_id, doc_id, rel_path, headings[start], start, end))
    return World(chunks)


def cuts(rng: Random, version: str) -> list[tuple[int, int]]:
    """Even cuts for the first chunker, uneven multiples of 25 for the others, so that halves are exact."""
    pieces, start = [], 0
    while start < DOCUMENT_LENGTH:
        size = 100 if version == ARCHIVED_VERSIONS[0] else rng.choice([25, 50, 100, 100, 150])
        pieces.append((start, min(start + size, DOCUMENT_LENGTH)))
        start += size
    return pieces


def cut_span(rng: Random, start: int, end: int) -> list[tuple[int, int]]:
    """One range, told as whole, touching, nested, overlapping, or with a span of no length."""
    middle = (start + end) // 2
    return list(
        pick(
            rng,
            (6, [(start, end)]),
            (1, [(start, middle), (middle, end)]),
            (1, [(middle, end), (start, middle)]),
            (1, [(start, end), (start, middle)]),
            (1, [(start, middle + 5 if middle + 5 < end else end), (middle, end)]),
            (1, [(start, start), (start, end)]),
            (1, [(start, end), (start, end)]),
        )
    )


def source_spans(rng: Random, chunk: Chunk) -> list[Row]:
    spans = []
    for start, end in cut_span(rng, chunk.start, chunk.end):
        span: Row = {"start": start, "end": end}
        put(span, "doc_id", pick(rng, (5, ABSENT), (1, None), (5, chunk.doc_id)))
        spans.append(span)
    return spans


def archive_line(rng: Random, chunk: Chunk) -> Row:
    line: Row = {"chunk_id": chunk.chunk_id, "doc_id": chunk.doc_id}
    put(line, "source_spans", pick(rng, (1, ABSENT), (1, []), (12, source_spans(rng, chunk))))
    put(line, "rel_path", pick(rng, (1, ABSENT), (5, chunk.rel_path)))
    put(line, "heading_path", render_heading(rng, chunk.heading))
    put(line, "token_count", pick(rng, (1, ABSENT), (3, rng.randint(1, 400))))
    put(line, "text", pick(rng, (1, ABSENT), (3, sentence(rng))))
    return line


def archive_of_worlds(rng: Random, worlds: Sequence[World], version: str) -> list[Row]:
    return [archive_line(rng, chunk) for world in worlds for chunk in world.chunks[version]]


def earlier_state(rng: Random, lines: Sequence[Row]) -> list[Row]:
    """What an archive might have been before: other spans, chunks not there yet, chunks gone since."""
    earlier = []
    for line in lines:
        if chance(rng, 0.2):
            continue
        changed = dict(line)
        if changed.get("source_spans") and chance(rng, 0.4):
            changed["source_spans"] = [{"start": 0, "end": rng.choice([25, 50, 400])}]
        earlier.append(changed)
    earlier += [
        {"chunk_id": f"gone {number}", "doc_id": "gone", "source_spans": [{"start": 0, "end": 10}]}
        for number in range(rng.randint(0, 2))
    ]
    return earlier


def random_archives(rng: Random, worlds: dict[str, World]) -> list[Row]:
    """`{"dataset_id", "chunker_version", "states"}`, oldest state first; no dataset id means shared.

    A dataset has archives of its own for every version, or shares them for every version, or has none.
    """
    holdings = {
        dataset_id: pick(rng, (6, "own"), (2, "shared"), (1, "none"), (1, "empty")) for dataset_id in worlds
    }
    shared_worlds = [
        worlds[dataset_id] for dataset_id, kind in holdings.items() if kind in ("shared", "none")
    ]
    archives: list[Row] = []
    if "shared" in holdings.values():
        archives += [random_archive(rng, None, shared_worlds, version) for version in ARCHIVED_VERSIONS]
    for dataset_id, kind in holdings.items():
        if kind == "own":
            archives += [
                random_archive(rng, dataset_id, [worlds[dataset_id]], version)
                for version in ARCHIVED_VERSIONS
            ]
        elif kind == "empty":
            archives += [
                {"dataset_id": dataset_id, "chunker_version": version, "states": [[]]}
                for version in ARCHIVED_VERSIONS
            ]
    return archives


def random_archive(rng: Random, dataset_id: str | None, worlds: Sequence[World], version: str) -> Row:
    newest = archive_of_worlds(rng, worlds, version)
    states = [newest]
    for _ in range(pick(rng, (3, 0), (2, 1), (1, 2))):
        states.insert(0, earlier_state(rng, newest))
    return {"dataset_id": dataset_id, "chunker_version": version, "states": states}
