"""To be killed as the system kills, at a chosen step: before a statement that is sent to DuckDB, or before a file changes.

Only what anybody could see is counted (statements, and what Python's audit says of files), so that the code between may
be changed without a thought to this.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

CHANGES = ("os.remove", "os.rename", "os.link", "os.rmdir", "os.truncate", "shutil.rmtree")


class Steps:
    """Counts what happens, and kills its process before the chosen step."""

    def __init__(self, fatal: Callable[[int, str], bool]) -> None:
        self.count, self._fatal = 0, fatal

    def step(self, what: str, con: Any = None) -> None:
        self.count += 1
        if self._fatal(self.count, what):
            self.end(con)

    def end(self, con: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def watch_statements(self) -> None:
        connect = duckdb.connect
        duckdb.connect = lambda *arguments, **named: _Watched(connect(*arguments, **named), self)  # type: ignore

    def watch_files(self, folder: Path) -> None:
        def hear(event: str, arguments: tuple[Any, ...]) -> None:
            if event in CHANGES and str(arguments[0]).startswith(str(folder)):
                self.step(f"{event} {arguments[0]}")

        sys.addaudithook(hear)


class _Watched:
    """A connection whose statements are counted."""

    def __init__(self, con: Any, steps: Steps) -> None:
        self._con, self._steps = con, steps

    def execute(self, sql: str, *arguments: Any) -> Any:
        self._steps.step(sql, self._con)
        return self._con.execute(sql, *arguments)

    def cursor(self) -> _Watched:
        return _Watched(self._con.cursor(), self._steps)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._con, name)


class Disturbed(Steps):
    """Does something before the first statement with these words in it, instead of dying."""

    def __init__(self, words: str, do: Callable[[Any], object]) -> None:
        super().__init__(lambda _, what: words in what and not self.is_done)
        self.is_done, self._do = False, do

    def end(self, con: Any) -> None:
        self.is_done = True
        self._do(con)


def die_at_step(number: int, folder: Path) -> Steps:
    """Die before the step with this number; 0 lets everything happen."""
    steps = Steps(lambda count, _: count == number)
    steps.watch_statements()
    steps.watch_files(folder)
    return steps


def die_at(words: str, number: int, folder: Path) -> None:
    """Die before the step that is the so-manyth with these words in it."""
    found = [0]

    def is_fatal(_: int, what: str) -> bool:
        found[0] += words in what
        return found[0] == number

    steps = Steps(is_fatal)
    steps.watch_statements()
    steps.watch_files(folder)
