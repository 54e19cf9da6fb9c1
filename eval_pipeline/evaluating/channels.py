"""Ways to reach somebody: over HTTP, through processes on this machine, or a function of our own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from eval_pipeline.bundle.secrets import Masker
from eval_pipeline.evaluating.baseline import _judge_by_words
from eval_pipeline.evaluating.http import Http, NoAnswer, Reply
from eval_pipeline.evaluating.setup import BASELINE, HTTP, MODELS, Judge, Limits, Program, Target
from eval_pipeline.evaluating.workers.processes import Workers


class Channel(Protocol):
    """Opened for as long as somebody is asked."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def post(self, sent: bytes, query_id: str) -> Reply:
        """Send it, and wait; raises NoAnswer."""


class HttpChannel:
    """One address with its headers. A body that shows a key back arrives without it."""

    def __init__(self, url: str, headers: Mapping[str, str], secrets: Sequence[str], limits: Limits) -> None:
        self._url, self._headers = url, headers
        self._masker = Masker(secrets)
        self._http = Http(limits.concurrency, most_bytes=limits.most_bytes)

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.__aexit__(kind, raised, trace)

    async def post(self, sent: bytes, query_id: str) -> Reply:
        reply = await self._http.post(self._url, self._headers, sent)
        body = self._masker.mask(reply.body.decode("utf-8", "surrogateescape"))
        return Reply(reply.status, body.encode("utf-8", "surrogateescape"), reply.headers)


class ProgramChannel:
    """Processes that read and write lines."""

    def __init__(self, program: Program, limits: Limits) -> None:
        self._workers = Workers(program, most_bytes=limits.most_bytes)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._workers.__aexit__(kind, raised, trace)

    async def post(self, sent: bytes, query_id: str) -> Reply:
        return await self._workers.ask(query_id, sent)


class FunctionChannel:
    """A function of this process, which takes no time."""

    def __init__(self, function: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self._function = function

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def post(self, sent: bytes, query_id: str) -> Reply:
        return Reply(200, json.dumps(self._function(json.loads(sent))).encode())


def _channel_to_target(target: Target) -> Channel:
    """How the system under test is reached."""
    if target.kind == HTTP:
        return HttpChannel(target.url, target.headers, target.secrets, target.limits)
    return ProgramChannel(target.program, target.limits)


def _channel_to_judge(judge: Judge, path: str) -> Channel:
    """How a judge is reached; `path` is where below its address."""
    if judge.kind in MODELS:
        return HttpChannel(judge.url + path, judge.headers, judge.secrets, judge.limits)
    if judge.kind == BASELINE:
        return FunctionChannel(_judge_by_words)
    return ProgramChannel(judge.program, judge.limits)


def _text_of(reply: Reply) -> str:
    """The body as text; bytes that are none make it broken."""
    try:
        return reply.body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NoAnswer("a broken body: it is not UTF-8") from error
