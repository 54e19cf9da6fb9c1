"""Whether web server, daemon and code location answer, and the address where one can ask."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PATH = "/healthz"
ANSWER_SECONDS = 10
LOCATIONS = (
    "{workspaceOrError {__typename ... on Workspace {locationEntries "
    "{locationOrLoadError {__typename ... on PythonError {message}}}}}}"
)


def _web_faults(address: str) -> list[str]:
    """What is wrong by the web server's own account: it does not answer, or has no code location that it could load."""
    asked = urllib.request.Request(
        address + "graphql",
        data=json.dumps({"query": LOCATIONS}).encode(),
        headers={"Content-Type": "application/json"},
    )
    # This machine is asked, whatever proxy others are asked through.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(asked, timeout=ANSWER_SECONDS) as answer:
            found = json.load(answer)["data"]["workspaceOrError"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return [f"web server: {error}"]
    return _location_faults(found.get("locationEntries", []))


def _location_faults(entries: Sequence[dict[str, dict[str, str] | None]]) -> list[str]:
    if not entries:
        return ["code location: none is loaded"]
    said = [entry["locationOrLoadError"] or {"message": "is being loaded"} for entry in entries]
    return [
        f"code location: {one.get('message', '').strip().splitlines()[0]}" for one in said if "message" in one
    ]


def listen(find_faults: Callable[[], list[str]], host: str, port: int) -> ThreadingHTTPServer:
    """Answer `/healthz` from threads of their own: 200 where there are no faults, else 503 with them."""
    server = ThreadingHTTPServer((host, port), _handler(find_faults))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return server


def _handler(find_faults: Callable[[], list[str]]) -> type[BaseHTTPRequestHandler]:
    one_at_a_time = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        timeout = ANSWER_SECONDS

        def do_GET(self) -> None:
            if self.path != PATH:
                self.send_error(404)
                return
            with one_at_a_time:
                faults = find_faults()
            text = json.dumps({"ok": not faults, "faults": faults}, ensure_ascii=False).encode() + b"\n"
            self.send_response(503 if faults else 200)
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Length", str(len(text)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Whoever asks every few seconds leaves no line each time."""

    return Handler
