"""When a server that ended is started again, and when that is hopeless."""

from __future__ import annotations

from dataclasses import dataclass, field

MINUTE = 60.0
MOST_PER_MINUTE = 5
FIRST_PAUSE = 0.5


@dataclass
class Restarts:
    """The restarts of one server, by a clock of seconds that only goes forward."""

    times: list[float] = field(default_factory=list)
    total: int = 0

    def pause(self, now: float) -> float | None:
        """How long to wait before the next restart, twice as long each time; None after five within a minute."""
        recent = len(self._recent(now))
        return None if recent >= MOST_PER_MINUTE else FIRST_PAUSE * 2**recent

    def note(self, now: float) -> None:
        """It was started again."""
        self.times = [*self._recent(now), now]
        self.total += 1

    def _recent(self, now: float) -> list[float]:
        return [time for time in self.times if now - time < MINUTE]
