"""Keys and passwords in what a run says of itself: found by the names that carry them, and masked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

MASK: Final = "***"
# A name that is or ends in one of these carries a secret, however its words are joined: apiKey, API-KEY, api_key.
_NAMES: Final = (
    "apikey",
    "secret",
    "password",
    "passwd",
    "authorization",
    "accesstoken",
    "authtoken",
    "privatekey",
)
_USER_IN_URL: Final = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)[^/\s@?#]+@", re.IGNORECASE)


def masked(value: Any) -> Any:
    """The same with every secret, and every user in a URL, replaced by `***`."""
    if isinstance(value, Mapping):
        return {name: MASK if _is_secret(name, one) else masked(one) for name, one in value.items()}
    if isinstance(value, list):
        return [masked(one) for one in value]
    return _USER_IN_URL.sub(rf"\g<scheme>{MASK}@", value) if isinstance(value, str) else value


def secret_places(value: Any, place: str = "") -> Iterator[str]:
    """Where there is something to mask, as `config.judge.api_key`; never what it is."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            below = f"{place}.{name}" if place else str(name)
            if _is_secret(name, one):
                yield below
            else:
                yield from secret_places(one, below)
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from secret_places(one, f"{place}[{number}]")
    elif isinstance(value, str) and _USER_IN_URL.search(value):
        yield place


def _is_secret(name: object, value: object) -> bool:
    """Switches, and names without a value, tell nobody anything."""
    joined = re.sub(r"[\W_]", "", str(name)).lower()
    return joined.endswith(_NAMES) and value not in (None, "", True, False)
