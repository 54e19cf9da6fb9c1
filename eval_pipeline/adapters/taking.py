"""Which tool a file comes from, by its content; what nobody knows is refused with what was seen."""

from __future__ import annotations

import pkgutil
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import eval_pipeline.adapters as room
from eval_pipeline.adapters._head import Head, look_at
from eval_pipeline.adapters.tool import Seen, Tool
from eval_pipeline.errors import InputRejected, UnknownName, UsageError

PREFIX = "from_"
MOST_NAMED = 3


@dataclass(frozen=True)
class Taken:
    """A file, and what it was taken for."""

    path: Path
    tool: Tool
    seen: Seen


@cache
def tools() -> tuple[Tool, ...]:
    """Every tool whose files are read, by name."""
    names = sorted(one.name for one in pkgutil.iter_modules(room.__path__) if one.name.startswith(PREFIX))
    return tuple(import_module(f"{room.__name__}.{name}").TOOL for name in names)


def _tool_named(name: str) -> Tool:
    """The tool that somebody names."""
    found = {tool.name: tool for tool in tools()}
    if name not in found:
        raise UnknownName("tool", name, found)
    return found[name]


def recognise(path: Path, tool: str | None = None) -> Taken:
    """What this file is, by content; `tool` says it where somebody knows better."""
    try:
        head = look_at(path)
    except InputRejected as rejected:
        raise UsageError(f"{path} cannot be read: {rejected.reason}") from rejected
    if tool is not None:
        chosen = _tool_named(tool)
        return Taken(path, chosen, _seen(chosen, head) or Seen(0.0, chosen.page.title))
    found = [(one, seen) for one in tools() if (seen := _seen(one, head))]
    if not found:
        raise UsageError(_unknown(path, head))
    best = max(seen.sure for _, seen in found)
    likely = [(one, seen) for one, seen in found if seen.sure == best]
    if len(likely) > 1:
        names = " or ".join(f"load --from {one.name}" for one, _ in likely)
        raise UsageError(f"{path} may be {' or '.join(seen.words for _, seen in likely)}: say {names}")
    return Taken(path, *likely[0])


def _seen(tool: Tool, head: Head) -> Seen | None:
    """What a tool sees in the file; what is not built as it thinks is not its file."""
    try:
        return tool.recognise(head)
    except (InputRejected, KeyError, TypeError, ValueError, AttributeError, IndexError):
        return None


def _unknown(path: Path, head: Head) -> str:
    """What was seen; of a folder around a bundle which folder is meant."""
    inside = [
        one for one in _folders_in(path) if {"datasets", "runs"} & {each.name for each in _folders_in(one)}
    ]
    if inside:
        named = " ".join(shlex.quote(str(one)) for one in inside[:MOST_NAMED])
        around = "some" if inside[1:] else "one"
        return f"{path} is no bundle, but a folder around {around}: `eval-pipeline load {named}`"
    return (
        f"{path} was not recognised: it is {head.described()}. Known are {', '.join(_names())}. "
        f"`eval-pipeline init {path}` proposes a mapping for rows of your own; `load --from TOOL` says what it is."
    )


def _folders_in(path: Path) -> list[Path]:
    try:
        return sorted(one for one in path.iterdir() if one.is_dir())
    except OSError:
        return []


def _names() -> Sequence[str]:
    return [tool.name for tool in tools()]
