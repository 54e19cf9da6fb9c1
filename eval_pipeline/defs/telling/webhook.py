"""One JSON document sent to one address, within seconds or not at all."""

# Addresses of webhooks are secrets themselves: nothing here repeats more of one than its host.

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from http.client import HTTPException, responses
from typing import IO, Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from eval_pipeline.config import ENV, is_webhook

SILENT_SECONDS: Final = 5.0
MOST_SECONDS: Final = 10.0


def tell(place: str, document: Mapping[str, Any], *, most_seconds: float = MOST_SECONDS) -> str | None:
    """Send it; why it did not arrive, or None. Never raises, and never takes longer than it may."""
    address = os.environ.get(place.removeprefix(ENV), "") if place.startswith(ENV) else place
    if not is_webhook(address):
        return f"{place} holds no https:// address" if place.startswith(ENV) else "it is no https:// address"
    said: list[str | None] = []
    # A host that answers a byte at a time outlasts every timeout of a socket, but not this one.
    sending = threading.Thread(target=lambda: said.append(_send(address, document)), daemon=True)
    sending.start()
    sending.join(most_seconds)
    host = urlsplit(address).hostname
    if not said:
        return f"{host} did not answer within {most_seconds:g} s"
    return f"{host} {said[0]}" if said[0] else None


def _send(address: str, document: Mapping[str, Any]) -> str | None:
    body = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
    headers = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "eval-pipeline"}
    try:
        request = Request(address, data=body, headers=headers, method="POST")
        with _opener(address).open(request, timeout=SILENT_SECONDS):
            return None
    except HTTPError as error:
        return f"answers {error.code} {responses.get(error.code, '')}".rstrip()
    except (OSError, HTTPException, ValueError) as error:
        cause = error.reason if isinstance(error, URLError) else error
        # Texts of errors may repeat the address.
        said = cause.strerror if isinstance(cause, OSError) else None
        return f"cannot be reached: {said or type(cause).__name__}"


class _NoRedirects(HTTPRedirectHandler):
    """What was meant for one address is not handed on to another: the answer is a failure that is said."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


def _opener(address: str) -> Any:
    """Proxies are for what leaves this machine."""
    is_local = urlsplit(address).scheme == "http"
    return build_opener(_NoRedirects, *([ProxyHandler({})] if is_local else []))
