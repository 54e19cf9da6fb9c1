"""Which requests are answered, and what every answer says to the browser."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eval_pipeline.view.addresses import HOST

NAMES: Final = (HOST, "localhost", "[::1]")
METHODS: Final = ("GET", "HEAD")
HTTP_PORT: Final = 80


def hosts_of(port: int) -> frozenset[str]:
    """What a browser on this machine calls the server."""
    return frozenset(f"{name}:{port}" for name in NAMES) | (
        frozenset(NAMES) if port == HTTP_PORT else frozenset()
    )


def _is_from_elsewhere(headers: Headers) -> bool:
    """Whether a page of another site made the browser ask."""
    return headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


class Guard:
    """Refuses foreign names of the server (a page elsewhere may point its own name here) and whatever could write."""

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str], policy: str) -> None:
        self.app = app
        self.hosts = frozenset(hosts)
        self.headers = {
            "Content-Security-Policy": policy,
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cache-Control": "no-store",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self.headers)
            await send(message)

        answer = self._refusal(scope) or self.app
        await answer(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        named = [one.lower() for one in Headers(scope=scope).getlist("host")]
        if len(named) != 1 or named[0] not in self.hosts:
            known = ", ".join(sorted(self.hosts))
            return PlainTextResponse(f"This server answers to {known} alone.\n", status_code=421)
        if scope["method"] not in METHODS:
            allowed = {"Allow": ", ".join(METHODS)}
            return PlainTextResponse("Nothing can be written here.\n", status_code=405, headers=allowed)
        return None
