"""A process in which everything is imported; what is asked of it is done by a copy of it, which spares the imports.

Python's threads and DuckDB's do not survive a fork: the process itself does nothing but wait, and copies do the work.
As a program it takes one JSON object per line: `start` forks, `wait` says how a copy ended.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PATIENCE_SECONDS = 120
IMPORTED = (
    "bench.faults.faulty",
    "eval_pipeline.cli.load",
    "eval_pipeline.cli.main",
    "eval_pipeline.computing.measure",
    "eval_pipeline.loading.load",
    "eval_pipeline.upkeep.forget",
    "eval_pipeline.upkeep.rebuild",
    "pandas",
    "pyarrow.dataset",
    "pyarrow.json",
    "tests.bundle_files",
    "tests.faults.dying",
    "tests.few_definitions",
)
# What a copy that goes through Dagster would import by itself.
DAGSTER = (
    "alembic.command",
    "eval_pipeline.defs.event_log",
    "eval_pipeline.defs.jobs",
    "polars",
    "rich.progress",
)


@dataclass
class Copy:
    """A copy at work."""

    prepared: Prepared
    pid: int
    said_in: Path

    def wait(self) -> int:
        """Its exit code, negative for a signal."""
        return self.prepared.ask(wait=self.pid)

    def has_ended(self) -> bool:
        return self.prepared.ask(look=self.pid) is not None

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    @property
    def said(self) -> str:
        return self.said_in.read_text("utf-8")


class Prepared:
    """The process, to be asked for copies."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.prepared"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._started = 0

    def ask(self, **question: Any) -> Any:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(
        self,
        function: str,
        *arguments: object,
        folder: Path,
        shipped: Path | None = None,
        environment: dict[str, str] | None = None,
        dagster: bool = False,
    ) -> Copy:
        """A copy that calls `module:function` in the folder, with these definitions as the shipped ones."""
        self._started += 1
        said_in = folder / f"said-{self._started}.txt"
        task = {
            "function": function,
            "arguments": [str(one) if isinstance(one, Path) else one for one in arguments],
            "folder": str(folder),
            "shipped": str(shipped) if shipped else None,
            "environment": environment,
            "said_in": str(said_in),
        }
        return Copy(self, self.ask(start=task, imports=DAGSTER if dagster else ()), said_in)

    def end(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(timeout=PATIENCE_SECONDS)


def command_line(*words: str) -> None:
    """The command line, as a copy calls it."""
    from eval_pipeline.cli.main import main

    sys.argv = ["eval-pipeline"]
    main(list(words))


def wait_until(happened: Callable[[], bool], copy: Copy) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        assert not copy.has_ended(), copy.said
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextmanager
def _as_asked(task: dict[str, Any]) -> Iterator[None]:
    from tests.few_definitions import shipping

    said = os.open(task["said_in"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number in (1, 2):
        os.dup2(said, number)
    os.chdir(task["folder"])
    if task["environment"] is not None:
        os.environ.clear()
        os.environ.update(task["environment"])
    with shipping(Path(task["shipped"])) if task["shipped"] else nullcontext():
        yield


def _do(task: dict[str, Any]) -> None:
    """Do it and end, whatever happens; nothing of the process that was copied is to be cleaned up."""
    code = 1
    try:
        module, _, name = task["function"].partition(":")
        with _as_asked(task):
            getattr(importlib.import_module(module), name)(*task["arguments"])
        code = 0
    except SystemExit as left:
        code = int(left.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _answer(question: dict[str, Any], ended: dict[int, int]) -> int | None:
    if "start" in question:
        for name in question["imports"]:
            importlib.import_module(name)
        pid = os.fork()
        if pid == 0:
            _do(question["start"])
        # The system gives a number out again: what had it before is over.
        ended.pop(pid, None)
        return pid
    pid = question.get("wait") or question["look"]
    if pid not in ended:
        found, status = os.waitpid(pid, 0 if "wait" in question else os.WNOHANG)
        if found:
            ended[pid] = os.waitstatus_to_exitcode(status)
    return ended.get(pid)


def main() -> None:
    for name in IMPORTED:
        importlib.import_module(name)
    ended: dict[int, int] = {}
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line), ended)), flush=True)


if __name__ == "__main__":
    main()
