"""What Dagster costs around the computation: for each asset × partition, in bytes, over a long history, from the inbox.

    python -m bench.dagster_price [--runs 1000] [--more 10000] [--queries 20] [--against FOLDER] [--work FOLDER]
    python -m bench.dagster_price --only apply,backfill,inbox,change

Every figure is a ratio, or time of the processor, of processes of their own. The price of an asset × partition is the
difference between a range of all runs and of a tenth of them: what a command or a server needs to start is out of it.
`--against` is a checkout of another version: the same change of a formula is applied by it (`change`).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from bench.history import Shape, draw_questions, write_golden_set, write_runs
from eval_pipeline.computing.measure import measure
from eval_pipeline.launch import prepare_home, run_in_dagster, ui_environment
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.settings import Settings, load_settings
from eval_pipeline.store.project import project_of

ROOT = Path(__file__).resolve().parents[1]
FORMULA = "metrics.reciprocal_rank"
AGGREGATES = "aggregates.run_metrics"
# The aggregates have a cell per formula.
CHANGED = (FORMULA, f"{AGGREGATES}:{FORMULA}")
PATIENCE_SECONDS = 1_800
HISTORY_RUNS = 1_000
# Seldom, since the web server has to answer every look.
LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Spent:
    """What a step took."""

    wall: float
    cpu: float
    size: int
    cells: int


def place(folder: Path) -> Settings:
    """A project in a folder of its own."""
    found = load_settings({}, db=folder / "eval.duckdb")
    return replace(
        found,
        inbox=folder / "inbox",
        reports=folder / "reports",
        config=folder / "eval-pipeline.toml",
        dagster_home=folder / "dagster_home",
    )


def configure(settings: Settings, cutoff: int) -> None:
    """Another cut-off of the reciprocal rank: a constant of a formula is changed."""
    settings.config.write_text(f"[formulas.reciprocal_rank]\ncutoff = {cutoff}\n", "utf-8")


def fill(folder: Path, shape: Shape, *, everything: bool) -> Settings:
    """A loaded and computed store; of `everything`, or of what one formula needs."""
    settings = place(folder)
    settings.db.parent.mkdir(parents=True, exist_ok=True)
    questions = draw_questions(shape)
    write_golden_set(folder / "bundle", shape, questions)
    write_runs(folder / "bundle", shape, questions, range(shape.runs))
    configure(settings, 10)
    load_bundles([folder / "bundle"], project_of(settings))
    shutil.rmtree(folder / "bundle")
    measure(project_of(settings), reasons=None, definitions=None if everything else set(CHANGED))
    return settings


def size_of(home: Path) -> int:
    """Bytes of a home, but for what servers have not yet taken from their logs into the files."""
    paths = home.rglob("*") if home.exists() else ()
    return sum(path.stat().st_size for path in paths if path.is_file() and path.suffix != ".db-wal")


def materialized(home: Path) -> int:
    """How many partitions of assets a home shows, the delivered ones and comparisons among them."""
    with closing(sqlite3.connect(home / "history" / "runs" / "index.db")) as con:
        asked = "select count(*) from event_logs where dagster_event_type = 'ASSET_MATERIALIZATION'"
        return int(con.execute(asked).fetchone()[0])


def step(name: str, *arguments: object, of: Path = ROOT) -> Spent:
    """A step in a process of its own, with the package of a checkout."""
    environment = os.environ | {"PYTHONPATH": str(of), "PYTHONDONTWRITEBYTECODE": ""}
    # Without the folder of this file, in which names of Python's own library stand.
    command = [sys.executable, "-P", "-W", "ignore", str(Path(__file__).resolve()), f"--step={name}"]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=of,
    )
    return Spent(**json.loads(done.stdout.splitlines()[-1]))


def apply(folder: Path, cutoff: str, n_runs: str) -> Spent:
    """What `apply` does for a changed constant, over the newest runs (0: all)."""
    settings = place(folder)
    configure(settings, int(cutoff))
    before = size_of(settings.dagster_home)
    clock, spent = time.perf_counter(), time.process_time()
    run_ids = names(settings)[-int(n_runs) :] if int(n_runs) else None
    found = run_in_dagster(project_of(settings), reasons=None, run_ids=run_ids, definitions=set(CHANGED))
    wall, cpu = time.perf_counter() - clock, time.process_time() - spent
    return Spent(wall, cpu, size_of(settings.dagster_home) - before, found.n_cells)


def apply_all(folder: Path) -> Spent:
    """Everything of every run, through Dagster."""
    settings = place(folder)
    before = size_of(settings.dagster_home)
    clock, spent = time.perf_counter(), time.process_time()
    found = run_in_dagster(project_of(settings), reasons=None)
    wall, cpu = time.perf_counter() - clock, time.process_time() - spent
    return Spent(wall, cpu, size_of(settings.dagster_home) - before, found.n_cells)


STEPS: dict[str, Callable[..., Spent]] = {"apply": apply, "apply all": apply_all}


def names(settings: Settings) -> list[str]:
    """The runs, the oldest first."""
    with project_of(settings).read() as store:
        rows = store.con.execute("select run_id from raw.runs order by created_at, run_id").fetchall()
    return [run_id for (run_id,) in rows]


def priced(few: Spent, many: Spent) -> tuple[float, float]:
    """Milliseconds of the processor and by the clock of an asset × partition."""
    cells = many.cells - few.cells
    return 1000 * (many.cpu - few.cpu) / cells, 1000 * (many.wall - few.wall) / cells


def say(name: str, value: float, unit: str, goal: float | None = None) -> None:
    """A row of the table."""
    verdict = "" if goal is None else f"≤ {goal:g} {'met' if value <= goal else 'MISSED'}"
    print(f"{name:<62} {value:>9.2f} {unit:<4} {verdict}", flush=True)


def bench_apply(work: Path, shape: Shape, more: int) -> None:
    """The price in `apply`, its bytes, and how both grow."""
    folders = {n: work / f"runs-{n}" for n in (shape.runs, more) if n}
    few: dict[int, Spent] = {}
    all_: dict[int, Spent] = {}
    for n, folder in folders.items():
        fill(folder, replace(shape, runs=n), everything=False)
        step("apply", folder, 9, 0)
        few[n] = step("apply", folder, 8, n // 10)
        all_[n] = step("apply", folder, 7, 0)
    for n in folders:
        # The tenth was computed with the first change; the second one is all runs.
        cpu, wall = priced(few[n], all_[n])
        say(f"apply of a formula, an asset × partition of {n:,} runs: CPU", cpu, "ms", 1)
        say("  by the clock", wall, "ms", 2)
        say("  in Dagster's home", all_[n].size / all_[n].cells / 1000, "kB")
    if more:
        low, high = (all_[n].cpu / all_[n].cells for n in folders)
        say(f"{more:,} partitions, price in units of that of {shape.runs:,}: CPU", high / low, "", 1.3)
        say(f"apply of one changed constant, {more:,} runs in units of {shape.runs:,}: CPU",
            all_[more].cpu / all_[shape.runs].cpu, "", 1.1 * more / shape.runs)  # fmt: skip


def bench_everything(work: Path, shape: Shape) -> None:
    """Every table of every run: bytes, and what `compact --dagster` leaves."""
    from eval_pipeline.upkeep.compact_home import compact_home

    folder = work / "everything"
    settings = place(folder)
    settings.db.parent.mkdir(parents=True)
    questions = draw_questions(shape)
    write_golden_set(folder / "bundle", shape, questions)
    write_runs(folder / "bundle", shape, questions, range(shape.runs))
    configure(settings, 10)
    load_bundles([folder / "bundle"], project_of(settings))
    spent = step("apply all", folder)
    shown = materialized(settings.dagster_home)
    say(f"everything of {shape.runs:,} runs, in Dagster's home", spent.size / shown / 1000, "kB", 7)
    say("  an asset × partition, computing included: CPU", 1000 * spent.cpu / shown, "ms")
    asked = (
        "query S($k: AssetKeyInput!) { assetNodeOrError(assetKey: $k) "
        "{ ... on AssetNode { staleStatusByPartition } } }"
    )
    with served(settings) as server:
        before = time.perf_counter()
        server.ask(asked, k={"path": AGGREGATES.split(".")})
        say(
            "  its stale marks of run_metrics by partition, from the web server",
            time.perf_counter() - before,
            "s",
            3,
        )
    store = settings.db.stat().st_size
    say("  Dagster's home in units of the store", size_of(settings.dagster_home) / store, "")
    compact_home(settings.dagster_home, now=project_of(settings).clock(), days=0)
    say("  after `compact --dagster --days 0`", size_of(settings.dagster_home) / store, "", 2)


def bench_change(work: Path, shape: Shape, against: Path | None) -> None:
    """A formula changed over 1,000 runs × 1,000 queries, by this version and by another."""
    folder = work / "change"
    fill(folder, shape, everything=False)
    found: dict[Path, Spent] = {}
    for checkout in (against, ROOT) if against else (ROOT,):
        own = Path(shutil.copytree(folder, work / f"change-{len(found)}"))
        step("apply", own, 9, 0, of=checkout)
        found[checkout] = step("apply", own, 8, 0, of=checkout)
    say(f"a formula changed over {shape.runs:,} runs × {shape.queries:,} queries: CPU", found[ROOT].cpu, "s")
    say("  by the clock", found[ROOT].wall, "s")
    if against:
        say("  in units of the other version: CPU", found[ROOT].cpu / found[against].cpu, "", 0.5)
        say("  by the clock", found[ROOT].wall / found[against].wall, "", 0.5)


def bench_backfill(work: Path, shape: Shape) -> None:
    """The same price in backfills of the web interface, asked for over GraphQL."""
    folder = work / "backfill"
    settings = fill(folder, shape, everything=False)
    step("apply", folder, 9, 0)
    configure(settings, 8)
    with served(settings) as server:
        server.stop_sensors()
        server.settle()
        server.backfill(names(settings)[:1])
        spent = [server.backfill(names(settings)[:n]) for n in (shape.runs // 10, shape.runs)]
    cpu, wall = priced(*spent)
    say(f"backfill of the web interface, an asset × partition of {shape.runs:,} runs: CPU", cpu, "ms", 1)
    say("  by the clock, from its request to its end", wall, "ms", 2)
    say("  in Dagster's home", spent[1].size / spent[1].cells / 1000, "kB")


def bench_inbox(work: Path, shape: Shape) -> None:
    """From a folder in the inbox to its page and its comparison's."""
    folder = work / "inbox"
    settings = fill(folder, replace(shape, runs=2), everything=True)
    questions = draw_questions(shape)
    write_runs(folder / "next", shape, questions, range(2, 3))
    settings.inbox.mkdir()
    with served(settings) as server:
        server.settle()
        before = time.perf_counter()
        (folder / "next").rename(settings.inbox / "next")
        server.wait(
            lambda: any("run-00001..run-00002" in path.name for path in settings.reports.glob("*.html"))
        )
        say("from the inbox to computed, compared and published", time.perf_counter() - before, "s", 30)


def _is_of_a_run(process: psutil.Process) -> bool:
    try:
        return "spawn_main" in " ".join(process.cmdline())
    except psutil.ZombieProcess:
        # Its time is not yet that of its parent.
        return True
    except psutil.NoSuchProcess:
        return False


@dataclass
class Server:
    """Dagster's servers on a project."""

    settings: Settings
    address: str
    process: subprocess.Popen[bytes]

    def ask(self, query: str, **variables: object) -> dict[str, object]:
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(self.address, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return json.load(answer)

    def wait(self, condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
        until = time.monotonic() + seconds
        while not condition():
            if self.process.poll() is not None or time.monotonic() > until:
                raise SystemExit("the servers ended, or it took too long")
            time.sleep(LOOK_SECONDS)

    def is_up(self) -> bool:
        try:
            answer = self.ask("{ repositoriesOrError { ... on RepositoryConnection { nodes { name } } } }")
        except OSError:
            return False
        return bool(answer.get("data", {}).get("repositoriesOrError", {}).get("nodes"))

    def settle(self) -> None:
        """Until nothing is under way that was there to be done before."""
        still = 0

        def is_settled() -> bool:
            nonlocal still
            asked = (
                "{ runsOrError(filter: {statuses: [QUEUED, STARTING, STARTED]}) { ... on Runs { count } } }"
            )
            under_way = self.ask(asked)["data"]["runsOrError"]["count"]
            still = 0 if under_way else still + 1
            return still > 20

        self.wait(is_settled)

    def has_no_run(self) -> bool:
        """Whether no process of a run is left; what Python keeps beside them may stay."""
        return not any(map(_is_of_a_run, psutil.Process(self.process.pid).children(recursive=True)))

    def stop_sensors(self) -> None:
        """Nothing but what is asked for."""
        asked = '{ sensorsOrError(repositorySelector: {repositoryName: "__repository__", ' + (
            'repositoryLocationName: "eval_pipeline.definitions"}) '
            "{ ... on Sensors { results { sensorState { id } } } } }"
        )
        stop = "mutation S($i: String!) { stopSensor(id: $i) { ... on PythonError { message } } }"
        for one in self.ask(asked)["data"]["sensorsOrError"]["results"]:
            self.ask(stop, i=one["sensorState"]["id"])

    def spent(self) -> float:
        """Seconds of the processor of all of them, and of what they have started and is over."""
        processes = [psutil.Process(self.process.pid)]
        processes += processes[0].children(recursive=True)
        times = [one.cpu_times() for one in processes]
        return sum(one.user + one.system + one.children_user + one.children_system for one in times)

    def backfill(self, partitions: list[str]) -> Spent:
        keys = [{"path": name.split(".")} for name in (FORMULA, AGGREGATES)]
        size, cpu, clock = size_of(self.settings.dagster_home), self.spent(), time.perf_counter()
        launched = self.ask(
            "mutation L($p: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $p) "
            "{ ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }",
            p={
                "assetSelection": keys,
                "partitionNames": partitions,
                "fromFailure": False,
                "allPartitions": False,
            },
        )
        backfill = launched["data"]["launchPartitionBackfill"]["backfillId"]
        asked = (
            "query B($i: String!) { partitionBackfillOrError(backfillId: $i) "
            "{ ... on PartitionBackfill { status } } }"
        )

        def is_over() -> bool:
            status = self.ask(asked, i=backfill)["data"]["partitionBackfillOrError"]["status"]
            if "FAIL" in status:
                raise SystemExit(f"the backfill {status}")
            return status == "COMPLETED_SUCCESS"

        self.wait(is_over)
        wall = time.perf_counter() - clock
        # What a run has spent counts once its process is gone.
        self.wait(self.has_no_run)
        return Spent(
            wall,
            self.spent() - cpu,
            size_of(self.settings.dagster_home) - size,
            len(keys) * len(partitions),
        )


@contextmanager
def served(settings: Settings) -> Iterator[Server]:
    """Dagster's servers as `serve` keeps them running; ended by their group."""
    prepare_home(settings)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = ui_environment(
        settings, os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""}
    )
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "eval_pipeline",
        "serve",
        "--port",
        str(port),
        "--health-port",
        "0",
    ]
    log = settings.db.parent / "servers.log"
    with log.open("wb") as told:
        process = subprocess.Popen(command, env=environment, cwd=settings.db.parent, stdout=told, stderr=told)
    server = Server(settings, f"http://127.0.0.1:{port}/graphql", process)
    try:
        server.wait(server.is_up)
        yield server
    finally:
        started = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        _, alive = psutil.wait_procs([psutil.Process(process.pid), *started], timeout=20)
        for one in alive:
            one.kill()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=HISTORY_RUNS)
    parser.add_argument("--more", type=int, default=10_000, help="the longer history of `apply`; 0 for none")
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--only", default="apply,everything,backfill,inbox,change")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs="*", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.step:
        folder, *others = asked.arguments
        print(json.dumps(vars(STEPS[asked.step](Path(folder), *others))))
        return
    shape = Shape(runs=asked.runs, queries=asked.queries)
    work = (asked.work or Path(tempfile.mkdtemp(prefix="eval-pipeline-bench-"))).resolve()
    benches = {
        "apply": lambda: bench_apply(work, shape, asked.more),
        "everything": lambda: bench_everything(work, shape),
        "backfill": lambda: bench_backfill(work, shape),
        "inbox": lambda: bench_inbox(work, replace(shape, runs=3)),
        "change": lambda: bench_change(work, shape, asked.against),
    }
    try:
        for name in asked.only.split(","):
            benches[name]()
    finally:
        if not asked.work:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
