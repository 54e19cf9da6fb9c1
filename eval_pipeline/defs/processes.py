"""Which process executes a run: dead runs are failed, servers end with their supervisor."""

from __future__ import annotations

import datetime as dt
import os
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._core.instance.ref import InstanceRef
from dagster._serdes import serialize_value

# For whoever only hands it on: Dagster is imported here.
Instance = dg.DagsterInstance
PROCESS_TAG = "eval_pipeline/process"
# Of a run that evaluates a suite: it takes no partitions for itself and may last for hours, so nothing waits for it.
EVALUATES = {".dagster/eval_pipeline.evaluates": "yes"}
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
PROCESS_STARTED = re.compile(r"Started process for run \(pid: (\d+)\)")
# Each part of the daemon is heard of every 30 seconds.
DAEMON_PATIENCE = dt.timedelta(minutes=2)
# The environment of supervised servers, and of every process they start: which process supervises them.
SUPERVISED_BY = "EVAL_PIPELINE_SUPERVISED_BY"
LOOK_SECONDS = 1.0
BACKFILL_SECONDS = 10
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


def fail_dead_runs(
    instance: dg.DagsterInstance, *, now: dt.datetime, servers_since: dt.datetime | None = None
) -> list[str]:
    """Mark the runs whose process is gone as failed; returns their ids.

    `servers_since`: what was launched before all servers were there, and no process was started for, is gone too.
    """
    dead: list[str] = []
    for record in instance.get_run_records(dg.RunsFilter(statuses=list(HAS_A_PROCESS))):
        run = record.dagster_run
        touched = record.update_timestamp.astimezone(dt.UTC).replace(tzinfo=None)
        process = run.tags.get(PROCESS_TAG)
        is_of_dead_servers = (
            process is None
            and servers_since is not None
            and touched < servers_since
            and not _is_being_started(instance, run.run_id)
        )
        if _is_dead(process, is_old=is_of_dead_servers or now - touched > PATIENCE):
            instance.report_run_failed(run, GONE)
            dead.append(run.run_id)
    return dead


def _is_being_started(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Whether a process was started for this run and lives; before it says so itself, Dagster's events do."""
    events = instance.all_logs(run_id, of_type=dg.DagsterEventType.ENGINE_EVENT)
    pids = [found.group(1) for event in events if (found := PROCESS_STARTED.search(event.message))]
    return any(_started_at(int(pid)) is not None for pid in pids)


def runs_under_way(instance: dg.DagsterInstance) -> int:
    """How many runs wait, start or are being executed, but for those that evaluate a suite."""
    statuses = list(UNDER_WAY)
    found = instance.get_runs_count(dg.RunsFilter(statuses=statuses))
    if not found:
        return 0
    return found - instance.get_runs_count(dg.RunsFilter(statuses=statuses, tags=EVALUATES))


def _is_dead(process: str | None, *, is_old: bool) -> bool:
    if process is None:
        return is_old
    host, pid, started_at = process.split(":", 2)
    return is_old if host != socket.gethostname() else _started_at(int(pid)) != started_at


def end_with_the_supervisor() -> None:
    """Where servers are supervised, this process ends at once when their supervisor is gone, however that ended.

    Its own death by a signal that nobody can handle is what everything here is built to survive.
    """
    supervisor = os.environ.get(SUPERVISED_BY)
    if supervisor and not any(thread.name == SUPERVISED_BY for thread in threading.enumerate()):
        threading.Thread(target=_end_with, args=(supervisor,), name=SUPERVISED_BY, daemon=True).start()


def _end_with(process: str) -> None:
    while not _is_dead(process, is_old=False):
        time.sleep(LOOK_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def hasten_backfills() -> None:
    """Have a daemon in this process look at backfills every few seconds; Dagster's 30 are no setting."""
    from dagster._daemon import controller

    controller.DEFAULT_DAEMON_INTERVAL_SECONDS = BACKFILL_SECONDS


def answers(server: str, *, seconds: int) -> bool:
    """Whether the code server at this socket answers, and the process behind it that has loaded the code."""
    from dagster._grpc.client import DagsterGrpcClient

    try:
        DagsterGrpcClient(socket=server).get_server_id(timeout=seconds)
    except DagsterUserCodeUnreachableError:
        return False
    return True


def instance_for_servers(home: Path) -> str:
    """The instance of a home as servers are told it, with what supervised ones need where the home says nothing of it.

    Runs print remarks and failures on the terminal, not a line for every event. A queued run is begun within a second,
    and waits for a code server that is being started again.
    """
    said = yaml.safe_load((home / "dagster.yaml").read_text("utf-8")) or {}
    overrides: dict[str, Any] = {}
    if "python_logs" not in said:
        overrides["python_logs"] = {"python_log_level": "INFO"}
    if not {"run_queue", "run_coordinator", "concurrency"} & set(said):
        overrides["run_queue"] = {
            "dequeue_interval_seconds": 1,
            "max_user_code_failure_retries": 10,
            "user_code_failure_retry_delay": 5,
        }
    return serialize_value(InstanceRef.from_dir(str(home), overrides=overrides))


def silent_daemons(instance: dg.DagsterInstance, *, now: dt.datetime) -> list[str]:
    """The parts of Dagster's daemon that have not been heard of for too long."""
    heard = instance.get_daemon_heartbeats()
    oldest = (now - DAEMON_PATIENCE).replace(tzinfo=dt.UTC).timestamp()
    return sorted(
        name.lower()
        for name in instance.get_required_daemon_types()
        if name not in heard or heard[name].timestamp < oldest
    )


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
