"""One night's results: what each query found, what was answered, how long it took."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bench.demo.chunkers import BY_HEADING, chunk_corpus
from bench.demo.corpus import Document
from bench.demo.golden import Question
from bench.demo.judge import judge_row
from bench.demo.nights import Night
from eval_pipeline.demo.answers import Answer, answer_from, answer_row
from eval_pipeline.demo.chance import draw, draw_whole
from eval_pipeline.demo.chunks import Chunk
from eval_pipeline.demo.retriever import Hit
from eval_pipeline.demo.system import Engine, build_engine, hit_row, retrieve

TIMEOUT_MS = 30_000
SPOILED_CHUNK_ID = 17


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


def build_engine_of(documents: Sequence[Document], night: Night) -> Engine:
    """The system as it stood in this night."""
    return build_engine(
        embedded_chunks(documents, night),
        night.retriever,
        folder_mode=night.folder_mode,
        folders_by_text=night.folders_by_text,
        dated=chunk_corpus(documents, BY_HEADING),
    )


def result_rows(questions: Sequence[Question], engine: Engine, *, night: Night) -> list[dict[str, Any]]:
    """The night's results in the order of the golden set."""
    return [_result_row(question, engine, night=night) for question in questions]


def _result_row(question: Question, engine: Engine, *, night: Night) -> dict[str, Any]:
    failure = _failure(question, night)
    retrieval = retrieve(engine, question.query, top_k=night.top_k, folder_mode=night.folder_mode)
    hits = () if failure == "error" else _repeat_first(retrieval.hits, question, night=night)
    row: dict[str, Any] = {
        "query_id": question.query_id,
        "hits_top_k": [
            hit_row(hit, rank, with_text=night.keep_texts) for rank, hit in enumerate(hits, start=1)
        ],
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


def _repeat_first(hits: tuple[Hit, ...], question: Question, *, night: Night) -> tuple[Hit, ...]:
    """A retried write leaves a chunk in the index twice, so it comes back twice."""
    struck = draw("repeated", night.run_id, question.query_id) < night.trouble.repeated_hits
    return (hits[0], *hits)[: night.top_k] if struck and hits else hits


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
