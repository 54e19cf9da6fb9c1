"""How fast somebody may be asked: pauses they ask for, a pace that was measured, and when to stop."""

from __future__ import annotations

import datetime as dt
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

from eval_pipeline.evaluating.setup import Limits

QUOTA, REFUSED, WAIT, FAILURES, BUDGET, INTERRUPTED = (
    *("quota", "refused", "wait", "failures", "budget", "interrupted"),
)
MOST_FAILURES: Final = 20
# Without a word from the endpoint, and never less, so that nobody is asked in a tight circle.
_PAUSE_SECONDS: Final = 1.0
_LEAST_PAUSE: Final = 0.05
_MEASURED_SECONDS: Final = 3.0
_LEAST_MEASURED: Final = 0.5
_FEWEST: Final = 5
# Of what was measured; and of a pace that was refused again before anything else could be measured.
_BELOW_MEASURED: Final = 0.97
_BELOW_REFUSED: Final = 0.85
_FASTER_PER_SECOND: Final = 0.05
_SLOWEST: Final = 0.2
# How far behind its time a call may be sent without those after it being held back.
_SLACK_SECONDS: Final = 0.05
_RESET: Final = (
    "x-ratelimit-reset-requests",
    "x-ratelimit-reset-tokens",
    "ratelimit-reset",
    "x-ratelimit-reset",
)
_RESET_ANTHROPIC: Final = re.compile(r"anthropic-ratelimit-(?:\w+-)?(?:requests|tokens)-reset")
_SPAN: Final = re.compile(
    r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?"
)
_EPOCH: Final = 1e9
_FAR_SECONDS: Final = 366 * 86400.0

Clock = Callable[[], dt.datetime]


@dataclass(frozen=True)
class Stop:
    """Why nothing more is sent, in a word and in words for people."""

    kind: str
    text: str


class Endpoint:
    """What is known of one address: every call to it asks here first. `now` is a clock of seconds that never jumps."""

    def __init__(self, limits: Limits, *, clock: Clock, now: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock, self._now = limits, clock, now
        self._paused_until = 0.0
        self._refusals = 0
        self._pace: float | None = None
        self._next = 0.0
        self._answers: deque[float] = deque(maxlen=4096)
        self._failures = 0
        self._refused_since: float | None = None
        self.stop: Stop | None = None

    @property
    def paused_for(self) -> float:
        """Seconds until the endpoint may be asked at all."""
        return max(0.0, self._paused_until - self._now())

    def wait(self) -> float:
        """Seconds until the next call may be sent; 0: now."""
        return max(0.0, self._paused_until - self._now(), self._next - self._now())

    def sent(self, tokens: float) -> None:
        """One more was sent, which counts as so many tokens."""
        step = max(
            1 / self._pace if self._pace else 0.0,
            60 / self._limits.requests_per_minute if self._limits.requests_per_minute else 0.0,
            tokens * 60 / self._limits.tokens_per_minute if self._limits.tokens_per_minute else 0.0,
        )
        if step:
            self._next = max(self._next, self._now() - _SLACK_SECONDS) + step

    def answered(self) -> None:
        """An answer came: the pace may rise again."""
        self._refused_since = None
        self._answers.append(self._now())
        if self._pace:
            self._pace *= 1 + _FASTER_PER_SECOND / max(1.0, self._pace)

    def succeeded(self) -> None:
        """An item has what it was asked for: what failed before it was chance."""
        self._failures = 0

    def asked_to_wait(self, headers: Mapping[str, str]) -> None:
        """The endpoint's word holds for all calls: 429, or 503 with a time."""
        now = self._now()
        seconds = said_wait(headers, self._clock)
        wait = _PAUSE_SECONDS if seconds is None else max(_LEAST_PAUSE, seconds)
        self._refused_since = now if self._refused_since is None else self._refused_since
        if max(wait, now - self._refused_since) > self._limits.max_wait_s:
            self._halt_until(wait)
            return
        if now >= self._paused_until:
            self._refusals = 0
        self._refusals += 1
        if self._refusals == 2:
            # One refusal is chance; another one in the same pause is a limit.
            self._pace = self._measured(now) or self._pace
        self._paused_until = max(self._paused_until, now + wait)

    def _halt_until(self, seconds: float) -> None:
        at = self._clock() + dt.timedelta(seconds=min(seconds, _FAR_SECONDS))
        self.halt(WAIT, f"the endpoint takes nothing more: come back after {at:%Y-%m-%d %H:%M} UTC")

    def _measured(self, now: float) -> float | None:
        """Answers a second of late, a little less; None where too few came."""
        recent = [at for at in self._answers if now - at < _MEASURED_SECONDS]
        span = now - recent[0] if len(recent) > _FEWEST else 0.0
        if span < _LEAST_MEASURED:
            return None
        return max(_SLOWEST, _BELOW_MEASURED * len(recent) / span, _BELOW_REFUSED * (self._pace or 0.0))

    def failed(self, reason: str) -> None:
        """An item came to nothing; so many of them in a row are no chance."""
        self._failures += 1
        if self._failures >= MOST_FAILURES:
            self.halt(FAILURES, f"{MOST_FAILURES} calls in a row came to nothing, the last one: {reason}")

    def halt(self, kind: str, text: str) -> None:
        """Nothing more is sent; the first reason is the one that counts."""
        self.stop = self.stop or Stop(kind, text)


def said_wait(headers: Mapping[str, str], clock: Clock) -> float | None:
    """For how long the headers ask to wait: seconds, a date, or when the counts are reset."""
    said = headers.get("retry-after-ms")
    if said is not None and (wait := _seconds_or_date(said, clock)) is not None:
        return wait / 1000
    said = headers.get("retry-after")
    if said is not None and (wait := _seconds_or_date(said, clock)) is not None:
        return wait
    resets = [
        wait
        for name, value in headers.items()
        if (name in _RESET or _RESET_ANTHROPIC.fullmatch(name)) and _is_used_up(name, headers)
        if (wait := _seconds_or_date(value, clock)) is not None
    ]
    return max(resets, default=None)


def _is_used_up(name: str, headers: Mapping[str, str]) -> bool:
    """Of several counts those without anything left say when to go on; without a count every reset does."""
    remaining = headers.get(name.replace("reset", "remaining"))
    return remaining is None or remaining.strip() in ("0", "")


def _seconds_or_date(text: str, clock: Clock) -> float | None:
    """`12`, `1.5s`, `6m0s`, `120ms`, seconds since 1970, or a date as HTTP or ISO 8601 writes it."""
    text = text.strip()
    now = clock().replace(tzinfo=dt.UTC)
    try:
        number = float(text)
    except ValueError:
        return _span(text) if _SPAN.fullmatch(text) else _until(text, now)
    if number != number or number < 0:
        return None
    return max(0.0, number - now.timestamp()) if number > _EPOCH else number


def _span(text: str) -> float | None:
    found = _SPAN.fullmatch(text)
    if not text or found is None:
        return None
    days, hours, minutes, seconds, thousandths = (float(one or 0) for one in found.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + seconds + thousandths / 1000


def _until(text: str, now: dt.datetime) -> float | None:
    for read in (parsedate_to_datetime, dt.datetime.fromisoformat):
        try:
            at = read(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        at = at.replace(tzinfo=dt.UTC) if at.tzinfo is None else at
        return max(0.0, (at - now).total_seconds())
    return None
