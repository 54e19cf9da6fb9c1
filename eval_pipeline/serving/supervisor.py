"""The loop: starts servers, starts them again, ends everything."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from eval_pipeline.errors import EvalPipelineError, ServersFailed
from eval_pipeline.serving.children import Child
from eval_pipeline.serving.restarts import MOST_PER_MINUTE
from eval_pipeline.store.lock import Notify

TICK_SECONDS = 0.2
# What was asked to end has this long; then it is ended.
END_SECONDS = 0.7
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class Supervisor:
    """Servers that are kept running until somebody asks for the end.

    `may_start` says whether a server's turn has come; `reason` knows why servers end that somebody can do something
    about, as the error to end with.
    """

    children: Sequence[Child]
    may_start: Callable[[Child], bool]
    reason: Callable[[], EvalPipelineError | None]
    notify: Notify
    clock: Callable[[], float] = time.monotonic
    stopping: threading.Event = field(default_factory=threading.Event)
    patience: float = END_SECONDS
    asked_by: int | None = None

    def run(self) -> None:
        """Until somebody asks for the end; whatever happens, no server stays behind."""
        with self._hearing():
            try:
                while not self.stopping.wait(TICK_SECONDS):
                    self.look()
            finally:
                self._end()
        if self.asked_by == signal.SIGINT:
            raise KeyboardInterrupt

    def look(self) -> None:
        """Start what is to be started now; what has ended is to be started after a pause."""
        now = self.clock()
        for child in self.children:
            if child.due is None and not child.is_running:
                child.due = now + self._pause(child, now)
            if child.due is not None and child.due <= now and self.may_start(child):
                child.start(now)

    def _pause(self, child: Child, now: float) -> float:
        pause = child.restarts.pause(now)
        if pause is None:
            raise self.reason() or ServersFailed(
                f"the {child.name} {child.how_it_ended()} after {MOST_PER_MINUTE} restarts within a minute, so all "
                "servers are ended; what it said last stands above, what was computed stands"
            )
        self.notify(f"the {child.name} {child.how_it_ended()}; it is started again in {pause:g} s")
        return pause

    @contextmanager
    def _hearing(self) -> Iterator[None]:
        # What was started in the background of a shell ignores interrupts unless told otherwise.
        before = {number: signal.signal(number, self._hear) for number in ENDING}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _hear(self, number: int, _: object) -> None:
        self.asked_by = number
        self.stopping.set()

    def _end(self) -> None:
        for child in self.children:
            child.ask_to_end()
        deadline = time.monotonic() + self.patience
        while any(child.is_left() for child in self.children) and time.monotonic() < deadline:
            time.sleep(TICK_SECONDS / 4)
        for child in self.children:
            child.kill_all()
            if child.process is not None:
                child.process.wait()
