"""What servers need beside being started: deaf ones noticed, dead runs failed, a full disk told."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from eval_pipeline.defs.home_faults import why_untold
from eval_pipeline.defs.processes import Instance, answers, fail_dead_runs
from eval_pipeline.serving.children import Servers
from eval_pipeline.store.lock import Notify

LOOK_SECONDS = 3.0
# Until the code server has answered for the first time the others wait for it.
FIRST_LOOK_SECONDS = 0.25
ANSWER_SECONDS = 10
MOST_SILENT_LOOKS = 3
START_SECONDS = 120.0
# A run that was asked for has a process within this long, also on a machine that is busy.
LAUNCH_PATIENCE = dt.timedelta(seconds=45)
ROOM_BYTES = 65_536


@dataclass
class Care:
    """Looks after servers from a thread of its own, so that whoever wants the end does not wait for an answer."""

    instance: Instance
    home: Path
    servers: Servers
    clock: Callable[[], dt.datetime]
    notify: Notify
    stopping: threading.Event = field(default_factory=threading.Event)
    has_answered: threading.Event = field(default_factory=threading.Event)
    home_fault: str | None = None
    _silent_looks: int = 0
    _answered_start: float | None = None

    def start(self) -> None:
        """Look every few seconds until everything ends."""
        threading.Thread(target=self._run, name="care", daemon=True).start()

    def _run(self) -> None:
        pause = FIRST_LOOK_SECONDS
        while not self.stopping.wait(pause):
            self._listen()
            if self.has_answered.is_set():
                pause = LOOK_SECONDS
                self.see_to_home()

    def _listen(self) -> None:
        """Whether the code server answers; one that is there and deaf is ended, and started again like any other."""
        server = self.servers.code
        if not server.is_running:
            return
        if answers(self.servers.socket, seconds=ANSWER_SECONDS):
            self._answered_start, self._silent_looks = server.started, 0
            self.has_answered.set()
        elif self._answered_start == server.started:
            self._silent_looks += 1
        if self._silent_looks >= MOST_SILENT_LOOKS or self._takes_too_long():
            self._silent_looks = 0
            self.notify(f"the {server.name} does not answer")
            server.kill()

    def _takes_too_long(self) -> bool:
        server = self.servers.code
        return self._answered_start != server.started and time.monotonic() - server.started > START_SECONDS

    def see_to_home(self) -> None:
        """Fail what is dead, and say once what stands in the way of Dagster's events."""
        before, self.home_fault = self.home_fault, None
        try:
            _make_sure_of_room(self.home)
            self._fail_dead_runs()
        except Exception as error:
            self.home_fault = why_untold(self.home, error) or f"{type(error).__name__}: {error}"
        if self.home_fault and self.home_fault != before:
            self.notify(self.home_fault)

    def _fail_dead_runs(self) -> None:
        """Runs whose process is gone; those that never got one, once they had the time to."""
        age = dt.timedelta(seconds=time.monotonic() - self.servers.newest_start)
        now = self.clock()
        fail_dead_runs(self.instance, now=now, servers_since=now - age if age > LAUNCH_PATIENCE else None)

    def fail_runs_of_ended_servers(self) -> None:
        """Where nothing of the servers is left, none of their runs is: they are not shown as running."""
        now = self.clock()
        fail_dead_runs(self.instance, now=now, servers_since=now)


def _make_sure_of_room(home: Path) -> None:
    """A disk that is full says so here, in words, before every server says it in many lines of its own."""
    probe = home / "room.probe"
    try:
        probe.write_bytes(bytes(ROOM_BYTES))
    finally:
        probe.unlink(missing_ok=True)
