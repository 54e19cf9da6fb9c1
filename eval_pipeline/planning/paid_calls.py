"""What was asked and paid, by run and by who was asked, and which of it may be removed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from dataclasses import replace

from eval_pipeline.bundle.files import content_hash
from eval_pipeline.bundle.parts import read_judgements
from eval_pipeline.errors import UnknownName
from eval_pipeline.evaluating.calls import Failure, OldCall, Total
from eval_pipeline.evaluating.targets import NO_RESULT
from eval_pipeline.planning.evaluate import open_calls
from eval_pipeline.store.kept import KeptDelivery
from eval_pipeline.store.project import Project
from eval_pipeline.store.runs import run_ids
from eval_pipeline.words import rounded_usd


def find_calls(project: Project, run_id: str | None) -> tuple[list[Total], list[Failure]]:
    """Per party what was asked, and what came to nothing; of a run or of all."""
    with open_calls(project, asks_nobody=True) as calls:
        totals = [replace(one, usd=rounded_usd(one.usd)) for one in calls.totals(run_id)]
        failures = calls.failures(run_id)
        payers = calls.payers() if run_id is not None and not totals else []
    if run_id is not None and not totals:
        _check_known(project, run_id, payers)
    return totals, failures


def failed_judgements(project: Project, run_id: str) -> int:
    """How many calls of judges came to nothing when this run was evaluated."""
    with open_calls(project, asks_nobody=True) as calls:
        return sum(one.failed for one in calls.totals(run_id) if one.party.startswith("judge "))


def _check_known(project: Project, run_id: str, payers: Collection[str]) -> None:
    """A run that paid nothing is one of the store, or a slip of the pen."""
    with project.read() as store:
        known = run_ids(store.con)
    if run_id not in known:
        raise UnknownName("run", run_id, {*known, *payers})


def prune_calls(project: Project, days: float) -> int:
    """Remove what is older, and what a kept delivery holds as it came back; how many answers that were."""
    if not project.settings.calls.exists():
        return 0
    judged, answered = _held_judgements(project), _held_runs(project)

    def in_deliveries(old: Sequence[OldCall]) -> Collection[str]:
        return [
            one.request
            for one in old
            if (one.run_id in answered if one.party.startswith("target ") else one.request in judged)
        ]

    with open_calls(project) as calls:
        return calls.prune(project.clock() - dt.timedelta(days=days), in_deliveries)


# What was no result is read again when `answer` of the target is mended.
_READ_WHOLE = """
select r.run_id, p.content_hash
from raw.runs r
join raw.run_parts p on p.run_key = r.run_key and p.part = 'results'
where r.evaluation_state = 'complete' and not exists (
    select 1 from raw.results x where x.run_key = r.run_key and starts_with(x.error, $no_result)
)
"""


def _held_runs(project: Project) -> set[str]:
    """The runs that are whole and of which a kept delivery has every reply, read, as it was delivered."""
    with project.read() as store:
        whole = set(store.con.execute(_READ_WHOLE, {"no_result": NO_RESULT}).fetchall())
    return {
        file.run_id
        for delivery in KeptDelivery.all(project.settings.db)
        for file in delivery.files() or ()
        if file.run_id is not None
        and file.part == "results"
        and (file.run_id, file.content_hash) in whole
        and (delivery.path / file.name).is_file()
        # Nothing was left out of it, and nothing forgotten.
        and content_hash(delivery.path / file.name) == file.content_hash
    }


def _held_judgements(project: Project) -> set[str]:
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
