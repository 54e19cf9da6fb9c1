"""Dagster runs whose process has died are marked as failed."""

from __future__ import annotations

import datetime as dt
import os
import socket
import subprocess
from pathlib import Path

import dagster as dg

PROCESS_TAG = "eval_pipeline/process"
UNDER_WAY = (
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)
HAS_A_PROCESS = (
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)
# A run that never said who it is, or is somebody else's machine's, is given up after this long.
PATIENCE = dt.timedelta(hours=1)
GONE = (
    "The process of this run is gone. What it had finished stands, nothing is half written: launch it again."
)


def this_process() -> str:
    """Host, number and start of this process: the number alone is given out again."""
    return f"{socket.gethostname()}:{os.getpid()}:{_started_at(os.getpid())}"


def _sign_run(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Note on the run which process executes it."""
    if run.tags.get(PROCESS_TAG) != this_process():
        instance.add_run_tags(run.run_id, {PROCESS_TAG: this_process()})


def fail_dead_runs(instance: dg.DagsterInstance, *, now: dt.datetime) -> list[str]:
    """Mark the runs whose process is gone as failed; returns their ids."""
    dead: list[str] = []
    for record in instance.get_run_records(dg.RunsFilter(statuses=list(HAS_A_PROCESS))):
        run = record.dagster_run
        touched = record.update_timestamp.astimezone(dt.UTC).replace(tzinfo=None)
        if _is_dead(run.tags.get(PROCESS_TAG), is_old=now - touched > PATIENCE):
            instance.report_run_failed(run, GONE)
            dead.append(run.run_id)
    return dead


def runs_under_way(instance: dg.DagsterInstance) -> int:
    """How many runs wait, start or are being executed."""
    return instance.get_runs_count(dg.RunsFilter(statuses=list(UNDER_WAY)))


def _is_dead(process: str | None, *, is_old: bool) -> bool:
    if process is None:
        return is_old
    host, pid, started_at = process.split(":", 2)
    return is_old if host != socket.gethostname() else _started_at(int(pid)) != started_at


def _started_at(pid: int) -> str | None:
    """When the process with this number was started, in whatever words the system has; None when there is none."""
    try:
        # The name in the second field may hold spaces and parentheses: count from the last of them.
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        return None if fields[0] == "Z" else fields[19]
    except OSError:
        if Path("/proc/self/stat").exists():
            return None
    said = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return said.stdout.strip() or None
