"""Answers of targets and judges, and the bundles made of them, forgotten with the runs that asked."""

from __future__ import annotations

import shutil
from collections.abc import Collection

from eval_pipeline.bundle.parts import name_fault
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Project


def forget_calls(con: Connection, project: Project, run_ids: Collection[str], *, dry_run: bool) -> int:
    """What these runs paid or were judged by, and no other run's judgement uses; how many answers that were."""
    settings, gone = project.settings, 0
    if settings.calls.exists():
        from eval_pipeline.evaluating.calls import CallStore

        with CallStore(settings.calls, clock=project.clock) as calls:
            used = _judged_by(con, run_ids) | {one for run_id in run_ids for one in calls.paid_by(run_id)}
            alone = used - _judged_by(con, run_ids, by_others=True)
            gone = len(calls.answered(alone)) if dry_run else calls.forget(alone)
    if not dry_run:
        # What is no name of a run could lead anywhere.
        for run_id in (one for one in run_ids if not name_fault(one)):
            for folder in (settings.evaluations / run_id, settings.rejudged / run_id):
                if folder.is_dir():
                    shutil.rmtree(folder, ignore_errors=True)
    return gone


def is_begun(project: Project, run_id: str) -> bool:
    """Whether the run was asked for here, though it may never have been loaded."""
    return not name_fault(run_id) and (project.settings.evaluations / run_id).is_dir()


def _judged_by(con: Connection, run_ids: Collection[str], *, by_others: bool = False) -> set[str]:
    """The requests that these runs, or all others, hold the judgements of."""
    rows = con.execute(
        "select distinct request from raw.judgements join raw.runs using (run_key) "
        "where request is not null and list_contains(?, run_id) <> ?",
        [sorted(run_ids), by_others],
    ).fetchall()
    return {request for (request,) in rows}
