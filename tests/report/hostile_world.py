"""A small evaluation whose texts and ids try to break out of a page."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_pipeline.computing.measure import measure
from eval_pipeline.formulas.registry import Registry, load_registry
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.settings import Settings, load_settings
from tests.projects import project_of

NOW = dt.datetime(2026, 10, 1, 12)

HOSTILE = {
    "script": "<script>window.hacked = 1</script>",
    "closing": '</script><img src=x onerror="window.hacked=2">',
    "quotes": "\"double\" 'single' `back` & &amp; <b>bold</b>",
    "hebrew": "מה שלום הכיפה?",
    "override": "abc\u202edef\u202c",
    "controls": "bell \x07 escape \x1b[31m",
    "template": "${window.hacked=3} {{7*7}} </textarea></style>",
    "comment": "<!-- a comment --> ]]> <svg/onload=alert(1)>",
}


@dataclass(frozen=True)
class World:
    """A store with what belongs to it."""

    folder: Path
    settings: Settings
    registry: Registry


def build_world(folder: Path) -> World:
    """Two nights of one chunker, one of another, a broken attempt before its retry; every part of a run is there."""
    bundle = folder / "bundle"
    _write_lines(bundle / "datasets/attic/queries.jsonl", _golden())
    _write_lines(bundle / "datasets/attic/inventories/v1.jsonl", _archive("", 0))
    _write_lines(bundle / "datasets/attic/inventories/v2.jsonl", _archive("-v2", 5))
    _write_run(bundle, "run-a", night="2026-09-01", shift=0)
    _write_run(bundle, "run-b", night="2026-09-02", shift=1, with_parts=True)
    _write_run(bundle, "run-c", night="2026-09-03", shift=0, chunker="v2", suffix="-v2")
    _write_run(bundle, "run-d-broken", night="2026-09-04", shift=3, leave_out=4, attempt=1)
    _write_run(bundle, "run-d", night="2026-09-04", shift=1, attempt=2, replaces="run-d-broken")
    (folder / "eval-pipeline.toml").touch()
    (folder / "sql").mkdir(exist_ok=True)
    settings = load_settings(
        {
            "EVAL_PIPELINE_DB": str(folder / "e.duckdb"),
            "EVAL_PIPELINE_CONFIG": str(folder / "eval-pipeline.toml"),
            "EVAL_PIPELINE_REPORTS": str(folder / "reports"),
            "EVAL_PIPELINE_SQL": str(folder / "sql"),
        }
    )
    registry = load_registry(settings)
    load_bundles([bundle], project_of(settings, now=NOW))
    measure(project_of(settings, registry, now=NOW))
    return World(folder, settings, registry)


def question_of(number: int) -> str:
    """Every question carries one of the hostile texts."""
    return f"{list(HOSTILE.values())[number % len(HOSTILE)]} question {number}"


def query_id_of(number: int) -> str:
    """Ids are hostile too; control characters are allowed in them."""
    return f"q{number} {list(HOSTILE.values())[number % len(HOSTILE)]}"


def _golden() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for number in range(16):
        rows.append(
            {
                "query_id": query_id_of(number),
                "query": question_of(number),
                "expected_chunk_ids": [f"c{number}"] if number < 14 else None,
                "expected_doc_ids": [f"d{number}"] if number < 14 else [],
                "expected_chunk_spans": {f"c{number}": [{"doc_id": f"d{number}", "start": 0, "end": 100}]}
                if number < 14
                else None,
                "must_contain": ["yes"],
                "category": "factual" if number % 2 else HOSTILE["script"],
                "difficulty": ("easy", "medium", "hard")[number % 3],
                "tags": [f"tag {HOSTILE['quotes']}", f"tag {number % 4}"],
            }
        )
    return rows


def _archive(suffix: str, offset: int) -> list[dict[str, Any]]:
    return [
        {
            "chunk_id": f"c{number}{suffix}",
            "doc_id": f"d{number}",
            "source_spans": [{"start": offset, "end": 100 + offset}],
            "text": f"archived {number} {HOSTILE['closing']}",
        }
        for number in range(20)
    ]


def _write_run(
    bundle: Path,
    run_id: str,
    *,
    night: str,
    shift: int,
    chunker: str = "v1",
    suffix: str = "",
    leave_out: int = 0,
    with_parts: bool = False,
    attempt: int = 1,
    replaces: str | None = None,
) -> None:
    folder = bundle / "runs" / run_id
    _write_lines(
        folder / "results.jsonl", [_result(n, shift, suffix) for n in range(16 - leave_out)] + _unknown(shift)
    )
    if with_parts:
        _write_parts(folder)
    config = {
        "chunker_version": chunker,
        "embedding_model": HOSTILE["quotes"],
        "judge": {"model": "judge", "version": "latest", "temperature": 0, "prompt_version": "p"},
    }
    run = {
        "run_id": run_id,
        "dataset": "attic",
        "suite": "nights",
        "night": night,
        "created_at": f"{night}T0{attempt}:00:00Z",
        "attempt": attempt,
        "replaces": replaces,
        "commit_hash": HOSTILE["script"],
        "config": config,
    }
    (folder / "run.json").write_text(json.dumps(run), "utf-8")


def _result(number: int, shift: int, suffix: str) -> dict[str, Any]:
    """The expected chunk stands behind a few others; every fifth is not found, every seventh fails."""
    others = (number * (1 + shift)) % 5
    places = [17, 18, 19, 15, 16][:others] + ([number] if (number + shift) % 5 else [])
    hits = [
        {
            "chunk_id": f"c{place}{suffix}",
            "doc_id": f"d{place}",
            "text": f"hit {place} {HOSTILE['closing']}",
            "source_spans": [{"start": 0, "end": 100}],
        }
        for place in places
    ]
    return {
        "query_id": query_id_of(number),
        "hits_top_k": hits,
        "answer": {"text": f"yes {HOSTILE['script']}", "grounded": True},
        "error": HOSTILE["closing"] if (number + shift) % 7 == 6 else None,
        "latency_ms": {"total": 100 + 37 * number, "retrieval": 10 + number, "generation": 60 + 30 * number},
        "judge": {
            "groundedness": {"score": 5, "unsupported_claims": ["one"] if number == 2 else []},
            "correctness": {"score": number % 6},
            "tokens": {"prompt": 10, "completion": 5},
        },
    }


def _unknown(shift: int) -> list[dict[str, Any]]:
    return [{"query_id": "nobody knows <me>", "hits_top_k": []}] if shift == 1 else []


def _write_parts(folder: Path) -> None:
    wanted = {"rooms": 3, "<b>heat</b>": "gas"}
    cases = [
        {"case_id": "right", "ground_truth": wanted, "extracted": wanted},
        {"case_id": "wrong", "ground_truth": wanted, "extracted": {"rooms": 4, "<b>heat</b>": "gas"}},
        {"case_id": "short", "ground_truth": wanted, "extracted": {"rooms": 3, "extra": 1}},
        {"case_id": "crashed <i>", "ground_truth": wanted, "error": "no"},
    ]
    _write_lines(folder / "extractions.jsonl", cases)
    report = {
        "chunker_version": "v1",
        "docs": [{"doc_id": "d1", "doc_type": "pdf", "n_chunks": 0}, {"doc_id": "d2", "n_chunks": 2}],
        "chunks": [
            {"doc_id": "d2", "chunk_id": "c2", "status": "embedded", "tokens": 40},
            {
                "doc_id": "d2",
                "chunk_id": "c3",
                "status": "skipped",
                "skip_reason": "<too long>",
                "tokens": 900,
            },
        ],
    }
    (folder / "index_report.json").write_text(json.dumps(report), "utf-8")
    checks = [
        {"query_id": query_id_of(n), "first": {"score": 5}, "second": {"score": 2 if n < 3 else 5}}
        for n in range(8)
    ]
    _write_lines(folder / "judge_spot_check.jsonl", checks)


def _write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
