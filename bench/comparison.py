"""How long comparing two stored runs takes: many queries, and few queries in a store of many runs.

    python bench/comparison.py [--queries 100000] [--runs 300] [--rounds 5] [--fallback]

First two runs of `--queries` queries: the whole comparison, from opening the store to the finished document, and
the peak memory of the process that did it. With `--fallback` the two runs have no
chunker version and are matched by document and span. Then two runs of 1,000 queries in a store that holds nothing
else against the same two in a store of `--runs` runs: they take turns, the best round of each counts.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path

from history import Shape, draw_questions, run_name, write_golden_set, write_runs

from eval_pipeline.comparing.compare import compare
from eval_pipeline.computing.measure import measure
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.settings import load_settings
from tests.projects import project_of


def build_store(folder, shape, runs, *, chunker=True):
    """A computed store of these runs of one history."""
    questions = draw_questions(shape)
    bundle = folder / "bundle"
    write_golden_set(bundle, shape, questions)
    write_runs(bundle, shape, questions, runs)
    for path in () if chunker else bundle.glob("runs/*/run.json"):
        document = json.loads(path.read_text("utf-8"))
        del document["config"]["chunker_version"]
        path.write_text(json.dumps(document), "utf-8")
    settings = load_settings({}, db=folder / "eval.duckdb")
    now = dt.datetime(2026, 1, 1)
    if not chunker:
        write_inventory(bundle)
    load_bundles([bundle], project_of(settings, now=now))
    measure(project_of(settings, load_registry(settings), now=now))
    return settings


def write_inventory(bundle):
    """Where every chunk of the history lies, so that expected chunks have spans."""
    lines = [
        json.dumps(
            {
                "chunk_id": f"d{document:04}-c{part}",
                "doc_id": f"d{document:04}",
                "source_spans": [{"start": 10_000 + part * 800, "end": 11_000 + part * 800}],
            }
        )
        for document in range(2_000)
        for part in range(8)
    ]
    target = bundle / "inventories"
    target.mkdir(parents=True)
    (target / "window-1.jsonl").write_text("\n".join(lines) + "\n", "utf-8")


def timed(settings, runs, rounds, answer):
    """Seconds of every round, and the peak memory of this process; called in a process of its own."""
    registry = load_registry(settings)
    before = peak_megabytes()
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        document = compare(project_of(settings, registry), *runs)
        seconds.append(time.perf_counter() - start)
    tested = sum(entry["n"] > 0 for entry in document["significance"].values())
    answer.put((seconds, before, peak_megabytes(), tested, document["counts"]))


def in_own_process(settings, runs, rounds):
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=timed, args=(settings, runs, rounds, answer))
    process.start()
    found = answer.get()
    process.join()
    return found


def peak_megabytes():
    # Linux counts in kilobytes, macOS in bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def many_queries(folder, options):
    spans = 1 if options.fallback else 0
    shape = Shape(runs=2, queries=options.queries, spans=spans)
    settings = build_store(folder, shape, range(2), chunker=not options.fallback)
    seconds, before, peak, tested, counts = in_own_process(
        settings, (run_name(0), run_name(1)), options.rounds
    )
    mode = "by document and span" if options.fallback else "by chunk id"
    print(f"two runs of {options.queries:,} queries, matched {mode}, {tested} metrics tested")
    print(
        f"  best {min(seconds):.2f} s, median {sorted(seconds)[len(seconds) // 2]:.2f} s of {options.rounds}"
    )
    print(f"  peak memory {peak:.0f} MB, {before:.0f} MB before the first comparison")
    print(f"  {counts}")


def many_runs(folder, options):
    shape = Shape(runs=options.runs, queries=1_000)
    last = (run_name(options.runs - 2), run_name(options.runs - 1))
    small = build_store(folder / "small", shape, range(options.runs - 2, options.runs))
    big = build_store(folder / "big", shape, range(options.runs))
    registry = load_registry(small)
    best = {"small": float("inf"), "big": float("inf")}
    for _ in range(options.rounds * 2):
        for name, settings in (("small", small), ("big", big)):
            start = time.perf_counter()
            compare(project_of(settings, registry), *last)
            best[name] = min(best[name], time.perf_counter() - start)
    print(f"two runs of 1,000 queries in a store of 2 and of {options.runs:,} runs")
    print(f"  {best['small']:.3f} s and {best['big']:.3f} s: {best['big'] / best['small']:.2f} ×")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--fallback", action="store_true")
    parser.add_argument("--only", choices=["queries", "runs"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.only != "runs":
            many_queries(Path(folder) / "queries", options)
        if options.only != "queries":
            many_runs(Path(folder), options)


if __name__ == "__main__":
    main()
