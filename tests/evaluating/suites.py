"""A project with a golden set, a target and a judge on loopback, and a suite that names them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from eval_pipeline.evaluating.run_bundle import Evaluation
from eval_pipeline.planning.evaluate import Wish, evaluate, finish, load_evaluated, read_setup
from eval_pipeline.store.project import Project
from tests.bundle_files import day, load, settings_in, write_golden
from tests.evaluating.faulty_server import Say, Seen, judge
from tests.projects import project_of

N = 6
TARGET = """
[targets.kb]
url = "{url}/ask"
answer = {{text = "/answer", hits = {{each = "/sources", chunk_id = "/id", doc_id = "/file", text = "/body"}}}}
identity = "the knowledge base"
config = {{chunker_version = "c1"}}
"""
JUDGE = """
[judges.{name}]
base_url = "{url}"
identity = "the judge {name}"
api_key = "${{JUDGE_KEY}}"
model = "made-up-1"
asks = {asks}
price_per_1m = {{prompt = 2.0, completion = 8.0}}
timeout_s = 5
attempts = 2
{more}
"""
SUITE = """
[suites.nightly]
dataset = "kb"
target = "kb"
judges = ["grounded"]
{more}
"""


def kb(seen: Seen) -> Say:
    """A target at /ask, and judges everywhere else."""
    if not seen.path.endswith("/ask"):
        return judge(seen)
    number = seen.body["question"].split()[-1].rstrip("?")
    source = {"id": f"c{number}", "file": "d", "body": f"The number {number} is {number}."}
    return Say({"answer": f"It is {number}.", "sources": [source]})


def configure(
    folder: Path,
    url: str,
    *,
    suite: str = "",
    judge: str = "",
    second: bool = False,
    asks: Sequence[str] = ("groundedness",),
) -> None:
    parts = [
        TARGET.format(url=url),
        JUDGE.format(url=url, name="grounded", more=judge, asks=list(asks)),
        *([JUDGE.format(url=url, name="second", more="", asks=list(asks))] if second else []),
        SUITE.format(more=suite),
    ]
    (folder / "eval-pipeline.toml").write_text("".join(parts), "utf-8")


def take_golden_set(folder: Path, n: int = N) -> None:
    rows = [
        {"query_id": f"q{i}", "query": f"What is {i}?", "expected_chunk_ids": [f"c{i}"], "answerable": True}
        for i in range(n)
    ]
    write_golden(folder / "labels", rows)
    load(settings_in(folder), folder / "labels")


def project_in(folder: Path, *, on: int = 2) -> Project:
    """As somebody works in the folder on this day."""
    settings = replace(settings_in(folder), calls=folder / "calls.sqlite")
    return project_of(settings, now=day(on))


def evaluated(
    folder: Path,
    *,
    on: int = 2,
    loads: bool = True,
    stop: threading.Event | None = None,
    tell: Callable[..., None] | None = None,
    **wish: Any,
) -> list[Evaluation]:
    """As the command does, without the computing."""
    project = project_in(folder, on=on)
    wanted = Wish("nightly", **wish)
    setup = read_setup(project, wanted)
    found = evaluate(project, setup, wanted, stop=stop or threading.Event(), tell=tell)
    if loads:
        report = load_evaluated(project, found)
        assert report.quarantined == 0, report.problems
        finish(project, found)
    return found


def rows_of(bundle: str, part: str = "judgements") -> list[dict[str, Any]]:
    (path,) = Path(bundle).glob(f"runs/*/{part}.jsonl")
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def asked_at(seen: list[Seen], end: str) -> int:
    return sum(one.path.endswith(end) for one in seen)
