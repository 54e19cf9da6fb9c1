"""The entries of a table of eval-pipeline.toml: each checked, and what the environment adds put in."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeVar

from eval_pipeline.config import is_number
from eval_pipeline.errors import InvalidConfig

T = TypeVar("T")
Variable = Callable[[str], str | None]
# `{field}` of a golden row; `{{` and `}}` are braces.
FIELD: Final = re.compile(r"\{\{|\}\}|\{([A-Za-z_]\w*)\}")
# Fields whose values are not shown.
_MAY_HOLD_KEYS: Final = ("url", "base_url", "api_key", "headers")
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Fields:
    """One table; what is left when everybody has taken theirs is unknown."""

    def __init__(self, place: str, entries: Mapping[str, Any], known: Collection[str]) -> None:
        self.place, self._entries = place, entries
        for name in entries:
            if name not in known:
                raise InvalidConfig(f"[{place}] has no {name!r}; there is: {', '.join(sorted(known))}")

    def raw(self, name: str) -> Any:
        """As it stands in the file; None where it does not."""
        return self._entries.get(name)

    def fault(self, name: str, what_it_is: str) -> InvalidConfig:
        """What to raise where the value is another than that."""
        found = self._entries.get(name)
        shown = "not valid" if name in _MAY_HOLD_KEYS else repr(found)
        said = f"is {shown}" if found is not None else "is missing"
        return InvalidConfig(f"[{self.place}] {name} {said}; it is {what_it_is}")

    def text(self, name: str, default: str | None = None) -> str:
        """A text that says something."""
        found = self._entries.get(name, default)
        if not isinstance(found, str) or not found.strip():
            raise self.fault(name, "a text")
        return found

    def optional_text(self, name: str) -> str | None:
        """The same, or nothing."""
        return self.text(name) if name in self._entries else None

    def choice(self, name: str, allowed: Collection[str], default: str) -> str:
        """One of these words."""
        found = self._entries.get(name, default)
        if found not in allowed:
            raise self.fault(name, "one of " + ", ".join(allowed))
        return str(found)

    def whole(self, name: str, default: int, *, least: int = 1, most: int = 10**9) -> int:
        """A whole number in these bounds."""
        found = self._entries.get(name, default)
        if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
            raise self.fault(name, f"a whole number from {least} to {most}")
        return found

    def number(self, name: str, default: float | None = None, *, most: float = 1e9) -> float:
        """A number above 0."""
        found = self._entries.get(name, default)
        if not is_number(found) or not 0 < found <= most:
            raise self.fault(name, f"a number above 0, at most {most:g}")
        return float(found)

    def optional_number(self, name: str) -> float | None:
        """The same, or nothing."""
        return self.number(name) if name in self._entries else None

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts, none of them twice, at least one."""
        found = self._entries.get(name)
        is_list = isinstance(found, list) and all(isinstance(one, str) and one for one in found)
        if not is_list or not found or len(set(found)) < len(found):
            raise self.fault(name, f'a list of names, each once, such as ["{name.rstrip("s")}"]')
        return tuple(found)

    def table(self, name: str) -> Mapping[str, Any]:
        """A table within the table; empty where there is none."""
        found = self._entries.get(name, {})
        if not isinstance(found, dict):
            raise self.fault(name, "a table, such as {key = value}")
        return found


class Remembered:
    """Variables, and what they said: none of it may be shown."""

    def __init__(self, variable: Variable) -> None:
        self._variable = variable
        self.values: list[str] = []

    def __call__(self, name: str) -> str | None:
        """What the variable says."""
        said = self._variable(name)
        self.values += [] if said is None else [said.strip()]
        return said


def filled(place: str, text: str, variable: Variable) -> str:
    """The text with every ${NAME} from the environment; one that is not set is said by its name alone."""

    def value(found: re.Match[str]) -> str:
        said = variable(found[1])
        if said is None:
            raise InvalidConfig(
                f"[{place}] wants the variable {found[1]}, which is not set: export {found[1]}=…"
            )
        return said

    return _VARIABLE.sub(value, text)


def variables_in(entries: Mapping[str, Any]) -> list[str]:
    """The variables that a table wants, in the fields that may want one."""
    texts = [entries.get(name) for name in _MAY_HOLD_KEYS if name != "headers"]
    headers = entries.get("headers")
    texts += headers.values() if isinstance(headers, dict) else ()
    return sorted({name for text in texts if isinstance(text, str) for name in _VARIABLE.findall(text)})
