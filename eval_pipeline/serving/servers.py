"""Which servers there are, what must hold before they are started, and how they are asked."""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from eval_pipeline.defs.home_faults import why_untold
from eval_pipeline.defs.processes import (
    SUPERVISED_BY,
    Instance,
    answers,
    instance_for_servers,
    silent_daemons,
    this_process,
)
from eval_pipeline.errors import NotAStore, StoreError, StoreNewer, UsageError
from eval_pipeline.launch import (
    HOST,
    offer_storage,
    open_instance,
    show_what_was_computed,
    ui_environment,
)
from eval_pipeline.serving.care import Care
from eval_pipeline.serving.child import WEB_SERVER
from eval_pipeline.serving.children import Child, Servers
from eval_pipeline.serving.health import ANSWER_SECONDS, PATH, _web_faults, listen
from eval_pipeline.serving.supervisor import Supervisor
from eval_pipeline.settings import Settings, check_places
from eval_pipeline.store.project import Project

LOCATION = "eval_pipeline.definitions"
ANNOUNCE_SECONDS = 0.3
Started = Callable[[str], None]


def _find_faults(servers: Servers, instance: Instance, care: Care) -> list[str]:
    """Everything that keeps the servers from doing their work now."""
    found = [f"{one.name}: is not running" for one in servers.all if not one.is_running]
    if servers.code.is_running and not answers(servers.socket, seconds=ANSWER_SECONDS):
        found.append(f"{servers.code.name}: does not answer")
    if servers.web.is_running:
        found += _web_faults(servers.address)
    if care.home_fault:
        found.append(care.home_fault)
    elif servers.daemon.is_running:
        silent = silent_daemons(instance, now=care.clock())
        found += [f"daemon: {name} was not heard of for too long" for name in silent]
    return found


def serve(project: Project, port: int, *, health_port: int | None = None, started: Started) -> None:
    """Keep Dagster's web server, daemon and code server running on this project, on 127.0.0.1, until asked to end.

    `started` is told the address once it answers, with `health_port` that of `/healthz` too. Port 0 takes a free one.
    """
    settings = project.settings
    check_places(settings)
    port = _free_port(port, "--port")
    _check_version(project)
    with ExitStack() as stack:
        if health_port is not None:
            health_port = _free_port(health_port, "--health-port")
        instance = stack.enter_context(_opened(settings))
        offer_storage(project)
        show_what_was_computed(project)
        # Below a folder that nobody else may enter: who reaches the code server can have code executed.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="eval-pipeline-servers-")))
        servers = _servers(folder, port, settings)
        _supervise(project, instance, servers, health_port, started)


def _supervise(
    project: Project,
    instance: Instance,
    servers: Servers,
    health_port: int | None,
    started: Started,
) -> None:
    notify = project.notify or warnings.warn
    care = Care(instance, project.settings.dagster_home, servers, project.clock, notify)
    supervisor = Supervisor(
        servers.all,
        may_start=lambda one: one is servers.code or care.has_answered.is_set(),
        reason=lambda: UsageError(care.home_fault) if care.home_fault else None,
        notify=notify,
        stopping=care.stopping,
    )
    addresses = [servers.address]
    if health_port is not None:
        listen(lambda: _find_faults(servers, instance, care), HOST, health_port)
        addresses.append(f"http://{HOST}:{health_port}{PATH}")
    care.start()
    threading.Thread(target=_announce, args=(servers, care, started, addresses), daemon=True).start()
    try:
        supervisor.run()
    finally:
        with suppress(Exception):
            care.fail_runs_of_ended_servers()


def _announce(servers: Servers, care: Care, started: Started, addresses: Sequence[str]) -> None:
    while not care.stopping.wait(ANNOUNCE_SECONDS):
        if care.has_answered.is_set() and not _web_faults(servers.address):
            for address in addresses:
                started(address)
            return


@contextmanager
def _opened(settings: Settings) -> Iterator[Instance]:
    """Dagster's memory; what stands in its way is said in words, before any server says it in its own."""
    with ExitStack() as stack:
        try:
            instance = stack.enter_context(open_instance(settings))
        except Exception as error:
            why = why_untold(settings.dagster_home, error)
            if why is None:
                raise
            raise UsageError(why) from error
        yield instance


def _environment(settings: Settings) -> dict[str, str]:
    return {
        **ui_environment(settings, os.environ),
        # What Dagster cannot load of the definitions is said without a page of its own lines.
        "DAGSTER_IS_DEV_CLI": "1",
        # A backfill waits while the code server is started again; it would fail.
        "DAGSTER_BACKFILL_RETRY_DEFINITION_CHANGED_ERROR": "1",
        SUPERVISED_BY: this_process(),
    }


def _servers(folder: Path, port: int, settings: Settings) -> Servers:
    environment, instance = _environment(settings), instance_for_servers(settings.dagster_home)
    socket_path, workspace = folder / "code.sock", folder / "workspace.yaml"
    location = {"host": "localhost", "socket": str(socket_path), "location_name": LOCATION}
    # JSON is YAML.
    workspace.write_text(json.dumps({"load_from": [{"grpc_server": location}]}), "utf-8")

    def server(name: str, *command: str) -> Child:
        begin = (sys.executable, "-W", "ignore", "-m", "eval_pipeline.serving.child")
        return Child(name, (*begin, *command, "--instance-ref", instance), environment)

    level = ("--log-level", "warning")
    code = ("dagster", "code-server", "start", "--socket", str(socket_path), "-m", LOCATION)
    web = (WEB_SERVER, "-h", HOST, "-p", str(port), "-w", str(workspace))
    return Servers(
        code=server("code server", *code, "--use-python-environment-entry-point", *level),
        web=server("web server", *web, "--dagster-log-level", "warning"),
        daemon=server("daemon", "dagster._daemon", "run", "-w", str(workspace), *level),
        socket=str(socket_path),
        address=f"http://{HOST}:{port}/",
    )


def _check_version(project: Project) -> None:
    """What is no store of this version is refused here, not by every sensor; what is broken is shown there."""
    try:
        with project.read():
            pass
    except (NotAStore, StoreNewer):
        raise
    except StoreError:
        pass


def _free_port(port: int, option: str) -> int:
    """This port, or for 0 one that nobody has."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise UsageError(
                f"port {port} on {HOST} is taken ({error.strerror}): end what runs there, or name another by {option}"
            ) from error
        return int(probe.getsockname()[1])
