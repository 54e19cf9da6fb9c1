"""The schedule that takes the night in, at the hour that eval-pipeline.toml says."""

from __future__ import annotations

import dagster as dg

from eval_pipeline.config import Config
from eval_pipeline.defs.jobs import Jobs
from eval_pipeline.defs.resources import StoreResource
from eval_pipeline.defs.sensors import (
    _ending_requests,
    _look,
    _not_loaded,
    _nothing_there,
    _run_requests,
    _why_not,
)
from eval_pipeline.errors import InvalidConfig
from eval_pipeline.loading.inbox import look_into, take_in_sources

DESCRIPTION = (
    "Takes the night in: loads what lies in the inbox and computes what is missing or was delivered again, unless the "
    "sensor new_runs has done it already. It evaluates nothing: no system and no judge is called. The sensor "
    "new_comparisons then compares the runs and publishes their pages."
)


def nightly(jobs: Jobs, names: frozenset[str], config: Config) -> dg.ScheduleDefinition:
    """Every night: what of `names` has arrived and is missing."""

    def launch(
        context: dg.ScheduleEvaluationContext, store: StoreResource
    ) -> dg.SkipReason | list[dg.RunRequest]:
        busy = _why_not(context.instance, store)
        if busy:
            return dg.SkipReason(busy)
        inbox = look_into(store.settings.inbox)
        if not store.settings.db.exists() and not inbox.runs and not inbox.sources:
            return dg.SkipReason(_nothing_there(store.settings))
        if inbox.sources:
            take_in_sources(store.project())
        registry = store.project().definitions()
        look = _look(context.instance, store, inbox, registry)
        requests = _run_requests(context.instance, look, names, registry)
        requests = requests or _ending_requests(context.instance, store, registry)
        return requests or dg.SkipReason(f"{look.nothing_to_do}{_not_loaded(store.settings, inbox)}")

    try:
        return dg.schedule(
            name="nightly",
            cron_schedule=config.nightly,
            execution_timezone=config.timezone,
            job=jobs.nightly_evaluation,
            default_status=dg.DefaultScheduleStatus.STOPPED,
            description=DESCRIPTION,
        )(launch)
    except dg.DagsterInvalidDefinitionError as error:
        raise InvalidConfig(
            f"{config.path}: [dagster] nightly is {config.nightly!r}, and no clock ever shows that; "
            'an hour such as "02:00" is enough'
        ) from error
