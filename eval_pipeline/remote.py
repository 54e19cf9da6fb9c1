"""Files at https:// addresses, copied to where they can be read."""

# The standard library is enough for single files over HTTPS. Whoever lists, or reads object stores, will need more than
# that: then what is behind `fetch` changes, and nothing else.

from __future__ import annotations

import base64
import ipaddress
import ssl
import time
from collections.abc import Callable
from http.client import HTTPException, HTTPMessage, responses
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from eval_pipeline.errors import UsageError

MOST_BYTES: Final = 4 << 30
MOST_SECONDS: Final = 3600.0
# How long nothing may come.
SILENT_SECONDS: Final = 60.0
CHUNK_BYTES: Final = 1 << 20
LONGEST_NAME: Final = 150

Progress = Callable[[int, int], None]
_LocalPath = type(Path())


class Fetched(_LocalPath):  # type: ignore[valid-type,misc]
    """The copy of a file from elsewhere: it is read from where it lies, and shown as the address it came from."""

    address: str | None = None

    def __str__(self) -> str:
        return self.address or super().__str__()

    def __fspath__(self) -> str:
        return str(super().__str__())


def is_address(text: str) -> bool:
    """Whether somebody means a place elsewhere and no file here."""
    return "://" in text and not Path(text).exists()


def shown(address: str) -> str:
    """The address without what may be secret in it: user, password, query."""
    parts = _parts(address)
    return urlunsplit((parts.scheme, _place(parts), parts.path, "", ""))


def fetch(address: str, folder: Path, progress: Progress | None = None) -> Fetched:
    """Copy the file at this address into the folder; an error that says why leaves nothing there."""
    parts = _checked(address)
    name = _name_of(parts)
    folder.mkdir(parents=True, exist_ok=True)
    target = Fetched(folder / name)
    try:
        with _opener().open(_request(parts), timeout=SILENT_SECONDS) as answer, target.open("wb") as file:
            _copy(answer, file, shown(address), progress)
    except UsageError:
        target.unlink(missing_ok=True)
        raise
    except (OSError, HTTPException, ValueError) as error:
        target.unlink(missing_ok=True)
        raise UsageError(f"{shown(address)} cannot be fetched: {_why(error)}") from error
    target.address = shown(address)
    return target


def _parts(address: str) -> SplitResult:
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError as error:
        # What is no address may hold a password anywhere.
        raise UsageError(f"an address that begins {address.split('://')[0]}:// is none: {error}") from error
    return parts


def _place(parts: SplitResult) -> str:
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return host if parts.port is None else f"{host}:{parts.port}"


def _checked(address: str) -> SplitResult:
    parts = _parts(address)
    if parts.scheme not in ("https", "http"):
        raise UsageError(
            f"{shown(address)} cannot be fetched: {parts.scheme}:// is not read, https:// is; copy the file here first"
        )
    if not parts.hostname:
        raise UsageError(f"{shown(address)} names no host")
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise UsageError(
            f"{shown(address)} is not fetched: what comes over http:// anybody on the way can change; use https://"
        )
    if parts.path.endswith("/") or not parts.path:
        raise UsageError(
            f"{shown(address)} names a folder, and only files can be fetched: give the address of each"
        )
    return parts


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _name_of(parts: SplitResult) -> str:
    """The last word of the path, as a name that a file may have."""
    name = PurePosixPath(unquote(parts.path).replace("\x00", "")).name.lstrip(".")
    return name[-LONGEST_NAME:] or "file"


def _request(parts: SplitResult) -> Request:
    path = parts.path.replace(" ", "%20")
    request = Request(urlunsplit((parts.scheme, _place(parts), path, parts.query, "")))
    request.add_header("User-Agent", "eval-pipeline")
    request.add_header("Accept-Encoding", "identity")
    if parts.username is not None:
        said = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        # Not handed on to where the address leads.
        request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(said.encode()).decode()}")
    return request


class _Redirects(HTTPRedirectHandler):
    """An address may lead to another one, but to none that anybody on the way can change."""

    max_redirections = 5

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        parts = _parts(newurl)
        is_safe = parts.scheme == "https" or (
            parts.scheme == req.type == "http" and _is_loopback(parts.hostname or "")
        )
        if not is_safe:
            raise UsageError(
                f"{shown(req.full_url)} leads to {shown(newurl)}, which is no https:// address: it is not fetched"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> OpenerDirector:
    return build_opener(_Redirects)


def _copy(answer: Any, file: IO[bytes], name: str, progress: Progress | None) -> None:
    expected = int(answer.headers.get("Content-Length") or 0)
    _refuse_too_much(expected, name)
    began, size = time.monotonic(), 0
    # What there is at once, so that a host that sends a byte now and then is given up in time.
    while chunk := answer.read1(CHUNK_BYTES):
        size += len(chunk)
        _refuse_too_much(size, name)
        if time.monotonic() - began > MOST_SECONDS:
            raise UsageError(f"{name} is not here after {MOST_SECONDS:g} s: given up")
        file.write(chunk)
        if progress and expected:
            progress(size, expected)
    if expected and size != expected:
        raise UsageError(f"{name} ended after {size:,} of {expected:,} bytes: try again")


def _refuse_too_much(size: int, name: str) -> None:
    if size > MOST_BYTES:
        raise UsageError(f"{name} holds more than {MOST_BYTES:,} bytes: copy it here and load the copy")


def _why(error: Exception) -> str:
    if isinstance(error, HTTPError):
        return f"the host answers {error.code} {responses.get(error.code, '')}".rstrip()
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return (
            f"its certificate does not hold ({cause.verify_message}); where the host is your own, name the file of its "
            "authority in SSL_CERT_FILE"
        )
    if isinstance(cause, TimeoutError):
        return f"nothing came for {SILENT_SECONDS:g} s"
    return str(getattr(cause, "strerror", None) or cause)
