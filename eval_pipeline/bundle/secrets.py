"""Keys and passwords in what a run says of itself: found by the names that carry them, and masked."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from html.entities import html5
from typing import Any, Final
from urllib.parse import unquote, unquote_plus

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
# Shorter texts occur everywhere.
_SHORTEST_SECRET: Final = 6
_DEEPEST_NESTING: Final = 4
# Only the first of a run of backslashes begins a match, so that the time is linear.
_ESCAPE: Final = re.compile(r"(?<!\\)\\+(?:u([0-9a-f]{4})|x([0-9a-f]{2}))")
_NUMBERED_ENTITY: Final = re.compile(r"&#0*([0-9]*)")
_LARGEST_ENTITY_DIGITS: Final = 7
_LINE_BREAK: Final = re.compile(r"(?<!\\)\\+[rn]|[\r\n]+")
# Backslashes of JSON in JSON, nested four times.
_MOST_BACKSLASHES: Final = 2**_DEEPEST_NESTING - 1
_URL_SAFE: Final = str.maketrans("+/", "-_")


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


class Masker:
    """Replaces known secrets in text by `***`, as they are and as JSON, HTML, URLs and base64 write them."""

    def __init__(self, secrets: Iterable[str]) -> None:
        known = {form for secret in secrets for form in (secret, unquote(secret), unquote_plus(secret))}
        found = {form for form in known if len(form) >= _SHORTEST_SECRET}
        self._texts = sorted(found | {code for form in found for code in _base64_parts(form)}, key=len)
        twice = {
            code for text in self._texts for code in _base64_parts(text) if len(code) >= _SHORTEST_SECRET
        }
        self._decoded = {decoded(text) for text in (*self._texts, *twice)}

    def mask(self, text: str) -> str:
        """Return the text without secrets; `***` alone if a secret is nested too deeply to be cut out."""
        if not self._occurs_in(text):
            return text
        masked = self._pattern.sub(MASK, text)
        return MASK if self._occurs_in(masked) else masked

    def _occurs_in(self, text: str) -> bool:
        forms = [decoded(text)]
        if _LINE_BREAK.search(text):
            # Base64 is often wrapped.
            forms.append(decoded(_LINE_BREAK.sub("", text)))
        return any(secret in form for secret in self._decoded for form in forms)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        longest_first = reversed(self._texts)
        return re.compile("|".join("".join(map(_notations, text)) for text in longest_first), re.IGNORECASE)


def decoded(text: str) -> str:
    """The text in lower case without the escapes of JSON, HTML and URLs, however deeply they are nested."""
    text = text.lower()
    for _ in range(_DEEPEST_NESTING):
        before = text
        if "\\" in text:
            text = _ESCAPE.sub(lambda found: chr(int(found[1] or found[2], 16)), text).replace("\\", "")
        text = unquote(re.sub("%(?:25)+", "%", text)) if "%" in text else text
        text = html.unescape(_NUMBERED_ENTITY.sub(_shortened_entity, text)) if "&" in text else text
        if text == before:
            break
    return text.lower()


def _shortened_entity(found: re.Match[str]) -> str:
    """The entity without leading zeros; nothing if its number is too large for a character."""
    return f"&#{found[1]}" if len(found[1]) <= _LARGEST_ENTITY_DIGITS else ""


@cache
def _notations(character: str) -> str:
    """A pattern for a character: plain, or as JSON, a URL or HTML writes it."""
    code = ord(character)
    entities = [name for name, value in html5.items() if value == character and name.endswith(";")]
    percent = "".join(f"%(?:25)*{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
    forms = [
        rf"\\{{0,{_MOST_BACKSLASHES}}}{re.escape(character)}",
        rf"\\{{1,{_MOST_BACKSLASHES}}}(?:u{code:04x}|x{code:02x})",
        percent,
        rf"&(?:amp;)*(?:#0*{code};|#x0*{code:x};{''.join(f'|{re.escape(name)}' for name in entities)})",
        *([r"\+"] if character == " " else []),
    ]
    return f"(?:{'|'.join(forms)})"


def _base64_parts(secret: str) -> Iterator[str]:
    """The characters of base64 that the secret alone determines, for each place at which it can begin."""
    data = secret.encode("utf-8", "surrogatepass")
    for offset, start in enumerate((0, 2, 3)):
        code = base64.b64encode(bytes(offset) + data).decode()[start : (offset + len(data)) * 8 // 6]
        yield from (code, code.translate(_URL_SAFE))
