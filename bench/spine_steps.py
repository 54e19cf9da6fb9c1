"""The steps of bench/spine.py, each in a process of its own: it prints its times and its peak memory as JSON."""

from __future__ import annotations

import datetime as dt
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from eval_pipeline.computing.aggregates import compute_aggregates
from eval_pipeline.computing.derived import compute, table_of
from eval_pipeline.computing.ledger import BATCH_RESULTS
from eval_pipeline.computing.measure import measure
from eval_pipeline.computing.scope import Scope, known_tables, point_views_at, visible_catalogue
from eval_pipeline.formulas.registry import Registry, load_registry
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.planning.status import find_status
from eval_pipeline.settings import Settings, load_settings
from eval_pipeline.store.open import Connection, first_value, transaction
from tests.projects import open_writer, project_of

RANK_FACTS = ("facts.found_chunks", "facts.chunk_ranks", "facts.document_ranks")
RANK_FORMULAS = ("metrics.hit_at_k", "metrics.reciprocal_rank", "metrics.recall_at_k_doc")
SPAN_TABLES = ("facts.repeated_hits", "facts.span_cover", "metrics.span_overlap")
RUN_METRICS = "aggregates.run_metrics"
PEER_RUNS = 5
KS = (1, 3, 5, 10)

Measured = dict[str, float]


@dataclass
class Stopwatch:
    """The best of several rounds for everything that was timed, by the clock and by the processors' time."""

    wall: Measured = field(default_factory=dict)
    cpu: Measured = field(default_factory=dict)

    def time(self, name: str, action: Callable[[], Any]) -> None:
        """Do it and keep the time when it is the best so far."""
        clock, spent = time.perf_counter(), _processor_seconds()
        action()
        wall, cpu = time.perf_counter() - clock, _processor_seconds() - spent
        self.wall[name] = min(wall, self.wall.get(name, wall))
        self.cpu[name] = min(cpu, self.cpu.get(name, cpu))

    def times(self) -> dict[str, Measured]:
        """Both clocks, to be printed."""
        return {"wall": self.wall, "cpu": self.cpu}


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def settings_in(folder: Path) -> Settings:
    """Settings of a store in this folder, whatever the environment says."""
    return replace(load_settings({}, db=folder / "e.duckdb"), config=folder / "none.toml")


def now() -> dt.datetime:
    """This moment, as the product takes it."""
    return dt.datetime.now(dt.UTC).replace(tzinfo=None)


def load(watch: Stopwatch, store: Path, *bundles: Path) -> None:
    """Take bundles in."""
    watch.time("load", lambda: load_bundles(bundles, project_of(settings_in(store), now=now())))


def measure_all(watch: Stopwatch, store: Path) -> None:
    """Every definition for every run."""
    settings = settings_in(store)
    registry = load_registry(settings)
    watch.time("measure", lambda: measure(project_of(settings, registry, now=now()), reasons=None))


def status(watch: Stopwatch, store: Path) -> None:
    """What `status` asks the ledger."""
    settings = settings_in(store)
    registry = load_registry(settings)
    for _ in range(3):
        watch.time("status", lambda: find_status(project_of(settings, registry)))


def one_more(watch: Stopwatch, store: Path, bundle: Path) -> None:
    """Load and score one run more."""
    settings = settings_in(store)
    registry = load_registry(settings)

    def nightly() -> None:
        load_bundles([bundle], project_of(settings, now=now()))
        measure(project_of(settings, registry, now=now()))

    watch.time("one more", nightly)


def passes(watch: Stopwatch, store: Path, bundle: Path, rounds: str) -> None:
    """From the hits to aggregates, definition by definition, and a peer; everything takes turns with the scans."""
    scratch = store / "passes"
    scratch.mkdir(exist_ok=True)
    shutil.copyfile(store / "e.duckdb", scratch / "e.duckdb")
    settings = settings_in(scratch)
    registry = load_registry(settings)
    peer = Peer(bundle)
    with computing(settings, registry) as (con, catalogue):
        scopes = batches_of(con, catalogue)
        for number in range(int(rounds)):
            _one_round(watch, con, catalogue, registry, scopes, is_first=number == 0)
            watch.time("peer", peer.run)
            watch.time("peer kernel", peer.evaluate)
    runs = sum(len(scope.run_keys) for scope in scopes)
    for clock in (watch.wall, watch.cpu):
        for name in ("peer", "peer kernel"):
            clock[f"{name}, all runs"] = clock[name] * runs / len(peer.folders)
    shutil.rmtree(scratch)


def span_passes(watch: Stopwatch, store: Path, rounds: str) -> None:
    """From the spans of hits to the span metrics, in turns with a scan of the spans."""
    scratch = store / "passes"
    scratch.mkdir(exist_ok=True)
    shutil.copyfile(store / "e.duckdb", scratch / "e.duckdb")
    settings = settings_in(scratch)
    registry = load_registry(settings)

    with computing(settings, registry) as (con, catalogue):
        scopes = batches_of(con, catalogue)
        known = known_tables(con, catalogue)

        def scan() -> None:
            con.execute(f'select count(*), sum(hash("start")) from "{catalogue}".raw.hit_spans').fetchall()

        def derive(name: str) -> None:
            definition = registry.definitions[name]
            for scope in scopes:
                point_views_at(con, catalogue, scope, definition.reads)
                with transaction(con):
                    compute(con, catalogue, definition, scope, known)

        for _ in range(int(rounds)):
            for name in SPAN_TABLES:
                watch.time("scan", scan)
                watch.time(name, partial(derive, name))
    shutil.rmtree(scratch)


@contextmanager
def computing(settings: Settings, registry: Registry) -> Iterator[tuple[Connection, str]]:
    with open_writer(settings.db) as con, visible_catalogue(con, registry.helpers.values()) as catalogue:
        yield con, catalogue


def batches_of(con: Connection, catalogue: str) -> list[Scope]:
    """All runs, in batches as large as the product takes."""
    rows = con.execute(
        f'select dataset_key, run_key from "{catalogue}".raw.runs order by dataset_key, run_key'
    ).fetchall()
    golden = first_value(
        con, f'select golden_key from "{catalogue}".labels.golden_sets where superseded_at is null'
    )
    results = first_value(con, f'select count(*) from "{catalogue}".raw.results')
    at_once = max(1, BATCH_RESULTS * len(rows) // max(results, 1))
    keys = [run_key for _, run_key in rows]
    return [
        Scope(rows[0][0], golden, keys[start : start + at_once]) for start in range(0, len(keys), at_once)
    ]


def _one_round(
    watch: Stopwatch,
    con: Connection,
    catalogue: str,
    registry: Registry,
    scopes: list[Scope],
    *,
    is_first: bool,
) -> None:
    known = known_tables(con, catalogue)

    def scan() -> None:
        con.execute(f'select count(*), sum(hash(chunk_key)) from "{catalogue}".raw.hits').fetchall()

    def derive(name: str) -> None:
        definition = registry.definitions[name]
        for scope in scopes:
            point_views_at(con, catalogue, scope, definition.reads)
            with transaction(con):
                compute(con, catalogue, definition, scope, known)

    def aggregate() -> None:
        for name in RANK_FORMULAS:
            formula = registry.definitions[name]
            for scope in scopes:
                point_views_at(con, catalogue, scope, ["labels.slices", name])
                with transaction(con):
                    compute_aggregates(con, catalogue, registry.definitions[RUN_METRICS], formula, scope)

    derived = ["facts.repeated_hits", *RANK_FACTS, *RANK_FORMULAS]
    for name in [*derived, *(["facts.retrieved_chunks"] if is_first else [])]:
        watch.time("scan", scan)
        watch.time(name, partial(derive, name))
    for _ in range(3):
        watch.time("metric scan", lambda: _scan_metrics(con, catalogue, registry))
    watch.time("aggregates", aggregate)
    con.execute(f'delete from "{catalogue}".aggregates.run_metrics')
    for name in derived:
        con.execute(f"drop table {table_of(registry.definitions[name], catalogue)}")


def _scan_metrics(con: Connection, catalogue: str, registry: Registry) -> None:
    """Every value of the rank formulas, read once."""
    for name in RANK_FORMULAS:
        definition = registry.definitions[name]
        sums = ", ".join(f'sum("{key}")' for key in definition.keys)
        con.execute(f"select {sums} from {table_of(definition, catalogue)}").fetchall()


class Peer:
    """pytrec_eval on some of the runs: the same rank metrics, for chunks and for documents."""

    def __init__(self, bundle: Path) -> None:
        import pytrec_eval

        self.folders = sorted((bundle / "runs").iterdir())[:PEER_RUNS]
        golden = next((bundle / "datasets").glob("*/queries.jsonl"))
        rows = [json.loads(line) for line in golden.open(encoding="utf-8")]
        cut_offs = ",".join(map(str, KS))
        self.chunks = pytrec_eval.RelevanceEvaluator(
            {row["query_id"]: dict.fromkeys(row["expected_chunk_ids"], 1) for row in rows},
            {f"success.{cut_offs}", "recip_rank"},
        )
        self.documents = pytrec_eval.RelevanceEvaluator(
            {row["query_id"]: dict.fromkeys(row["expected_doc_ids"], 1) for row in rows},
            {f"recall.{cut_offs}"},
        )
        self.read: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def run(self) -> None:
        """From the files: reading, dictionaries, evaluation."""
        self.read = [self._dictionaries(folder) for folder in self.folders]
        self.evaluate()

    def evaluate(self) -> None:
        """Evaluation alone."""
        for chunks, documents in self.read:
            self.chunks.evaluate(chunks)
            self.documents.evaluate(documents)

    def _dictionaries(self, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
        chunks: dict[str, dict[str, float]] = {}
        documents: dict[str, dict[str, float]] = {}
        with (folder / "results.jsonl").open(encoding="utf-8") as file:
            for line in file:
                row = json.loads(line)
                ranked = chunks[row["query_id"]] = {}
                best = documents[row["query_id"]] = {}
                for rank, hit in enumerate(row["hits_top_k"]):
                    ranked.setdefault(hit["chunk_id"], -float(rank))
                    best.setdefault(hit["doc_id"], -float(rank))
        return chunks, documents


def shell(watch: Stopwatch, store: Path, run_id: str) -> None:
    """Commands as people start them."""
    commands = {"help": ["--help"], "show": ["show", run_id, "--db", str(store / "e.duckdb")]}
    for _ in range(3):
        for name, arguments in commands.items():
            command = [sys.executable, "-m", "eval_pipeline", *arguments]
            watch.time(name, partial(subprocess.run, command, check=True, capture_output=True))


def peak_megabytes() -> float:
    """The most memory this process ever held; Linux counts a parent's in `ru_maxrss`, so ask the kernel's own page."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


STEPS: dict[str, Callable[..., None]] = {
    "load": load,
    "measure": measure_all,
    "status": status,
    "one more": one_more,
    "passes": passes,
    "span passes": span_passes,
    "shell": shell,
}


def main() -> None:
    """STEP, then its folders and options."""
    step, *rest = sys.argv[1:]
    watch = Stopwatch()
    arguments = [Path(argument) if "/" in argument else argument for argument in rest]
    STEPS[step](watch, *arguments)
    print(json.dumps({**watch.times(), "peak_mb": peak_megabytes()}))


if __name__ == "__main__":
    main()
