"""A small store as the installed version writes it, packed for the tests of later versions.

    python bench/store_of_this_version.py [--to tests/stores]

Everything is done by the `eval-pipeline` beside this Python, as a user would: deliveries, a redelivery, a corrected
label, a changed formula of one's own that older runs are pinned against, stored comparisons, a gate, forgotten texts.
What its commands then say goes into `expected.json`, and all of it into one archive named like the version.
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
CONFIG = '[baselines]\nnightly = "monday"\n\n[gate.rules."hit@5"]\nmargin = 0.05\n'
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
    do(store, "load", "deliveries/1-first")
    do(store, "run")
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
    formula.write_text(OWN_FORMULA.replace("ks: [5, 10]", "ks: [3, 5]"), "utf-8")
    do(store, "apply", "--since", "2026-09-08", "--reason", "three is what people look at")
    called(store, "gate", "tuesday")
    do(store, "forget", "tuesday", "--text", "--yes")
    return before_labels


def do(store: Path, *words: str, quarantines: bool = False) -> None:
    done = called(store, *words)
    if done.returncode != (3 if quarantines else 0):
        raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")


def called(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command as it is typed in this folder."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("EVAL_PIPELINE", "DAGSTER"))
    }
    return subprocess.run(
        [str(PROGRAM), *words],
        cwd=folder,
        env=environment | {"DAGSTER_HOME": str(folder / "dagster_home"), "LOGNAME": "somebody"},
        capture_output=True,
        text=True,
        check=False,
    )


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
