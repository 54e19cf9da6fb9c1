"""The sensor that tells a webhook which Dagster run has failed, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import dagster as dg

from eval_pipeline.bundle.secrets import masked
from eval_pipeline.config import Config
from eval_pipeline.defs.tags import NOTE, RANGE_END, RANGE_START, WHY
from eval_pipeline.defs.telling.webhook import tell

PARTITION: Final = "dagster/partition"
LONGEST_TEXT: Final = 500
DESCRIPTION: Final = (
    "Tells a webhook which Dagster run has failed and why, as one JSON document. Off unless [dagster] webhook names an "
    "address."
)


def failed_runs(config: Config) -> dg.SensorDefinition:
    """Off where nobody is to be told; a webhook that does not answer is said in the tick and holds nothing up."""
    on, off = dg.DefaultSensorStatus.RUNNING, dg.DefaultSensorStatus.STOPPED

    @dg.run_failure_sensor(
        name="failed_runs", default_status=on if config.webhook else off, description=DESCRIPTION
    )
    def watch(context: dg.RunFailureSensorContext) -> dg.SkipReason | None:
        if config.webhook is None:
            return dg.SkipReason("[dagster] webhook names no address")
        fault = tell(config.webhook, _document(context))
        return dg.SkipReason(f"the webhook was not told: {fault}") if fault else None

    return watch


def _document(context: dg.RunFailureSensorContext) -> Mapping[str, Any]:
    """What somebody who is woken up wants to know; `text` is what chats show."""
    run, tags = context.dagster_run, context.dagster_run.tags
    errors = [
        _first_line(event.step_failure_data.error)
        for event in context.get_step_failure_events()
        if event.step_failure_data.error
    ]
    found = {
        "event": "run_failed",
        "run_id": run.run_id,
        "job": run.job_name,
        "first_partition": tags.get(RANGE_START) or tags.get(PARTITION),
        "last_partition": tags.get(RANGE_END) or tags.get(PARTITION),
        "why": tags.get(WHY),
        "note": tags.get(NOTE),
        "message": (context.failure_event.message or "")[:LONGEST_TEXT],
        "errors": errors,
    }
    said = "; ".join(errors) or found["message"]
    document: Mapping[str, Any] = masked({"text": f"eval-pipeline: {run.job_name} failed: {said}", **found})
    return document


def _first_line(error: Any) -> str:
    """Of the error that began it, without its trace."""
    while error.cause is not None:
        error = error.cause
    return (
        str(error.message).strip().splitlines()[0][:LONGEST_TEXT]
        if str(error.message).strip()
        else error.cls_name
    )
