"""Servers that end are started again, in time or not at all; what supervises them leaves nothing behind."""

from __future__ import annotations

import datetime as dt
import errno
import inspect
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
from dagster._daemon import controller
from dagster._daemon.backfill import execute_backfill_iteration_loop
from dagster._grpc import impl as dagster_grpc

from eval_pipeline.cli.main import main
from eval_pipeline.defs.processes import SUPERVISED_BY, fail_dead_runs
from eval_pipeline.errors import ServersFailed, UsageError
from eval_pipeline.serving import servers
from eval_pipeline.serving.care import Care
from eval_pipeline.serving.children import Child, Servers
from eval_pipeline.serving.health import listen
from eval_pipeline.serving.restarts import MOST_PER_MINUTE, Restarts
from eval_pipeline.serving.servers import serve
from eval_pipeline.serving.supervisor import Supervisor
from eval_pipeline.settings import Settings, load_settings, utc_now
from tests.projects import project_of

from .served import is_alive, until

SLEEPING = (sys.executable, "-c", "import time; time.sleep(600)")
ENDING = (sys.executable, "-c", "import sys; sys.exit(3)")


def test_each_restart_within_a_minute_waits_twice_as_long_and_after_five_there_is_none():
    restarts, now, pauses = Restarts(), 0.0, []
    while (pause := restarts.pause(now)) is not None:
        pauses.append(pause)
        now += pause
        restarts.note(now)
    assert pauses == [0.5, 1, 2, 4, 8]
    assert restarts.pause(now + 59) is not None


def test_a_server_that_held_for_a_minute_is_started_again_as_if_for_the_first_time():
    restarts = Restarts()
    for second in range(MOST_PER_MINUTE):
        restarts.note(float(second))
    assert restarts.pause(30.0) is None
    assert restarts.pause(64.5) == 0.5
    assert restarts.total == MOST_PER_MINUTE


class Clock:
    """Time that passes only when somebody says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def supervisor_of(
    *children: Child, reason: Callable[[], UsageError | None] = lambda: None
) -> tuple[Supervisor, Clock, list[str]]:
    clock, said = Clock(), []
    return Supervisor(children, lambda _: True, reason, said.append, clock=clock), clock, said


def look_until_it_ends(supervisor: Supervisor, clock: Clock, child: Child) -> None:
    """Every restart ends at once; the clock jumps over the pauses."""
    while True:
        supervisor.look()
        if child.due is None and child.process is not None:
            child.process.wait()
        else:
            clock.now = child.due or 0.0


def test_five_restarts_within_a_minute_end_everything_with_an_error_that_says_so():
    child = Child("daemon", ENDING, os.environ)
    supervisor, clock, said = supervisor_of(child)
    with pytest.raises(ServersFailed, match="daemon ended with exit code 3 after 5 restarts") as ended:
        look_until_it_ends(supervisor, clock, child)
    assert ended.value.exit_code == 70
    assert said[0] == "the daemon ended with exit code 3; it is started again in 0.5 s"
    assert len(said) == MOST_PER_MINUTE


def test_where_a_full_disk_is_why_servers_end_that_is_the_error():
    child = Child("daemon", ENDING, os.environ)
    supervisor, clock, _ = supervisor_of(child, reason=lambda: UsageError("the disk is full"))
    with pytest.raises(UsageError, match="the disk is full"):
        look_until_it_ends(supervisor, clock, child)


def test_a_killed_server_is_another_process_after_its_pause():
    child = Child("daemon", SLEEPING, os.environ)
    supervisor, clock, said = supervisor_of(child)
    supervisor.look()
    first = child.process
    assert first is not None
    try:
        first.kill()
        first.wait()
        supervisor.look()
        assert not child.is_running
        clock.now = 0.5
        supervisor.look()
        assert child.is_running
        assert child.process is not first
        assert said == ["the daemon was ended by SIGKILL; it is started again in 0.5 s"]
    finally:
        child.kill_all()


def ask_once_both_run(folder: Path, number: signal.Signals) -> None:
    until(lambda: len([*folder.iterdir()]) == 2, "both processes run", seconds=30)
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(("number", "interrupts"), [(signal.SIGTERM, False), (signal.SIGINT, True)])
def test_whoever_asks_for_the_end_leaves_no_process_not_even_one_that_does_not_listen(
    number, interrupts, tmp_path
):
    deaf = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "os.fork()\n"
        "open(f'{sys.argv[1]}/{os.getpid()}', 'w')\n"
        "time.sleep(600)"
    )
    child = Child("daemon", (sys.executable, "-c", deaf, str(tmp_path)), os.environ)
    supervisor, _, _ = supervisor_of(child)
    supervisor.patience = 0.1
    threading.Thread(target=ask_once_both_run, args=(tmp_path, number)).start()
    if interrupts:
        with pytest.raises(KeyboardInterrupt):
            supervisor.run()
    else:
        supervisor.run()
    pids = [int(path.name) for path in tmp_path.iterdir()]
    until(lambda: not any(map(is_alive, pids)), "neither process runs", seconds=30)


@pytest.mark.parametrize("command", ["ui", "serve"])
def test_ctrl_c_is_how_servers_are_meant_to_end_and_no_error(command, tmp_path, monkeypatch, capsys):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(servers, "serve", interrupted)
    with pytest.raises(SystemExit) as left:
        main([command, "--db", str(tmp_path / "eval.duckdb")])
    assert left.value.code == 130
    assert capsys.readouterr().err == "stopped\n"


@contextmanager
def listening(faults: list[str]) -> Iterator[str]:
    server = listen(lambda: faults, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def test_healthz_answers_200_only_where_nothing_is_wrong_and_else_says_what_is():
    faults: list[str] = []
    with listening(faults) as address:
        with urllib.request.urlopen(address + "/healthz") as answer:
            assert (answer.status, answer.read()) == (200, b'{"ok": true, "faults": []}\n')
        faults.append("daemon: is not running")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(address + "/healthz")
        with refused.value as answer:
            assert (answer.code, answer.read()) == (
                503,
                b'{"ok": false, "faults": ["daemon: is not running"]}\n',
            )
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(address + "/")


def test_a_server_ends_by_itself_when_its_supervisor_is_killed(tmp_path):
    supervisor = subprocess.Popen(SLEEPING)
    began = Path(f"/proc/{supervisor.pid}/stat").read_text("utf-8").rpartition(")")[2].split()[19]
    words = ("-m", "eval_pipeline.serving.child", "http.server", "0", "--directory", str(tmp_path))
    server = subprocess.Popen(
        (sys.executable, "-u", *words),
        env={**os.environ, SUPERVISED_BY: f"{socket.gethostname()}:{supervisor.pid}:{began}"},
        stdout=subprocess.PIPE,
        text=True,
    )
    with supervisor, server:
        assert server.stdout is not None
        assert "Serving HTTP" in server.stdout.readline()
        supervisor.kill()
        supervisor.wait()
        assert server.wait(timeout=30) == -signal.SIGKILL


def test_what_a_server_says_goes_to_standard_error_where_no_address_is_read(capfd):
    child = Child("daemon", (sys.executable, "-c", "print('a remark')"), os.environ)
    child.start(0.0)
    assert child.process is not None
    child.process.wait()
    assert capfd.readouterr() == ("", "a remark\n")


def settings_in(folder: Path) -> Settings:
    return load_settings(
        {
            "EVAL_PIPELINE_DB": str(folder / "eval.duckdb"),
            "EVAL_PIPELINE_INBOX": str(folder),
            "DAGSTER_HOME": str(folder / "home"),
        }
    )


def test_settings_of_dagster_that_are_not_yaml_are_said_before_any_server_is_started(tmp_path):
    settings = settings_in(tmp_path)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "dagster.yaml").write_text("a: [b\n")
    with pytest.raises(UsageError, match=r"dagster\.yaml is not YAML"):
        serve(project_of(settings), 0, started=lambda _: None)


def test_a_full_disk_under_the_home_is_said_once_in_words_and_is_why_the_command_ends(tmp_path, monkeypatch):
    said: list[str] = []
    servers = Servers(*(Child(name, SLEEPING, {}) for name in "cwd"), socket="", address="")
    with dg.DagsterInstance.ephemeral() as instance:
        care = Care(instance, tmp_path, servers, utc_now, said.append)
        monkeypatch.setattr(Path, "write_bytes", full)
        care.see_to_home()
        care.see_to_home()
        assert said == [care.home_fault]
        assert "No space left on device; make room there" in said[0]
        monkeypatch.undo()
        care.see_to_home()
        assert care.home_fault is None


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_run_without_a_process_ends_with_the_servers_it_was_launched_under_and_one_that_starts_does_not():
    with dg.DagsterInstance.ephemeral() as instance:
        waiting, starting = (
            dg.DagsterRun("some_job", run_id=str(uuid.uuid4()), status=dg.DagsterRunStatus.STARTING)
            for _ in range(2)
        )
        for run in (waiting, starting):
            instance.add_run(run)
        instance.report_engine_event(f"Started process for run (pid: {os.getpid()}).", starting)
        now = utc_now()
        assert fail_dead_runs(instance, now=now, servers_since=now - dt.timedelta(minutes=1)) == []
        later = now + dt.timedelta(minutes=1)
        assert fail_dead_runs(instance, now=now, servers_since=later) == [waiting.run_id]


def test_dagster_still_says_which_process_it_started_for_a_run():
    assert 'f"Started process for run (pid: {pid})."' in inspect.getsource(dagster_grpc)


def test_dagster_still_reads_how_often_it_looks_at_backfills_where_that_is_said():
    assert controller.DEFAULT_DAEMON_INTERVAL_SECONDS == 30
    read = "from dagster._daemon.controller import DEFAULT_DAEMON_INTERVAL_SECONDS"
    assert read in inspect.getsource(execute_backfill_iteration_loop)
