"""What lies beside a night's results: the run itself, the indexer's report, the judge's spot check."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from bench.demo.chunkers import chunk_corpus
from bench.demo.corpus import Document
from bench.demo.golden import Question
from bench.demo.nights import Night
from bench.demo.results import skip_reason
from eval_pipeline.demo.chance import draw, sample

DATASET = "handbook"
SUITE = "nightly"
_WORKERS = 4
_GOOD_ENOUGH = 3
# A scan without a text layer: the indexer meets it every night and gets nothing out of it.
_SCANNED_DRAWINGS = {"doc_id": "work/telescope/dome-drawings-1987", "doc_type": "pdf", "n_chunks": 0}


def run_row(night: Night, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`run.json` of a night."""
    spent = sum(row["latency_ms"]["total"] for row in rows)
    row = {
        "run_id": night.run_id,
        "dataset": DATASET,
        "suite": SUITE,
        "created_at": f"{night.date}T{night.started}Z",
        "night": night.date,
        "attempt": night.attempt,
        "replaces": night.replaces,
        "replicate_of": night.replicate_of,
        "commit_hash": _commit_hash(night),
        "suite_time_ms": 9_000 + spent // _WORKERS,
        "note": night.why,
        "config": _config(night),
    }
    return {key: value for key, value in row.items() if value is not None}


def index_report(documents: Sequence[Document], night: Night) -> dict[str, Any]:
    """What became of each document and of each chunk."""
    chunks = [(chunk, skip_reason(chunk, night)) for chunk in chunk_corpus(documents, night.chunker_version)]
    chunks_of = Counter(chunk.doc_id for chunk, _ in chunks)
    listed = [
        {"doc_id": document.doc_id, "doc_type": document.doc_type, "n_chunks": chunks_of[document.doc_id]}
        for document in documents
    ]
    return {
        "chunker_version": night.chunker_version,
        "embedding_model": night.embedding_model,
        "index_version": night.index_version,
        "docs": sorted([*listed, _SCANNED_DRAWINGS], key=lambda document: str(document["doc_id"])),
        "chunks": [
            {
                "doc_id": chunk.doc_id,
                "chunk_id": chunk.chunk_id,
                **({"status": "skipped", "skip_reason": reason} if reason else {"status": "embedded"}),
                "tokens": chunk.token_count,
            }
            for chunk, reason in chunks
        ],
    }


def spot_check_size(queries: int) -> int:
    """A tenth of the set, at least ten and at most twenty (A2.22)."""
    return min(queries, max(10, min(20, queries // 10)))


def spot_check_rows(
    questions: Sequence[Question],
    rows: Sequence[Mapping[str, Any]],
    *,
    night: Night,
    kind: str,
) -> list[dict[str, Any]]:
    """Correctness judged once more on a seeded sample of the judged queries."""
    asked = {question.query_id: question for question in questions}
    judged = {row["query_id"]: row["judge"]["correctness"] for row in rows if "judge" in row}
    chosen = sample(judged, spot_check_size(len(questions)), "spot check", night.run_id)
    return [
        {
            "query_id": query_id,
            "first": _verdict(judged[query_id]["score"]),
            "second": _verdict(
                _second_score(asked[query_id], judged[query_id]["score"], night=night, kind=kind)
            ),
            "kind": kind,
        }
        for query_id in chosen
    ]


def _verdict(score: int) -> dict[str, Any]:
    return {"score": score, "binary": score >= _GOOD_ENOUGH}


def _second_score(question: Question, first: int, *, night: Night, kind: str) -> int:
    """Another judge may be off by one or two; the unpinned judge of the first night is off more often."""
    chance = draw("second score", kind, night.run_id, question.query_id)
    far = 0.35 if night.judge.lenient else 0.08
    step = 2 if chance < far else 1 if chance < far + 0.25 else 0
    return first - step if first >= _GOOD_ENOUGH else first + step


def _config(night: Night) -> dict[str, Any]:
    return {
        "chunker_version": night.chunker_version,
        "embedding_model": night.embedding_model,
        "index_version": night.index_version,
        "prompt_version": night.prompt_version,
        "llm_model": "extractive-sentences-1",
        "top_k": night.top_k,
        "folder_mode": night.folder_mode,
        "judge": {
            "model": "simulated-judge",
            "version": night.judge.version,
            "temperature": 0,
            "prompt_version": night.judge.prompt_version,
        },
        "judge_price_per_1k": {"prompt": 0.0005, "completion": 0.0015},
    }


def _commit_hash(night: Night) -> str:
    """The same for nights that ran the same system."""
    system = (
        night.chunker_version,
        str(night.context_limit),
        night.embedding_model,
        night.prompt_version,
        str(night.top_k),
        night.folder_mode,
        str(night.folders_by_text),
    )
    return hashlib.sha256("\x1f".join(system).encode()).hexdigest()[:40]
