"""What judges are told: files with a version and an output schema, filled with data that stays data."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from eval_pipeline.errors import InvalidConfig
from eval_pipeline.evaluating.setup import SHIPPED_ASKS
from eval_pipeline.settings import PACKAGE

VALUES: Final = ("query", "answer", "context", "reference")
_NAMES: Final = (*VALUES, "delimiter")
_FOLDER: Final = PACKAGE / "evaluating" / "prompts"
_FILE: Final = re.compile(r"---\r?\n(?P<header>.*?)^---\r?\n(?P<text>.*)", re.DOTALL | re.MULTILINE)
_FIELD: Final = re.compile(r"\{([a-z_]+)\}")
_DELIMITER: Final = "#DATA"
_NOTHING: Final = "(none)"


@dataclass(frozen=True)
class Prompt:
    """The prompt for one ask; `version` changes with every byte of its file."""

    ask: str
    version: str
    schema: Mapping[str, Any]
    text: str

    @property
    def wants_context(self) -> bool:
        """Whether it cannot be judged without what was retrieved."""
        return self.ask != "conflict" and "{context}" in self.text

    def fill(self, query: str, answer: str, contexts: Sequence[str], reference: str | None) -> str:
        """The text with these values, each between marks that occur in none of them."""
        mark = _delimiter_for([query, answer, *contexts, reference or ""])
        values = {
            "query": _enclosed(mark, "question", query),
            "answer": _enclosed(mark, "answer", answer),
            "context": "\n".join(_enclosed(mark, f"context {n}", one) for n, one in enumerate(contexts, 1))
            or _NOTHING,
            "reference": _NOTHING if reference is None else _enclosed(mark, "reference", reference),
            "delimiter": mark,
        }
        return _FIELD.sub(lambda found: values[found[1]], self.text)


def _delimiter_for(texts: Sequence[str]) -> str:
    """A word that none of the texts holds; the same for the same texts."""
    everything = "\n".join(texts)
    number = 0
    while (mark := f"{_DELIMITER}{number or ''}") in everything:
        number += 1
    return mark


def read_prompt(name: str, own: Path | None) -> Prompt:
    """Read the custom prompt of this name, else the shipped one. Its ask is its name unless its header has another."""
    path = own / f"{name}.md" if own else None
    if path is None or not path.is_file():
        if name not in SHIPPED_ASKS:
            raise InvalidConfig(
                f"there is no prompt {name!r}: write {path or 'prompts/judge/' + name + '.md'}"
            )
        path = _FOLDER / f"{name}.md"
    return _parsed(name, path)


def _parsed(name: str, path: Path) -> Prompt:
    try:
        data = path.read_bytes()
        found = _FILE.fullmatch(data.decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{path}: cannot be read: {error}") from error
    if found is None:
        raise InvalidConfig(
            f"{path}: begins with a line ---, version: NAME, schema: {{…}}, and a line --- again"
        )
    version, schema = _header(found["header"], path)
    ask = _field(found["header"], "ask") or name
    unknown = sorted({one for one in _FIELD.findall(found["text"]) if one not in _NAMES})
    if unknown:
        raise InvalidConfig(
            f"{path}: knows no {{{unknown[0]}}}; there is: " + ", ".join(f"{{{one}}}" for one in VALUES)
        )
    if "{answer}" not in found["text"]:
        raise InvalidConfig(f"{path}: says nowhere {{answer}}, which is what is judged")
    return Prompt(ask, f"{version}+{hashlib.sha256(data).hexdigest()[:8]}", schema, found["text"])


def _header(text: str, path: Path) -> tuple[str, Mapping[str, Any]]:
    """`version: …` and `schema: …`, whose JSON may go on over further lines."""
    version = _field(text, "version")
    schema = re.search(r"^schema:\s*(\{.*\})\s*?(?=^\w+:|\Z)", text, re.MULTILINE | re.DOTALL)
    if version is None or schema is None:
        raise InvalidConfig(f"{path}: its header has a version: NAME, and the schema: {{…}} of the reply")
    try:
        found = json.loads(schema[1])
    except (ValueError, RecursionError) as error:
        raise InvalidConfig(f"{path}: its schema is no JSON: {error}") from error
    if found.get("type") != "object" or not isinstance(found.get("properties"), dict):
        raise InvalidConfig(
            f'{path}: its schema is that of an object: {{"type": "object", "properties": {{…}}}}'
        )
    return version, found


def _field(header: str, name: str) -> str | None:
    found = re.search(rf"^{name}:[ \t]*(\S.*?)[ \t]*$", header, re.MULTILINE)
    return found and found[1].strip("\"'")


def _enclosed(mark: str, name: str, text: str) -> str:
    return f"{mark} {name}\n{text}\n{mark} end"
