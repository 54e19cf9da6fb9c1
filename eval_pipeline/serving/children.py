"""A server as a process group of its own: started, looked after, ended with all that it started."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from eval_pipeline.serving.restarts import Restarts

# What servers say is no data; who reads the addresses and no more would block them once the pipe is full.
STANDARD_ERROR = 2


@dataclass
class Child:
    """One server: its name in sentences, what it is started with, and the process while there is one."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    restarts: Restarts = field(default_factory=Restarts)
    process: subprocess.Popen[bytes] | None = None
    # When it is to be started; None once it was, until it ends.
    due: float | None = 0.0
    started: float = 0.0
    _groups: list[int] = field(default_factory=list)

    @property
    def is_running(self) -> bool:
        """Whether its process lives."""
        return self.process is not None and self.process.poll() is None

    def start(self, now: float) -> None:
        """Start it in a group of its own: Ctrl-C on the terminal reaches the supervisor alone."""
        if self.process is not None:
            self.restarts.note(now)
        self.process = subprocess.Popen(
            self.command,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=STANDARD_ERROR,
            start_new_session=True,
        )
        self.due, self.started = None, now
        self._groups.append(self.process.pid)

    def kill(self) -> None:
        """End it alone: runs that it started may finish."""
        if self.process is not None:
            self.process.kill()

    def is_left(self) -> bool:
        """Whether anything of it, of those before it, or of what they started still lives."""
        if self.process is not None:
            self.process.poll()
        # A number whose processes are all gone may be given to somebody else's: it is never used again.
        self._groups = [group for group in self._groups if _has_members(group)]
        return bool(self._groups)

    def ask_to_end(self) -> None:
        """Tell it alone: a run that it started would tell, with a page of its own lines, where it was interrupted."""
        if self.is_running and self.process is not None:
            self.process.terminate()

    def kill_all(self) -> None:
        """End it, those before it and whatever they started."""
        if self.is_left():
            for group in self._groups:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(group, signal.SIGKILL)

    def how_it_ended(self) -> str:
        """In words."""
        code = self.process.returncode if self.process else None
        if code is None:
            return "did not start"
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


@dataclass(frozen=True)
class Servers:
    """The three servers of one home, and where they are reached."""

    code: Child
    web: Child
    daemon: Child
    socket: str
    address: str

    @property
    def all(self) -> Sequence[Child]:
        """In the order in which they are started."""
        return (self.code, self.web, self.daemon)

    @property
    def newest_start(self) -> float:
        """When the last of them was started, by the clock that only goes forward."""
        return max(one.started for one in self.all)


def _has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
