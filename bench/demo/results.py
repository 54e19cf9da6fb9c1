"""One night's results: what each query found, what was answered, how long it took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.demo.answers import Answer, answer_from, answer_row, document_years
from bench.demo.chance import draw, draw_whole
from bench.demo.chunkers import Chunk, chunk_corpus
from bench.demo.corpus import Document
from bench.demo.folders import build_folder_index, select_folders
from bench.demo.golden import Question
from bench.demo.judge import judge_row
from bench.demo.nights import Night
from bench.demo.retriever import Hit, Index, build_index, search

TIMEOUT_MS = 30_000
FEWEST_HITS = 3
SPOILED_CHUNK_ID = 17


@dataclass(frozen=True)
class Engine:
    """The system under evaluation as it stood in one night."""

    index: Index
    folder_index: Index | None
    years: Mapping[str, int]


@dataclass(frozen=True)
class Retrieval:
    hits: tuple[Hit, ...]
    selected_folders: tuple[str, ...] | None


def embedded_chunks(documents: Iterable[Document], night: Night) -> tuple[Chunk, ...]:
    """The chunks that made it into the night's index."""
    chunks = chunk_corpus(documents, night.chunker_version)
    return tuple(chunk for chunk in chunks if skip_reason(chunk, night) is None)


def skip_reason(chunk: Chunk, night: Night) -> str | None:
    if chunk.token_count > night.context_limit:
        return "context_limit"
    if any(chunk.rel_path.startswith(f"{folder}/") for folder in night.trouble.lost_folders):
        return "write_failed"
    return None


def build_engine(documents: Sequence[Document], night: Night) -> Engine:
    chunks = embedded_chunks(documents, night)
    folder_index = None
    if night.folder_mode != "off":
        folder_index = build_folder_index(chunks, night.retriever, with_texts=night.folders_by_text)
    return Engine(build_index(chunks, night.retriever), folder_index, document_years(documents))


def result_rows(questions: Sequence[Question], engine: Engine, *, night: Night) -> list[dict[str, Any]]:
    """The night's results in the order of the golden set."""
    return [_result_row(question, engine, night=night) for question in questions]


def _result_row(question: Question, engine: Engine, *, night: Night) -> dict[str, Any]:
    failure = _failure(question, night)
    retrieval = _retrieve(question, engine, night=night)
    hits = () if failure == "error" else _repeat_first(retrieval.hits, question, night=night)
    row: dict[str, Any] = {
        "query_id": question.query_id,
        "hits_top_k": [_hit_row(hit, rank, night=night) for rank, hit in enumerate(hits, start=1)],
        "folder_mode": night.folder_mode,
    }
    if retrieval.selected_folders is not None:
        row["selected_folders"] = list(retrieval.selected_folders)
    if question.query_id == night.trouble.spoiled_query:
        row["hits_top_k"][0]["chunk_id"] = SPOILED_CHUNK_ID
    row.update(_outcome(question, engine, night=night, hits=hits, failure=failure))
    row["latency_ms"] = _latency(question, night, failure=failure)
    return row


def _failure(question: Question, night: Night) -> str | None:
    """What strikes this query: error, timeout, empty, or nothing."""
    if question.query_id == night.trouble.spoiled_query:
        return None
    chance = draw("failure", night.run_id, question.query_id)
    for kind, share in (
        ("error", night.trouble.errors),
        ("timeout", night.trouble.timeouts),
        ("empty", night.trouble.empty_answers),
    ):
        if chance < share:
            return kind
        chance -= share
    return None


def _retrieve(question: Question, engine: Engine, *, night: Night) -> Retrieval:
    if engine.folder_index is None:
        return Retrieval(search(engine.index, question.query, top_k=night.top_k), None)
    folders = select_folders(engine.folder_index, question.query)
    hits = search(engine.index, question.query, top_k=night.top_k, folders=folders)
    if night.folder_mode == "on_with_fallback" and len(hits) < FEWEST_HITS:
        hits = search(engine.index, question.query, top_k=night.top_k)
    return Retrieval(hits, tuple(folders))


def _repeat_first(hits: tuple[Hit, ...], question: Question, *, night: Night) -> tuple[Hit, ...]:
    """A retried write leaves a chunk in the index twice, so it comes back twice."""
    struck = draw("repeated", night.run_id, question.query_id) < night.trouble.repeated_hits
    return (hits[0], *hits)[: night.top_k] if struck and hits else hits


def _hit_row(hit: Hit, rank: int, *, night: Night) -> dict[str, Any]:
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
    if night.keep_texts:
        row["text"] = chunk.text
    return row


def _outcome(
    question: Question, engine: Engine, *, night: Night, hits: tuple[Hit, ...], failure: str | None
) -> dict[str, Any]:
    if failure == "error":
        return {"error": "retrieval: connection to the index was reset"}
    if failure == "timeout":
        return {"error": f"generation: no answer within {TIMEOUT_MS} ms", "timed_out": True}
    answer = answer_from(
        engine.index, question.query, hits=hits, prompt_version=night.prompt_version, years=engine.years
    )
    row = answer_row(answer, prompt_version=night.prompt_version)
    if failure == "empty":
        return {"answer": {**row, "text": "", "citations": [], "references": []}}
    return {"answer": row, "judge": _judged(question, answer, hits=hits, night=night)}


def _judged(question: Question, answer: Answer, *, hits: tuple[Hit, ...], night: Night) -> dict[str, Any]:
    return judge_row(question, answer, hits=hits, settings=night.judge)


def _latency(question: Question, night: Night, *, failure: str | None) -> dict[str, int]:
    """Simulated milliseconds for each stage that ran, and their sum."""
    purpose = ("latency", night.run_id, question.query_id)
    slow = night.trouble.slowness
    stages: dict[str, int] = {}
    if night.folder_mode != "off":
        stages["folder_selection"] = int(slow * draw_whole(6, 22, "folder", *purpose))
    stages["retrieval"] = int(slow * draw_whole(14, 48, "retrieval", *purpose))
    if failure == "timeout":
        stages["generation"] = TIMEOUT_MS
    elif failure != "error":
        read = 40 * night.top_k
        stages["generation"] = int(slow * (read + draw_whole(380, 1600, "generation", *purpose)))
        if failure is None:
            stages["judge"] = int(slow * draw_whole(700, 1900, "judge", *purpose))
    return {"total": sum(stages.values()), **stages}
