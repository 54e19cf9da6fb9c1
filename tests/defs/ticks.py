"""Sensors that are ticked by hand, and what the daemon would leave behind."""

from __future__ import annotations

import uuid

import dagster as dg

from eval_pipeline.defs.launches import RAW_NAMES
from eval_pipeline.defs.tags import RANGE_END, RANGE_START
from eval_pipeline.settings import Settings

from .deliveries import CHANGED, deliver_golden, deliver_run, load

NAMES = frozenset((*RAW_NAMES, "facts.chunk_ranks", "metrics.hit_at_k", CHANGED, "aggregates.run_metrics"))


class Watch:
    """A sensor that keeps its cursor from tick to tick, and reports its events, as the daemon does."""

    def __init__(self, sensor, instance, store):
        self.sensor, self.instance, self.store, self.cursor = sensor, instance, store, None

    def tick(self):
        context = dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, resources={"store": self.store}
        )
        result = self.sensor(context)
        self.cursor = result.cursor
        for event in result.asset_events:
            self.instance.report_runless_asset_event(event)
        return list(
            result.run_requests or []
        ), result.skip_reason.skip_message if result.skip_reason else None


def record(instance, request, status=dg.DagsterRunStatus.SUCCESS):
    """What the daemon would leave behind of a requested run."""
    run = dg.DagsterRun(request.job_name, run_id=str(uuid.uuid4()), tags=dict(request.tags), status=status)
    instance.add_run(run)
    return run.run_id


def ranges(requests):
    return [(request.tags[RANGE_START], request.tags[RANGE_END]) for request in requests]


def assets(request):
    return {".".join(key.path) for key in request.asset_selection}


def in_the_store(settings: Settings, *runs: str) -> None:
    deliver_golden(settings.inbox.parent / "bundle")
    for day, run_id in enumerate(runs, start=1):
        deliver_run(settings.inbox.parent / "bundle", run_id, day=day)
    load(settings, settings.inbox.parent / "bundle")
