"""What was asked and paid, by run and by who was asked, and which of it may be removed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence

from eval_pipeline.bundle.parts import read_judgements
from eval_pipeline.evaluating.calls import Failure, Total
from eval_pipeline.planning.evaluate import open_calls
from eval_pipeline.store.kept import KeptDelivery
from eval_pipeline.store.project import Project


def find_calls(project: Project, run_id: str | None) -> tuple[list[Total], list[Failure]]:
    """Per party what was asked, and what came to nothing; of a run or of all."""
    with open_calls(project, asks_nobody=True) as calls:
        return calls.totals(run_id), calls.failures(run_id)


def prune_calls(project: Project, days: float) -> int:
    """Remove what is older, and what a kept delivery holds as it came back; how many answers that were."""
    if not project.settings.calls.exists():
        return 0
    held = _held(project)

    def in_deliveries(requests: Sequence[str]) -> Collection[str]:
        return held.intersection(requests)

    with open_calls(project) as calls:
        return calls.prune(project.clock() - dt.timedelta(days=days), in_deliveries)


def _held(project: Project) -> set[str]:
    """The requests whose raw answers lie in kept deliveries."""
    found: set[str] = set()
    for delivery in KeptDelivery.all(project.settings.db):
        for file in delivery.files() or ():
            path = delivery.path / file.name
            if file.part == "judgements" and path.is_file():
                found |= {
                    line.record.request
                    for line in read_judgements(path)
                    if line.record is not None
                    and line.record.request is not None
                    and line.record.raw is not None
                }
    return found
