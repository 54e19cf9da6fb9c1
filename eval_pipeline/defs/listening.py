"""How a command hears of what its assets do: waiting, progress, and what went wrong as it was raised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from eval_pipeline.pipeline.measure import Progress
from eval_pipeline.store.lock import Tell


@dataclass
class Listener:
    """Lives as long as one command; a run that the daemon launches has one that nobody asks."""

    tell: Tell | None = None
    progress: Progress | None = None
    total: int = 0
    done: int = 0
    errors: list[Exception] = field(default_factory=list)

    @contextmanager
    def watching(self) -> Iterator[Progress | None]:
        """The block computes something; how far it got is added to what was done before."""
        reached = 0

        def report(position: int, _: int) -> None:
            nonlocal reached
            reached = position
            if self.progress:
                self.progress(min(self.done + position, self.total), self.total)

        try:
            yield report if self.progress else None
        finally:
            self.done += reached

    @contextmanager
    def hearing_errors(self) -> Iterator[None]:
        """Remember an exception of the block: Dagster would only hand on its text."""
        try:
            yield
        except Exception as error:
            self.errors.append(error)
            raise
