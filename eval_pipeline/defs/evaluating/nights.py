"""Which run a Dagster run of a suite makes: one for each night, so that it can be continued."""

import datetime as dt
from typing import Final
from zoneinfo import ZoneInfo

import dagster as dg

# On a Dagster run: which run it makes. A re-execution has the tags of what it repeats.
MAKES: Final = "eval_pipeline/run"


def _name_of_night(suite: str, timezone: str, at: dt.datetime) -> str:
    """The run of the night that this moment lies in."""
    return f"{suite}-{at.astimezone(ZoneInfo(timezone)).date().isoformat()}"


def _run_to_make(instance: dg.DagsterInstance, run: dg.DagsterRun, suite: str, timezone: str) -> str:
    """The run that the tag names, else that of the night in which the first of its executions was launched."""
    if named := run.tags.get(MAKES):
        return named
    # The first of them may have been deleted since.
    runs = (run.root_run_id or run.run_id, run.run_id)
    at = next(found.create_timestamp for one in runs if (found := instance.get_run_record_by_id(one)))
    return _name_of_night(suite, timezone, at if at.tzinfo else at.replace(tzinfo=dt.UTC))
