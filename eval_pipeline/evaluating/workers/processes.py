"""Processes that answer JSON lines: one question at a time each, by its id, ended when they hang."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections import deque
from types import TracebackType
from typing import Any, Final, Self

from eval_pipeline.evaluating.http import NoAnswer, Reply
from eval_pipeline.evaluating.setup import Program
from eval_pipeline.evaluating.workers.python_side import RAISED

_LAST_WORDS: Final = 400
_PYTHON_SIDE: Final = "eval_pipeline.evaluating.workers.python_side"


class Workers:
    """As many processes as are wanted, started when they are first needed."""

    def __init__(self, program: Program, *, most_bytes: int) -> None:
        self._argv = program.argv or (sys.executable, "-m", _PYTHON_SIDE, str(program.call))
        self._most_bytes = most_bytes
        self._idle: deque[_Worker] = deque()
        self._all: set[_Worker] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._all:
            await worker.end()

    async def ask(self, query_id: str, line: bytes) -> Reply:
        """The line that names this id; whoever gives up waiting ends the process."""
        worker = self._idle.popleft() if self._idle else _Worker(self._argv, self._most_bytes)
        self._all.add(worker)
        try:
            reply = await worker.ask(query_id, line)
        except BaseException:
            # What it would still say belongs to a question that nobody waits for.
            self._all.discard(worker)
            await worker.end()
            raise
        self._idle.append(worker)
        return reply


class _Worker:
    """One process."""

    def __init__(self, argv: tuple[str, ...], most_bytes: int) -> None:
        self._argv, self._most_bytes = argv, most_bytes
        self._process: asyncio.subprocess.Process | None = None
        self._words = bytearray()
        self._listener: asyncio.Task[None] | None = None

    async def ask(self, query_id: str, line: bytes) -> Reply:
        process = self._process or await self._start()
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a worker without pipes")
        try:
            process.stdin.write(line + b"\n")
            await process.stdin.drain()
            while True:
                said = await process.stdout.readline()
                if not said:
                    raise NoAnswer(await self._why_it_ended(process))
                if (found := _answer_to(query_id, said)) is not None:
                    return found
        except (ConnectionError, BrokenPipeError) as error:
            raise NoAnswer(await self._why_it_ended(process)) from error
        except ValueError as error:
            raise NoAnswer(f"the answer is longer than {self._most_bytes:,} bytes") from error

    async def _start(self) -> asyncio.subprocess.Process:
        try:
            # In a group of its own: it is ended with all that it started, and Ctrl-C in a terminal does not reach it.
            self._process = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=self._most_bytes,
                start_new_session=True,
            )
        except OSError as error:
            raise NoAnswer(
                f"{self._argv[0]} cannot be started: {error.strerror}", is_sent=False, is_final=True
            ) from error
        self._listener = asyncio.create_task(self._listen(self._process))
        return self._process

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Keep the last words of its errors, so that its end can be explained and the pipe never fills."""
        while process.stderr is not None and (said := await process.stderr.read(1 << 16)):
            self._words += said
            del self._words[:-_LAST_WORDS]

    async def _why_it_ended(self, process: asyncio.subprocess.Process) -> str:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), 1)
        if self._listener is not None:
            await asyncio.wait([self._listener], timeout=0.2)
        words = " ".join(self._words.decode("utf-8", errors="replace").split())
        return f"the process ended with {process.returncode}" + (f": {words}" if words else "")

    async def end(self) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._listener is not None:
            self._listener.cancel()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), 1)


def _answer_to(query_id: str, line: bytes) -> Reply | None:
    """The line, where it is an object that names this question; anything else is no answer to it."""
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("query_id") != query_id:
        return None
    if RAISED in found and len(found) == 2:
        return Reply(500, json.dumps({"error": found[RAISED]}).encode())
    return Reply(200, line.strip())
