"""Asking: so many calls at once, each claimed, waited for, tried again where that helps, and kept."""

# Nothing else retries. One asyncio loop does everything: between two `await`s nobody else changes what is looked at.

from __future__ import annotations

import asyncio
import json
import random
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, Protocol

from eval_pipeline.evaluating.budget import Budget
from eval_pipeline.evaluating.calls import Answered, CallStore, Kept
from eval_pipeline.evaluating.endpoint import BUDGET, INTERRUPTED, QUOTA, REFUSED, Endpoint, Stop
from eval_pipeline.evaluating.http import NoAnswer, Reply
from eval_pipeline.evaluating.setup import Limits

TIMED_OUT: Final = "timed out"
_AGAIN: Final = frozenset([408, 425])
_STOPPING: Final = {
    401: "the key is missing or wrong",
    402: "there is nothing left to pay with",
    403: "the key may not do this",
    404: "there is no such model or address",
}
_NO_QUOTA: Final = (b"insufficient_quota", b"billing_hard_limit_reached", b"credit balance is too low")
_BLOCK: Final = 256
# How long others' claims are left alone between two looks; how long answers under way are waited for on an interrupt.
_LOOK_SECONDS: Final = 0.2
GRACE_SECONDS: Final = 0.6
_TELL_SECONDS: Final = 0.2
_MOST_JITTER: Final = 30.0
_MOST_SAID: Final = 4000
_SHOWN_SAID: Final = 200


@dataclass(frozen=True)
class Call:
    """One question: the hash that knows it, what is sent, the most it may be answered with, and whose item it is."""

    request: str
    body: Any
    max_tokens: int = 0
    about: Any = None


@dataclass(frozen=True)
class Bound:
    """The most that a call may take."""

    tokens: float = 0.0
    usd: float = 0.0


class Party(Protocol):
    """Somebody who is asked."""

    @property
    def name(self) -> str:
        """As the store of calls knows it."""

    @property
    def limits(self) -> Limits: ...

    def wording(self, call: Call) -> bytes:
        """What is really sent."""

    def bound(self, sent: bytes, call: Call) -> Bound:
        """The most that it may take."""

    async def post(self, sent: bytes, call: Call) -> Reply:
        """Send it, and wait; raises NoAnswer."""

    def read(self, sent: bytes, call: Call, reply: Reply) -> Answered:
        """The answer in a reply that succeeded; raises NoAnswer where it is broken."""

    def fault(self, call: Call, answer: Answered) -> str | None:
        """Why an answer, which is kept like any other, is a failure of its item; None where it is none."""

    def adapt(self, sent: bytes, reply: Reply) -> bool:
        """Whether the same may be asked in other words, after the reply that refused these."""

    def masked(self, text: str) -> str:
        """The text without keys."""


Asked = tuple[Party, Call]
# After an answer: the call that has to follow it, if any.
Then = Callable[[Party, Call, Kept], Call | None]


@dataclass(frozen=True)
class Progress:
    """Where the asking stands."""

    total: int | None
    done: int
    cached: int
    in_flight: int
    failed: int
    waiting_s: float
    usd: float
    seconds_left: float | None


@dataclass
class Counts:
    """What came of it; `failed` has the reason of each call that came to nothing."""

    asked: int = 0
    cached: int = 0
    waited_s: float = 0.0
    failed: dict[str, str] = field(default_factory=dict)
    stopped: Stop | None = None


@dataclass
class Lane:
    """The calls to one endpoint, in their order, so many at once."""

    endpoint: Endpoint
    concurrency: int
    calls: Iterable[Asked]
    door: asyncio.Lock = field(default_factory=asyncio.Lock)
    others: asyncio.Lock = field(default_factory=asyncio.Lock)
    fresh: Iterator[Asked] = field(default_factory=lambda: iter(()))
    later: deque[Asked] = field(default_factory=deque)


class _Stopped(Exception):
    """Nothing more is sent in this lane."""


class Executor:
    """One run's asking."""

    def __init__(
        self,
        store: CallStore,
        *,
        run_id: str,
        budget: Budget,
        stop: threading.Event | None = None,
        progress: Callable[[Progress], None] | None = None,
        total: int | None = None,
        backoff_s: float = 0.5,
    ) -> None:
        self.counts = Counts()
        self._store, self._run_id, self._budget = store, run_id, budget
        self._interrupt = stop or threading.Event()
        self._progress, self._total, self._backoff = progress, total, backoff_s
        self._in_flight = 0
        self._done = 0
        # Calls that were under way when they were given up.
        self._cut_off: set[str] = set()
        self._stop: Stop | None = None
        self._lanes: list[Lane] = []
        self._began = time.monotonic()

    async def run(self, lanes: Iterable[Lane], then: Then) -> Counts:
        """Ask everything; what has an answer is not asked, what others ask is waited for."""
        self._lanes = list(lanes)
        tasks = [
            asyncio.create_task(self._work(lane, then))
            for lane in self._lanes
            for _ in range(self._open(lane, then).concurrency)
        ]
        watch = asyncio.create_task(self._watch())
        try:
            await self._until_done(tasks)
        finally:
            watch.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(watch, *tasks, return_exceptions=True)
        self._tell()
        stops = [self._stop, *(lane.endpoint.stop for lane in self._lanes)]
        self.counts.stopped = next((one for one in stops if one is not None), None)
        return self.counts

    def _open(self, lane: Lane, then: Then) -> Lane:
        lane.fresh = self._unanswered(lane.calls, then)
        return lane

    async def _until_done(self, tasks: list[asyncio.Task[None]]) -> None:
        """Every worker at its end; when somebody interrupts, only for as long as a person waits."""
        waiting = set(tasks)
        interrupted_at: float | None = None
        while waiting:
            finished, waiting = await asyncio.wait(waiting, timeout=0.05, return_when=asyncio.FIRST_EXCEPTION)
            for task in finished:
                task.result()
            if self._stop is not None and self._stop.kind == INTERRUPTED:
                interrupted_at = interrupted_at or time.monotonic()
                if time.monotonic() - interrupted_at > GRACE_SECONDS:
                    return

    async def _watch(self) -> None:
        """Say where it stands, and notice an interruption."""
        told = 0.0
        while True:
            if self._interrupt.is_set() and self._stop is None:
                self._halt(Stop(INTERRUPTED, "interrupted"))
            if time.monotonic() - told >= _TELL_SECONDS:
                told = time.monotonic()
                self._tell()
            await asyncio.sleep(0.05)

    def _halt(self, stop: Stop) -> None:
        self._stop = self._stop or stop

    def _unanswered(self, calls: Iterable[Asked], then: Then) -> Iterator[Asked]:
        """The calls in their order, without those that have an answer; looked up block by block."""
        for block in _blocks(calls):
            known = self._store.answered([call.request for _, call in block])
            for party, call in block:
                following = self._from_store(party, call, then) if call.request in known else call
                if following is not None:
                    yield party, following

    def _from_store(self, party: Party, call: Call, then: Then) -> Call | None:
        """An answer that was there already; what follows it may be, too."""
        following: Call | None = call
        while following is not None and (kept := self._store.kept(following.request)) is not None:
            self.counts.cached += 1
            self._done += following is call
            following = then(party, following, kept)
        return following

    async def _work(self, lane: Lane, then: Then) -> None:
        with suppress(_Stopped):
            while (asked := await self._next(lane, then)) is not None:
                party, call = asked
                following: Call | None = call
                while following is not None:
                    following = await self._one(lane, party, following, then)
                self._done += 1

    async def _next(self, lane: Lane, then: Then) -> Asked | None:
        """Whatever is to be asked next: of what nobody else asks, then of what others may have left."""
        while True:
            self._check(lane)
            asked = next(lane.fresh, None)
            if asked is not None:
                if self._is_mine(lane, *asked, then):
                    return asked
                continue
            if not lane.later:
                return None
            async with lane.others:
                if (asked := self._left_by_others(lane, then)) is not None:
                    return asked
                if lane.later:
                    await self._nap(lane, _LOOK_SECONDS)

    def _left_by_others(self, lane: Lane, then: Then) -> Asked | None:
        """The first of what others asked that is free again; what they have answered is taken from the store."""
        for _ in range(min(len(lane.later), _BLOCK)):
            asked = lane.later.popleft()
            if self._is_mine(lane, *asked, then):
                return asked
        return None

    def _is_mine(self, lane: Lane, party: Party, call: Call, then: Then) -> bool:
        """Whether this process is to ask it."""
        claimed = self._store.claim(call.request, party=party.name, run_id=self._run_id)
        if claimed == "mine":
            return True
        if claimed == "others":
            lane.later.append((party, call))
        elif (following := self._from_store(party, call, then)) is not None:
            lane.later.append((party, following))
        return False

    async def _one(self, lane: Lane, party: Party, call: Call, then: Then) -> Call | None:
        """Ask a call that is claimed, and keep what came; the call that follows, claimed as well."""
        try:
            answer = await self._asked(lane, party, call)
        except _Failed as failed:
            reason = party.masked(failed.reason)
            self.counts.failed[call.request] = reason
            self._store.fail(
                call.request,
                reason,
                http_status=failed.http_status,
                attempts=failed.attempts,
                party=party.name,
                run_id=self._run_id,
            )
            lane.endpoint.failed(reason)
            return None
        except (_Stopped, asyncio.CancelledError):
            # A call that was cut off may have been paid: its claim stays, and is counted when it is taken over.
            if call.request not in self._cut_off:
                self._store.give_back(call.request)
            raise
        self._store.keep(call.request, answer, party=party.name, run_id=self._run_id)
        self.counts.failed.pop(call.request, None)
        self.counts.asked += 1
        following = then(party, call, Kept(**vars(answer), run_id=self._run_id))
        if following is None or self._is_mine(lane, party, following, then):
            return following
        return None

    async def _asked(self, lane: Lane, party: Party, call: Call) -> Answered:
        attempt = 1
        while True:
            tried = await self._tried(lane, party, call)
            if isinstance(tried, Answered):
                lane.endpoint.answered()
                fault = party.fault(call, tried)
                if fault is None:
                    lane.endpoint.succeeded()
                else:
                    lane.endpoint.failed(party.masked(fault)[:_SHOWN_SAID])
                return replace(tried, attempts=attempt)
            if tried.is_free:
                continue
            if tried.is_final or attempt >= party.limits.attempts:
                raise _Failed(tried.reason, tried.http_status, attempt)
            attempt += 1
            await self._nap(lane, random.uniform(0, min(_MOST_JITTER, self._backoff * 2**attempt)))

    async def _tried(self, lane: Lane, party: Party, call: Call) -> Answered | _Refused:
        """One attempt. An answer that never came may have been worked on: it counts as if it had cost the most."""
        sent, most = await self._through_the_door(lane, party, call)
        began = time.monotonic()
        cost: float | None = None
        bound = self._store.add_bound(call.request, self._run_id, most) if most else None
        self._in_flight += 1
        try:
            async with asyncio.timeout(party.limits.timeout_s):
                reply = await party.post(sent, call)
            if not 200 <= reply.status < 300:
                cost = 0.0
                return self._refused(lane, party, sent, reply)
            answer = party.read(sent, call, reply)
            cost = answer.usd
            return replace(answer, latency_ms=round((time.monotonic() - began) * 1000, 3))
        except TimeoutError:
            return _Refused(f"{TIMED_OUT}: no answer within {party.limits.timeout_s:g} s")
        except NoAnswer as lost:
            cost = None if lost.is_sent else 0.0
            return _Refused(lost.reason, is_final=lost.is_final)
        except asyncio.CancelledError:
            self._cut_off.add(call.request)
            raise
        finally:
            self._in_flight -= 1
            self._budget.settle(most, most if cost is None else cost)
            if bound is not None and cost is not None:
                self._store.remove_bound(bound)

    async def _through_the_door(self, lane: Lane, party: Party, call: Call) -> tuple[bytes, float]:
        """Wait until the endpoint takes calls and the budget holds it: one at a time, in their order."""
        async with lane.door:
            began = time.monotonic()
            while True:
                self._check(lane)
                wording = party.wording(call)
                most = party.bound(wording, call)
                wait = lane.endpoint.wait()
                if wait > 0:
                    await self._nap(lane, wait)
                elif self._budget.reserve(most.usd):
                    break
                elif self._budget.is_idle:
                    self._halt(Stop(BUDGET, self._budget.too_little_for(most.usd)))
                else:
                    await self._nap(lane, _LOOK_SECONDS)
            lane.endpoint.sent(most.tokens)
            self.counts.waited_s += time.monotonic() - began
        return wording, most.usd

    def _check(self, lane: Lane) -> None:
        if self._stop is not None or lane.endpoint.stop is not None:
            raise _Stopped

    async def _nap(self, lane: Lane, seconds: float) -> None:
        """So long, or until nothing more is sent anyway."""
        until = time.monotonic() + seconds
        while self._stop is None and lane.endpoint.stop is None and (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(left, _LOOK_SECONDS))

    def _refused(self, lane: Lane, party: Party, sent: bytes, reply: Reply) -> _Refused:
        """What a reply that is no answer means."""
        status = reply.status
        said = _said(reply)
        if any(word in reply.body for word in _NO_QUOTA):
            lane.endpoint.halt(QUOTA, f"{party.name}: the quota is used up")
        elif status in _STOPPING:
            lane.endpoint.halt(
                REFUSED, party.masked(f"{party.name} answers {status}: {_STOPPING[status]}{said}")
            )
        elif status == 429 or (status == 503 and "retry-after" in reply.headers):
            lane.endpoint.asked_to_wait(reply.headers)
            return _Refused("asked to wait", status, is_free=True)
        elif status in (400, 422) and party.adapt(sent, reply):
            return _Refused("asked in other words", status, is_free=True)
        else:
            is_final = status < 500 and status not in _AGAIN
            return _Refused(f"it answers {status}{said}", status, is_final=is_final)
        # The door says that nothing more is sent.
        return _Refused("stopped", status, is_free=True)

    def _tell(self) -> None:
        if self._progress is not None:
            waiting = max((lane.endpoint.paused_for for lane in self._lanes), default=0.0)
            self._progress(
                Progress(
                    self._total,
                    self._done if self._total is None else min(self._done, self._total),
                    self.counts.cached,
                    self._in_flight,
                    len(self.counts.failed),
                    waiting,
                    self._budget.spent,
                    self._seconds_left(),
                )
            )

    def _seconds_left(self) -> float | None:
        fresh = self.counts.asked
        if self._total is None or not fresh:
            return None
        return max(0, self._total - self._done) * (time.monotonic() - self._began) / fresh


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """What to hand on as `stop`: set by Ctrl-C or a request to end, for the length of the block, in the main thread.

    The second one interrupts whatever goes on.
    """
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask(_signal: int, _frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    for number in before:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(frozen=True)
class _Refused:
    """An attempt without an answer. `is_free`: it counts as none; `is_final`: another one would be refused as well."""

    reason: str
    http_status: int | None = None
    is_free: bool = False
    is_final: bool = False


class _Failed(Exception):
    """A call that came to nothing."""

    def __init__(self, reason: str, http_status: int | None, attempts: int) -> None:
        super().__init__(reason)
        self.reason, self.http_status, self.attempts = reason, http_status, attempts


def _said(reply: Reply) -> str:
    """What an endpoint says of its refusal, as far as a person wants to read it."""
    text = " ".join(reply.body[:_MOST_SAID].decode("utf-8", errors="replace").split())
    try:
        document = json.loads(reply.body) if len(reply.body) <= _MOST_SAID else None
    except (ValueError, RecursionError):
        document = None
    error = document.get("error") if isinstance(document, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    words = message if isinstance(message, str) else text
    return f": {words[:_SHOWN_SAID]}" if words else ""


def _blocks(calls: Iterable[Asked]) -> Iterator[list[Asked]]:
    rest = iter(calls)
    while block := list(islice(rest, _BLOCK)):
        yield block
