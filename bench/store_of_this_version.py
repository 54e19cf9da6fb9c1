"""A small store as the installed version writes it, packed for the tests of later versions.

    python bench/store_of_this_version.py [--to tests/stores]

The `eval-pipeline` next to this Python does everything, as a user would: deliveries, a redelivery, a corrected label,
custom formulas in SQL and Python, one of them changed with older runs pinned, an eval-pipeline.toml with every key, an
edited dagster.yaml, the schedule `nightly` switched on, stored comparisons, a gate, forgotten texts. The output of its
commands goes into `expected.json`, and everything into one archive named after the version.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from small_history import write_bundles  # noqa: E402

PROGRAM = Path(sys.executable).with_name("eval-pipeline")
LATER = "deliveries/6-later"
RUNS = ("monday", "tuesday", "wednesday", "probe")
MOST_BYTES = 1_000_000
# What another call says otherwise.
UNSTEADY = {"estimated_seconds"}
# Every table and every key that this version knows.
CONFIG = """\
[formulas.reciprocal_rank]
cutoff = 10

[formulas.mrr_at_5]
reading_of = "reciprocal_rank"
cutoff = 5

[datasets.shop]
relevant_from = 1
labels = "complete"
extraction_cases = 4

[datasets.faq]
formulas = ["failures", "latency", "answer_strings"]

[comparison]
compare_k = 10
rank_change = "separate"
regression_kind = "flag"
overlap_basis = "min"
overlap_threshold = 0.5
delta_scope = "own"

[gate]
evidence = "test"
on_inconclusive = "warn"
presence = 0.98
drift_nights = 14

[gate.rules."hit@5"]
margin = 0.05
direction = "higher"
minimum_n = 5
slices = ["category"]
required = false

[gate.rules.mrr]
at_least = 0.2

[gate.rules.error_rate]
at_most = 0.5

[baselines]
nightly = "monday"

[load]
inverted_spans = "error"

[scores.tone]
direction = "higher"
range = [0, 1]
labels = {good = 1, bad = 0}
unit = "points"

[dagster]
nightly = "02:30"
timezone = "Europe/Berlin"
fresh_within_hours = 30
webhook = "env:EVAL_WEBHOOK"
stale_metrics = "launch"
stale_metrics_seconds = 60
stale_metrics_most_seconds = 600

[targets.shop]
kind = "http"
url = "http://127.0.0.1:8765/ask"
headers = {Authorization = "Bearer ${SHOP_TOKEN}"}
body = {question = "{query}"}
answer = {text = "/answer", hits = {each = "/sources", chunk_id = "/id"}}
started_by = "python -m shop"
identity = "shop"
config = {chunker_version = "by-heading", top_k = 5}
concurrency = 4
timeout_s = 30
attempts = 2
max_wait_s = 60
requests_per_minute = 600
tokens_per_minute = 100000
most_bytes = 1048576

[targets.local]
kind = "python"
call = "shop:ask"
workers = 2

[targets.program]
kind = "command"
argv = ["./ask"]

[judges.words]
kind = "lexical-baseline"
asks = ["groundedness", "correctness", "abstention", "conflict"]

[judges.model]
kind = "openai"
base_url = "http://127.0.0.1:8766/v1"
api_key = "${JUDGE_KEY}"
headers = {X-Team = "search"}
model = "judge"
version = "2026-08-01"
season = "2026-q3"
asks = ["groundedness", "correctness"]
structured = "auto"
max_tokens = 500
price_per_1m = {prompt = 0.5, completion = 1.5}
identity = "judge"

[suites.live]
dataset = "shop"
target = "shop"
judges = ["words"]
at = "03:00"
timezone = "Europe/Berlin"
repeats = 1
limit = 5
budget_usd = 1.0
spot_check = {judge = "model", n = 2}
canary = {n = 2, alarm = 0.2}
"""
OWN_FORMULA = """\
-- keys: {"all_found@${k}": "Whether every expected chunk is among the first ${k} hits"}
-- version: 1
-- parameters: {ks: [5, 10]}
-- applies: n_expected > 0
-- scale: binary
-- range: [0, 1]
-- direction: higher
-- aggregate: mean
-- examples:
--   - {expected_chunk_ids: [a, b], hits: [a, x, b]} => {"all_found@5": 1}
--   - {expected_chunk_ids: []} => {"all_found@5": null}
select
    run_key,
    query_key,
    cast(count_within(found_ranks, $k) = n_expected as double) as "all_found@$k",
from facts.chunk_ranks
"""
PYTHON_FORMULA = '''\
import polars as pl

from eval_pipeline.formulas.decorator import formula


@formula(
    reads={"facts.outcomes": ["run_key", "query_key", "n_hits"]},
    keys={"n_retrieved": "How many hits came back"},
    version=1,
    applies="n_hits >= 0",
    scale="count",
    range=[0, None],
    direction="none",
    aggregate="mean",
    examples=["{hits: [a, b]} => {n_retrieved: 2}"],
)
def n_retrieved(outcomes: pl.DataFrame) -> pl.DataFrame:
    """Count the hits of each result."""
    return outcomes.select("run_key", "query_key", pl.col("n_hits").cast(pl.Float64).alias("n_retrieved"))
'''
WORKSPACE = "load_from:\n  - python_module: eval_pipeline.definitions\n"
# A changed value, a new key and a comment: later versions must leave them alone.
DAGSTER_EDITS = (
    ("python_log_level: INFO", "python_log_level: WARNING"),
    ("start_timeout_seconds: 180", "# The cluster is slow in the morning.\n  start_timeout_seconds: 240"),
    ("telemetry:\n", "concurrency:\n  runs:\n    max_concurrent_runs: 2\ntelemetry:\n"),
)

Question = dict[str, Any]


def main() -> None:
    options = parser().parse_args()
    version = called(Path.cwd(), "--version").stdout.split()[-1]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        expected = {"version": version, **write_store(work / "store")}
        (work / "expected.json").write_text(json.dumps(expected, ensure_ascii=False, indent=1), "utf-8")
        target = pack(work, Path(options.to) / f"{version}.tar.xz")
    size = target.stat().st_size
    print(f"{target}: {size:,} bytes")
    if size > MOST_BYTES:
        raise SystemExit(f"more than {MOST_BYTES:,} bytes: too much to keep one of every version")


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--to", default=HERE.parent / "tests" / "stores", help="Where the archive is put.")
    return found


def write_store(store: Path) -> dict[str, list[Question]]:
    """The store, and what it says: as it is, with one more run, and made anew from its deliveries."""
    before_labels = write_history(store)
    every_run = questions_about(*RUNS)
    asked = [*every_run, ["status"], *questions(before_labels)]
    said = ask(store, asked)
    later = [*questions_about("thursday"), ["compare", "wednesday", "thursday"], ["status"]]
    found = {
        "as_it_is": said,
        "with_one_more_run": ask_changed(store, ["load", LATER], ["run"], asked=later),
        "made_anew": ask_changed(store, ["rebuild", "--yes"], ["run"], asked=[*every_run, ["status"]]),
    }
    if ask(store, asked) != said:
        raise SystemExit("the store says something else when it is asked again: see UNSTEADY")
    return found


def write_history(store: Path) -> str:
    """Everything that happened to it, in order; returns the time just before the labels were corrected."""
    write_bundles(store / "deliveries")
    formula = store / "sql" / "metrics" / "all_found_at_k.sql"
    formula.parent.mkdir(parents=True)
    formula.write_text(OWN_FORMULA, "utf-8")
    (store / "eval-pipeline.toml").write_text(CONFIG, "utf-8")
    formula.with_name("n_retrieved.py").write_text(PYTHON_FORMULA, "utf-8")
    do(store, "load", "deliveries/1-first")
    do(store, "run")
    start_nightly_schedule(store)
    do(store, "load", "deliveries/2-again")
    do(store, "run")
    do(store, "load", "deliveries/3-other-chunks", quarantines=True)
    table = ["deliveries/4-table/probe.csv", "--mapping", "deliveries/4-table/mapping.toml"]
    named = [
        "--run-id",
        "probe",
        "--dataset",
        "faq",
        "--suite",
        "probes",
        "--created-at",
        "2026-09-09T05:00:00Z",
    ]
    do(store, "load", *table, *named)
    do(store, "run")
    before_labels = dt.datetime.now(dt.UTC).isoformat()
    do(store, "load", "deliveries/5-corrected")
    do(store, "apply", "--reason", "the hours stand in a document of their own")
    formula.write_text(changed_formula(2, "3, 5"), "utf-8")
    do(store, "apply", "--since", "2026-09-08", "--reason", "three is what people look at")
    formula.write_text(changed_formula(3, "1, 3, 5"), "utf-8")
    do(store, "apply", "--pin", "--runs", "wednesday", "--reason", "one is what people read")
    called(store, "gate", "tuesday")
    do(store, "forget", "tuesday", "--text", "--yes")
    return before_labels


def changed_formula(version: int, ks: str) -> str:
    return OWN_FORMULA.replace("version: 1", f"version: {version}").replace("ks: [5, 10]", f"ks: [{ks}]")


def start_nightly_schedule(store: Path) -> None:
    """Edit Dagster's settings by hand and switch the schedule `nightly` on, as its users do."""
    settings = store / "dagster_home" / "dagster.yaml"
    text = settings.read_text("utf-8")
    for before, after in DAGSTER_EDITS:
        if before not in text:
            raise SystemExit(f"{settings} does not contain {before!r}")
        text = text.replace(before, after, 1)
    settings.write_text(text, "utf-8")
    (store / "workspace.yaml").write_text(WORKSPACE, "utf-8")
    dagster = PROGRAM.with_name("dagster")
    words = [str(dagster), "schedule", "start", "nightly", "-w", "workspace.yaml"]
    done = subprocess.run(
        words, cwd=store, env=environment_in(store), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")


def do(store: Path, *words: str, quarantines: bool = False) -> None:
    done = called(store, *words)
    if done.returncode != (3 if quarantines else 0):
        raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")


def called(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in this folder."""
    return subprocess.run(
        [str(PROGRAM), *words],
        cwd=folder,
        env=environment_in(folder),
        capture_output=True,
        text=True,
        check=False,
    )


def environment_in(folder: Path) -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("EVAL_PIPELINE", "DAGSTER"))
    }
    return kept | {"DAGSTER_HOME": str(folder / "dagster_home"), "LOGNAME": "somebody"}


def questions(before_labels: str) -> list[list[str]]:
    """What is asked of the store beside its runs; every answer is one JSON document."""
    return [
        ["status", "--lint"],
        ["plan"],
        ["forget"],
        ["quarantine"],
        ["metrics", "all_found_at_k", "--history"],
        ["query", "select run_id, metric, value, replaced_because, note from formula_history order by all"],
        ["query", "select * exclude (computed_at) from comparison_queries order by all"],
        [
            "query",
            "select part, dataset, run_id, content_hash, n_rows, n_quarantined from deliveries order by all",
        ],
        ["show", "monday", "--as-of", before_labels],
        ["compare", "monday", "tuesday"],
        ["compare", "tuesday", "wednesday"],
        ["explain", "mrr", "monday", "wednesday"],
        ["explain", "mrr", "monday", "--as-of", before_labels],
        ["gate", "tuesday", "--no-store"],
        ["gate", "wednesday", "--no-store"],
    ]


def questions_about(*runs: str) -> list[list[str]]:
    """A run's summary, and its numbers per query."""
    per_query = "select query_id, metric, value from per_query_metrics where run_id = '{}' order by all"
    return [words for run in runs for words in (["show", run], ["query", per_query.format(run)])]


def ask(store: Path, asked: list[list[str]]) -> list[Question]:
    return [answer(store, words) for words in asked]


def answer(store: Path, words: list[str]) -> Question:
    done = called(store, *words, "--json")
    if not done.stdout:
        raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return {"words": words, "code": done.returncode, "document": steady(json.loads(done.stdout))}


def ask_changed(store: Path, *changes: list[str], asked: list[list[str]]) -> list[Question]:
    """What a copy of the store says after these commands; the store itself stays as it is."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(store, Path(folder) / "store"))
        for words in changes:
            do(copy, *words)
        return ask(copy, asked)


def steady(document: Any) -> Any:
    """The document without what differs from call to call."""
    if isinstance(document, dict):
        return {key: steady(value) for key, value in document.items() if key not in UNSTEADY}
    return [steady(one) for one in document] if isinstance(document, list) else document


def pack(work: Path, target: Path) -> Path:
    """One archive, with nobody's name in it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(target, "w:xz", preset=9) as archive:
        for name in ("expected.json", "store"):
            archive.add(work / name, name, filter=without_owner)
    return target


def without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return None if entry.name.endswith(".lock") else entry


if __name__ == "__main__":
    main()
