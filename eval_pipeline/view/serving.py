"""Listening until somebody ends it."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from eval_pipeline.errors import UsageError
from eval_pipeline.report.site.asked import served_policy
from eval_pipeline.store.lock import Notify
from eval_pipeline.view.addresses import HOST
from eval_pipeline.view.guard import Guard, hosts_of
from eval_pipeline.view.pages import MakeProject, app_of

WAITING_CONNECTIONS = 64


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing is written, so that a signal may end the process as it stands."""
        yield


def serve(make_project: MakeProject, port: int, *, notify: Notify, started: Callable[[str], None]) -> None:
    """Answer on 127.0.0.1 until the process is ended; `started` is told the address (port 0 takes a free one)."""
    with _listening(port) as listener:
        own_port = listener.getsockname()[1]
        app = Guard(app_of(make_project, notify=notify), hosts=hosts_of(own_port), policy=served_policy())
        config = uvicorn.Config(
            app,
            log_level="critical",
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
        )
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        started(f"http://{HOST}:{own_port}/")
        _Server(config).run(sockets=[listener])


def _listening(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(WAITING_CONNECTIONS)
    except OSError as error:
        listener.close()
        raise UsageError(
            f"port {port} on {HOST} is taken ({error.strerror}): end what runs there, or choose another with --port"
        ) from error
    return listener
