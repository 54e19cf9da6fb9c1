"""A judge and a target on loopback that fail in every way a network and a program can; nothing but the standard library."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

HANG_SECONDS = 60.0


@dataclass
class Seen:
    """One request as it arrived; `n` counts how often this very body came before, from 0."""

    path: str
    headers: dict[str, str]
    body: Any
    n: int
    number: int
    at: float


@dataclass
class Say:
    """What is answered: a document under a status, and how it is brought."""

    document: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    how: str = "whole"
    after: float = 0.0


def completion(content: Any, *, ended: str = "stop", usage: Any = None, model: str = "made-up-1") -> Say:
    """A chat completion; a content that is no text is written as JSON."""
    text = content if isinstance(content, str) else json.dumps(content)
    counted = {"prompt_tokens": 100, "completion_tokens": 20} if usage is None else usage
    message = {"role": "assistant", "content": text}
    return Say(
        {
            "id": "made-up",
            "model": model,
            "system_fingerprint": "fp_1",
            "choices": [{"index": 0, "finish_reason": ended, "message": message}],
            "usage": counted,
        }
    )


def refusal(status: int, message: str = "no", code: str = "no", **headers: str) -> Say:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Say({"error": {"message": message, "code": code}}, status, named)


def score_of(body: Any) -> dict[str, Any]:
    """The same body always has the same judgement."""
    number = int(hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest(), 16)
    return {"score": number % 6, "supported_claims": [], "unsupported_claims": ["x"], "reasoning": "made up"}


Behaviour = Callable[[Seen], Say]


def judge(seen: Seen) -> Say:
    return completion(score_of(seen.body["messages"]))


class FaultyServer:
    """Answers on a free port of loopback, as `behave` says; keeps all that arrived."""

    def __init__(self, behave: Behaviour = judge, *, latency: float = 0.0) -> None:
        self.behave, self.latency = behave, latency
        self.seen: list[Seen] = []
        self.answered: dict[str, int] = {}
        self.in_flight = 0
        self.most_in_flight = 0
        self._times: dict[str, int] = {}
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def twice(self) -> int:
        """Answers that were worked on more than once."""
        return sum(n - 1 for n in self.answered.values())

    def __enter__(self) -> FaultyServer:
        self._thread.start()
        assert self._started.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._talk, "127.0.0.1", 0, backlog=1024))
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._once(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _once(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {one.partition(":")[0].lower(): one.partition(":")[2].strip() for one in head[1:] if one}
        raw = await reader.readexactly(int(headers.get("content-length", 0)))
        key = hashlib.sha256(raw).hexdigest()
        n = self._times[key] = self._times.get(key, -1) + 1
        seen = Seen(
            head[0].split(" ")[1], headers, json.loads(raw or b"null"), n, len(self.seen), time.monotonic()
        )
        self.seen.append(seen)
        say = self.behave(seen)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self.latency + say.after)
        finally:
            self.in_flight -= 1
        if say.status == 200 and say.how == "whole":
            self.answered[key] = self.answered.get(key, 0) + 1
        return await self._bring(say, writer)

    async def _bring(self, say: Say, writer: asyncio.StreamWriter) -> bool:
        if say.how == "hang":
            await asyncio.sleep(HANG_SECONDS)
        if say.how == "reset":
            writer.transport.abort()
            return False
        body = say.document if isinstance(say.document, bytes) else json.dumps(say.document).encode()
        if say.how == "huge":
            body = b'{"x": "' + b"x" * (32 << 20) + b'"}'
        length = len(body) + (7 if say.how in ("cut", "wrong length") else 0)
        head = "".join(f"{name}: {value}\r\n" for name, value in say.headers.items())
        writer.write(f"HTTP/1.1 {say.status} X\r\nContent-Length: {length}\r\n{head}\r\n".encode())
        if say.how == "drip":
            for at in range(len(body)):
                writer.write(body[at : at + 1])
                await writer.drain()
                await asyncio.sleep(0.05)
            return True
        writer.write(body)
        await writer.drain()
        return say.how not in ("cut", "wrong length")


@contextmanager
def serving(behave: Behaviour = judge, *, latency: float = 0.0) -> Iterator[FaultyServer]:
    with FaultyServer(behave, latency=latency) as server:
        yield server
