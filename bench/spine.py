"""The spine's speed and memory over a history, as ratios inside one run.

    python bench/spine.py [--runs 1000] [--queries 1000] [--rounds 3] [--work FOLDER]

Everything is measured against one scan of the hits in the same process, best of several rounds. Prints a table and
writes bench/results/spine.json.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from history import Shape, draw_questions, write_history, write_runs

from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.pipeline.load import load_bundles
from eval_pipeline.pipeline.measure import measure
from eval_pipeline.pipeline.status import find_status
from eval_pipeline.settings import Settings, load_settings
from eval_pipeline.store.connect import open_reader

RANK_FACTS = {"facts.found_chunks", "facts.chunk_ranks", "facts.document_ranks"}
RANK_FORMULAS = {"metrics.hit_at_k", "metrics.reciprocal_rank", "metrics.recall_at_k_doc"}
AGGREGATES = {f"aggregates.run_metrics:{name}" for name in RANK_FORMULAS}
SCAN = "select count(*), sum(hash(chunk_key)) from raw.hits"
METRIC_SCAN = """
select sum("hit@1" + "hit@3" + "hit@5" + "hit@10"), sum(mrr),
    sum("recall@1_doc" + "recall@3_doc" + "recall@5_doc" + "recall@10_doc")
from metrics.hit_at_k join metrics.reciprocal_rank using (run_key, query_key)
join metrics.recall_at_k_doc using (run_key, query_key)
"""


@dataclass(frozen=True)
class Row:
    """One line of the table; `goal` is None for what is only reported."""

    name: str
    value: float
    unit: str
    goal: float | None = None
    at_least: bool = False

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return ""
        met = self.value >= self.goal if self.at_least else self.value <= self.goal
        return "met" if met else "MISSED"


def now() -> dt.datetime:
    return dt.datetime.now(dt.UTC).replace(tzinfo=None)


def best(rounds: int, action: Callable[[], object]) -> float:
    """The quickest of several rounds, in seconds."""
    found = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        action()
        found = min(found, time.perf_counter() - started)
    return found


def settings_in(folder: Path) -> Settings:
    return load_settings(
        {"EVAL_PIPELINE_DB": str(folder / "e.duckdb"), "EVAL_PIPELINE_CONFIG": str(folder / "none.toml")}
    )


def in_child(action: str, *paths: Path) -> tuple[float, float]:
    """Seconds and peak memory in MB of one step in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", action, *map(str, paths)],
        check=True,
        capture_output=True,
        text=True,
    )
    seconds, megabytes = done.stdout.split()[-2:]
    return float(seconds), float(megabytes)


def child(action: str, paths: list[Path]) -> None:
    """What a child process does; it prints its seconds and its peak memory."""
    settings = settings_in(paths[0])
    started = time.perf_counter()
    if action == "load":
        load_bundles([paths[1]], settings, now=now())
    elif action == "measure":
        measure(settings, load_registry(settings), now=now(), reasons=None)
    elif action == "status":
        find_status(settings, load_registry(settings))
    elif action == "one more":
        load_bundles([paths[1]], settings, now=now())
        measure(settings, load_registry(settings), now=now())
    seconds = time.perf_counter() - started
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def scan_seconds(settings: Settings, rounds: int, sql: str = SCAN) -> float:
    with open_reader(settings.db) as con:
        return best(max(5, rounds), lambda: con.execute(sql).fetchall())


def forced(settings: Settings, definitions: set[str]) -> float:
    """Seconds to compute these definitions for every run, written."""
    return measure(
        settings, load_registry(settings), now=now(), reasons=None, definitions=definitions, force=True
    ).seconds


def pytrec_seconds(bundle: Path, runs: int) -> float:
    """A peer from end to end: reading the files, building its dictionaries, the same rank metrics; scaled to `runs`."""
    import pytrec_eval

    looked_at = sorted((bundle / "runs").iterdir())[: max(1, min(runs, 20))]
    golden = next((bundle / "datasets").iterdir()).glob("queries.*")
    started = time.perf_counter()
    qrels = {
        row["query_id"]: dict.fromkeys(row["expected_chunk_ids"], 1)
        for row in map(json.loads, next(golden).open(encoding="utf-8"))
        if row.get("expected_chunk_ids")
    }
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"success.1,5,10", "recip_rank", "recall.1,3,5,10"})
    for folder in looked_at:
        ranked = {
            row["query_id"]: {hit["chunk_id"]: -float(rank) for rank, hit in enumerate(row["hits_top_k"])}
            for row in map(json.loads, (folder / "results.jsonl").open(encoding="utf-8"))
        }
        evaluator.evaluate(ranked)
    return (time.perf_counter() - started) / len(looked_at) * runs


def one_more_run(work: Path, shape: Shape, runs: int) -> float:
    """Seconds to load and score one run more in a store that has this many."""
    small = work / f"store of {runs}"
    if not (small / "e.duckdb").exists():
        bundle = work / f"bundle of {runs}"
        write_history(bundle, Shape(**{**vars(shape), "runs": runs}))
        in_child("load", small, bundle)
        in_child("measure", small)
    found = float("inf")
    for number in range(3):
        extra = work / f"extra {runs} {number}"
        write_runs(extra, shape, draw_questions(shape), range(100_000 + number, 100_001 + number))
        found = min(found, in_child("one more", small, extra)[0])
    return found


def bench(work: Path, shape: Shape, rounds: int) -> list[Row]:
    bundle, store = work / "bundle", work / f"store of {shape.runs}"
    write_history(bundle, shape)
    hits = shape.runs * shape.queries * shape.hits
    load, load_memory = in_child("load", store, bundle)
    compute, compute_memory = in_child("measure", store)
    status, status_memory = in_child("status", store)
    settings = settings_in(store)
    scans, facts, formulas, sums, metric_scans = [], [], [], [], []
    for _ in range(rounds):
        scans.append(scan_seconds(settings, rounds))
        facts.append(forced(settings, RANK_FACTS))
        formulas.append(forced(settings, RANK_FORMULAS))
        metric_scans.append(scan_seconds(settings, rounds, METRIC_SCAN))
        sums.append(forced(settings, AGGREGATES))
    scan, bulk = min(scans), min(facts) + min(formulas)
    peer = pytrec_seconds(bundle, shape.runs)
    grown, young = one_more_run(work, shape, shape.runs), one_more_run(work, shape, 10)
    help_seconds = best(3, lambda: shell("--help"))
    first = sorted((bundle / "runs").iterdir())[0].name
    show = best(3, lambda: shell("show", first, "--json", "--db", str(work / "store of 10" / "e.duckdb")))
    return [
        Row("one scan of the hits", scan * 1000, "ms"),
        Row("raw hits to rank facts, in scans", min(facts) / scan, "×", 25),
        Row("rank formulas from facts, written, in scans", min(formulas) / scan, "×", 6),
        Row("aggregates with all slices, in metric scans", min(sums) / min(metric_scans), "×", 15),
        Row("load from JSON Lines, million hits a second", hits / load / 1e6, "M/s", 0.8, at_least=True),
        Row("all definitions over the history", compute, "s"),
        Row("peak memory of load", load_memory, "MB", 1500),
        Row("peak memory of computing", compute_memory, "MB", 1500),
        Row("peak memory of status", status_memory, "MB", 1500),
        Row("status", status, "s", 1),
        Row(f"one more run at {shape.runs:,} against at 10", grown / young, "×", 1.3),
        Row("pytrec_eval end to end, in bulk passes", peer / bulk, "×", 30, at_least=True),
        Row("eval-pipeline --help", help_seconds, "s", 0.3),
        Row("eval-pipeline show, small store", show, "s", 0.5),
    ]


def shell(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "eval_pipeline", *arguments], check=True, capture_output=True)


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], [Path(argument) for argument in sys.argv[3:]])
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--work", type=Path, help="Where to work; a temporary folder, removed afterwards, by default."
    )
    asked = parser.parse_args()
    work = asked.work or Path(tempfile.mkdtemp(prefix="eval-pipeline-bench-"))
    try:
        rows = bench(work, Shape(runs=asked.runs, queries=asked.queries), asked.rounds)
    finally:
        if asked.work is None:
            shutil.rmtree(work, ignore_errors=True)
    for row in rows:
        goal = "" if row.goal is None else f"{'≥' if row.at_least else '≤'} {row.goal:g}"
        print(f"{row.name:<46} {row.value:>9.2f} {row.unit:<4} {goal:>7} {row.verdict}")
    target = Path(__file__).parent / "results" / "spine.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(
        json.dumps([vars(row) | {"verdict": row.verdict} for row in rows], indent=2, ensure_ascii=False)
    )


if __name__ == "__main__":
    main()
