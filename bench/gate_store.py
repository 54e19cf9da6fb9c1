"""How the default gate decides over unchanged runs in one store, by `load`, `run` and `gate`.

    python -m bench.gate_store [--runs 100] [--queries 1000] [--churn 0.1] [--seed 1]

Every run answers the questions of the run before it, and a share of them (the churn) comes out anew, as likely good or
bad as before. The load of the machine differs from run to run. Each run is loaded, computed with all shipped
definitions, and gated against the run before it: no rules written, the drift rules included.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.gate_nights import UNANSWERABLE, VERDICTS, Night, a_night
from eval_pipeline.comparing.compare import compare
from eval_pipeline.comparing.documents import CompareReport, GateReport
from eval_pipeline.comparing.gate import gate
from eval_pipeline.computing.measure import measure
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.report.verdict import verdict_on
from eval_pipeline.settings import load_settings
from tests.projects import project_of

FIRST_NIGHT = dt.datetime(2026, 1, 1, 2)
HITS = 10
MACHINE_LOAD = 0.1


def chunk(query: int, number: int) -> dict[str, str]:
    """Chunk 0 answers the query; five others are of its document, the rest of documents nearby."""
    doc_id = f"d{query:04}" if number < 6 else f"x{query:04}-{number}"
    return {"chunk_id": f"{doc_id}-c{number}", "doc_id": doc_id}


def golden_rows(n: int) -> Iterator[dict[str, Any]]:
    for query in range(n):
        row: dict[str, Any] = {"query_id": f"q{query:04}", "query": f"What does note {query} say?"}
        if query < UNANSWERABLE * n:
            yield row | {"answerable": False, "expected_chunk_ids": [], "expected_doc_ids": []}
            continue
        expected = chunk(query, 0)
        yield row | {
            "expected_chunk_ids": [expected["chunk_id"]],
            "expected_doc_ids": [expected["doc_id"]],
            "must_contain": [f"fact {query:04}"],
        }


def result_rows(night: Night, random: np.random.Generator) -> Iterator[dict[str, Any]]:
    """The rows of a run, so that each metric depends on the rank and the tosses as in bench.gate_nights."""
    n = night.rank.size
    pace = float(np.exp(random.normal(0, MACHINE_LOAD)))
    times = np.exp(random.normal(6, 0.5, n)) * pace
    for query, (rank, tosses, total) in enumerate(zip(night.rank, night.tosses.T, times, strict=True)):
        is_unanswerable = query < UNANSWERABLE * n
        places = list(range(6, 6 + HITS))
        if rank <= HITS and not is_unanswerable:
            places[int(rank) - 1] = 0
        hits = [chunk(query, number) for number in places]
        is_right = rank <= 5 and tosses[1] < 0.9
        row: dict[str, Any] = {
            "query_id": f"q{query:04}",
            "hits_top_k": hits,
            "latency_ms": {"total": round(float(total), 1)},
        }
        if tosses[3] < 0.02:
            yield row | {"error": "timeout"}
            continue
        cited = hits[0]["chunk_id"] if tosses[2] < 0.9 else "unknown"
        grounded = bool(tosses[1] >= 0.7) if is_unanswerable else True
        answer = {
            "text": f"It says fact {query:04}." if is_right else "It says nothing.",
            "grounded": grounded,
            "citations": [{"citation": cited}] if grounded else [],
        }
        # A judge rates in whole numbers; most of what it rates is good.
        score = min(5, 1 + int(tosses[1] * 7))
        judge = {"groundedness": {"score": score}, "correctness": {"score": score}}
        yield row | {"answer": answer | {"abstained": not grounded}, "judge": judge}


def lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def write_bundle(folder: Path, number: int, night: Night, random: np.random.Generator) -> Path:
    if number == 0:
        lines(folder / "datasets/kb/queries.jsonl", golden_rows(night.rank.size))
        chunks = (chunk(query, place) for query in range(night.rank.size) for place in range(6 + HITS))
        lines(folder / "datasets/kb/inventories/window-1.jsonl", chunks)
    made_at = FIRST_NIGHT + dt.timedelta(days=number)
    judge = {"model": "simulated", "version": "1", "temperature": 0, "prompt_version": "1"}
    run = {
        "run_id": f"run-{number:03}",
        "dataset": "kb",
        "suite": "nightly",
        "created_at": made_at.isoformat() + "Z",
        "commit_hash": "1" * 40,
        "config": {"chunker_version": "window-1", "top_k": HITS, "judge": judge},
    }
    target = folder / "runs" / run["run_id"]
    lines(target / "results.jsonl", result_rows(night, random))
    (target / "run.json").write_text(json.dumps(run), "utf-8")
    return folder


def reports(
    folder: Path, *, runs: int, queries: int, churn: float, seed: int
) -> Iterator[tuple[GateReport, CompareReport]]:
    """The gate and the comparison of each run with the run before it."""
    random = np.random.default_rng(seed)
    settings = load_settings({}, db=folder / "eval.duckdb")
    project = project_of(replace(settings, config=folder / "eval-pipeline.toml"))
    night = a_night(random, queries)
    for number in range(runs + 1):
        if number:
            night = night.again(random, churn, 0.0)
        load_bundles([write_bundle(folder / f"bundle-{number}", number, night, random)], project)
        measure(project)
        if number:
            pair = f"run-{number - 1:03}", f"run-{number:03}"
            yield gate(project, pair[1], pair[0]), compare(project, *pair)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--churn", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    verdicts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    words: Counter[str] = Counter()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for report, comparison in reports(Path(folder), **vars(chosen)):
            verdicts[report.verdict] += 1
            words[verdict_on(comparison).word] += 1
            reasons.update(
                f"{rule.verdict}: {rule.metric} ({rule.kind})"
                for rule in report.not_passed
                if rule.required or rule.verdict == "fail"
            )
            if report.preconditions:
                print(f"{report.candidate}: {'; '.join(report.preconditions)}")
    print(f"{chosen.runs} unchanged runs of {chosen.queries:,} queries, {time.monotonic() - started:.0f} s")
    print("gate: " + ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in VERDICTS))
    print("compare: " + ", ".join(f"{n} {word}" for word, n in words.most_common()))
    for reason, n in reasons.most_common():
        print(f"{n:>6}  {reason}")


if __name__ == "__main__":
    main()
