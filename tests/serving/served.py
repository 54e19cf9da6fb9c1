"""`eval-pipeline serve` as a process of its own, asked and hurt from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOOK_SECONDS = 0.2
START_SECONDS = 120
# What every server is recognised by; the last is the process behind the code server that has loaded the code.
SERVERS = {
    "web server": "dagster_webserver",
    "daemon": "dagster._daemon",
    "code server": "code-server",
    "loaded code": "grpc",
}
ENDED = {"COMPLETED_SUCCESS", "COMPLETED_FAILED", "COMPLETED", "FAILED", "CANCELED"}
UNDER_WAY = {"NOT_STARTED", "QUEUED", "STARTING", "STARTED", "CANCELING"}
LAUNCH = """mutation($p: LaunchBackfillParams!) {launchPartitionBackfill(backfillParams: $p) {
    __typename ... on LaunchBackfillSuccess {backfillId} ... on PythonError {message}}}"""
BACKFILLS = "{partitionBackfillsOrError {... on PartitionBackfills {results {id status}}}}"
RUNS = "{runsOrError {... on Runs {results {runId status jobName tags {key value}}}}}"
KEYS = """query($k: AssetKeyInput!) {assetNodeOrError(assetKey: $k) {
    ... on AssetNode {partitionKeysByDimension {partitionKeys}}}}"""


def until(condition: Callable[[], bool], what: str, *, seconds: float) -> float:
    """Wait for it; returns how long that took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, f"not within {seconds:g} s: {what}"
        time.sleep(LOOK_SECONDS)
    return time.monotonic() - began


@dataclass(frozen=True)
class Run:
    """What Dagster says of a run."""

    job: str
    status: str
    tags: Mapping[str, str]

    @property
    def is_under_way(self) -> bool:
        return self.status in UNDER_WAY


@dataclass
class Served:
    """Servers under way: where they answer and which processes they are."""

    process: subprocess.Popen[str]
    address: str
    health: str
    errors: Path

    def graphql(self, query: str, **variables: Any) -> dict[str, Any]:
        asked = urllib.request.Request(
            self.address + "graphql",
            data=json.dumps({"query": query, "variables": variables}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return dict(json.load(answer)["data"])

    def healthz(self) -> tuple[int, dict[str, Any]]:
        try:
            with urllib.request.urlopen(self.health, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            return refused.code, json.load(refused)

    @property
    def is_healthy(self) -> bool:
        return self.healthz()[0] == 200

    def processes(self) -> dict[str, int]:
        """Every server that lives, by its name."""
        lines = commands_below(self.process.pid)
        return {name: pid for name, word in SERVERS.items() for pid, words in lines.items() if word in words}

    def kill(self, name: str) -> None:
        os.kill(self.processes()[name], signal.SIGKILL)

    def partitions(self, asset: str) -> list[str]:
        found = self.graphql(KEYS, k={"path": asset.split(".")})["assetNodeOrError"]
        return list(found["partitionKeysByDimension"][0]["partitionKeys"])

    def start_backfill(self, assets: Sequence[str], partitions: Sequence[str], **tags: str) -> str:
        asked = {
            "assetSelection": [{"path": one.split(".")} for one in assets],
            "partitionNames": list(partitions),
            "tags": [{"key": f"eval_pipeline/{name}", "value": value} for name, value in tags.items()],
        }
        found = self.graphql(LAUNCH, p=asked)["launchPartitionBackfill"]
        assert "backfillId" in found, found
        return str(found["backfillId"])

    def backfills(self) -> dict[str, str]:
        found = self.graphql(BACKFILLS)["partitionBackfillsOrError"]["results"]
        return {one["id"]: one["status"] for one in found}

    def runs(self) -> dict[str, Run]:
        found = self.graphql(RUNS)["runsOrError"]["results"]
        return {
            one["runId"]: Run(
                one["jobName"], one["status"], {tag["key"]: tag["value"] for tag in one["tags"]}
            )
            for one in found
        }

    def runs_of(self, backfill: str) -> list[Run]:
        return [run for run in self.runs().values() if run.tags.get("dagster/backfill") == backfill]

    def has_ended(self, backfill: str, others: Collection[str] = ()) -> bool:
        """Whether the backfill, its runs and these others are done or failed; not while nobody can be asked."""
        try:
            runs = self.runs()
            watched = [*self.runs_of(backfill), *(runs[one] for one in others)]
            return self.backfills()[backfill] in ENDED and not any(run.is_under_way for run in watched)
        except (OSError, ValueError, KeyError, TypeError):
            return False


def commands_below(pid: int) -> dict[int, list[str]]:
    """The living processes that this one started, and those they started: the words of each command."""
    parents: dict[int, int] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text("utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(place.parent.name)] = int(fields[1])
    below, found = {pid}, {}
    while more := {one for one, parent in parents.items() if parent in below} - below:
        below |= more
    for one in below - {pid}:
        try:
            found[one] = Path(f"/proc/{one}/cmdline").read_text("utf-8").split("\0")
        except OSError:
            continue
    return found


def is_alive(pid: int) -> bool:
    """Whether it runs; one that has ended and that nobody has asked about yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def serving(
    environment: Mapping[str, str], folder: Path, *, command: str = "serve", port: int = 0
) -> Iterator[Served]:
    """Servers that answer, until the block ends."""
    words = [command, "--port", str(port), *(["--health-port", "0"] if command == "serve" else [])]
    errors = folder / "serve.err"
    with errors.open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "eval_pipeline", *words],
            env={**os.environ, **environment},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline().strip() for _ in range(2 if command == "serve" else 1)]
        assert all(line.startswith("http://127.0.0.1:") for line in lines), errors.read_text("utf-8")
        yield Served(process, lines[0], lines[-1], errors)
    except BaseException:
        print(errors.read_text("utf-8")[-4000:])
        raise
    finally:
        process.terminate()
        process.wait(timeout=30)
