"""The one place that speaks HTTP: a body is posted, and what came back is handed on as it is."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import aiohttp

_PIECE = 1 << 16


class NoAnswer(Exception):
    """Nothing usable came: a connection that failed, a body that was cut, too much of it, a process that died.

    `is_sent`: somebody may have worked on it, and want to be paid.
    """

    def __init__(self, reason: str, *, is_sent: bool = True, is_final: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.is_sent, self.is_final = reason, is_sent, is_final


@dataclass(frozen=True)
class Reply:
    """Status, headers in lower case, and the body."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class Http:
    """Connections that are kept open between calls; redirects are not followed, as they would take the key along."""

    def __init__(self, connections: int, *, most_bytes: int) -> None:
        self._connections, self._most_bytes = connections, most_bytes
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # Costs the better part of a second: whoever asks nobody does not pay for it.
        import aiohttp

        connector = aiohttp.TCPConnector(limit=self._connections, limit_per_host=self._connections)
        # The time of the whole call is watched by whoever makes it.
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Send it and read all that comes, up to the limit; raises NoAnswer."""
        import aiohttp

        if self._session is None:
            raise RuntimeError("Http is used inside of `async with`")
        sent = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
        }
        try:
            async with self._session.post(
                url, data=body, headers={**sent, **headers}, allow_redirects=False
            ) as answer:
                data = await self._read(answer)
                found = {name.lower(): value for name, value in answer.headers.items()}
                return Reply(answer.status, data, found)
        except aiohttp.ClientConnectorError as error:
            raise NoAnswer(
                f"no connection: {getattr(error, 'strerror', None) or type(error).__name__}", is_sent=False
            ) from error
        except aiohttp.InvalidURL as error:
            raise NoAnswer("the address cannot be asked", is_sent=False, is_final=True) from error
        except (aiohttp.ClientError, asyncio.IncompleteReadError, OSError, ValueError, zlib.error) as error:
            # The words of the library may name the address, which may hold a key.
            raise NoAnswer(f"the connection broke off ({type(error).__name__})") from error

    async def _read(self, answer: aiohttp.ClientResponse) -> bytes:
        unpack = _unpacker(answer.headers.get("Content-Encoding", ""))
        found = bytearray()
        async for piece in answer.content.iter_chunked(_PIECE):
            found += piece if unpack is None else unpack.decompress(piece, self._most_bytes + 1 - len(found))
            if len(found) > self._most_bytes:
                answer.close()
                raise NoAnswer(f"the answer is larger than {self._most_bytes:,} bytes")
        return bytes(found)


def _unpacker(encoding: str) -> zlib._Decompress | None:
    """For hosts that pack although they were asked not to; never more than is wanted comes out."""
    kind = encoding.strip().lower()
    if kind in ("", "identity"):
        return None
    if kind in ("gzip", "deflate"):
        return zlib.decompressobj(wbits=47)
    raise NoAnswer(f"the answer is packed as {kind!r}")
