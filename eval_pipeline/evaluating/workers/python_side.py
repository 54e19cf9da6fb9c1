"""The process that calls somebody's Python function: a JSON line in, a JSON line out."""

# Started by `python -m`. What the function prints goes to stderr, so that it cannot be taken for an answer; when the
# process that asks is gone, this one ends, also in the middle of a call that hangs.

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Final

_LOOK_SECONDS: Final = 1.0
RAISED: Final = "raised"


def main() -> None:
    """Answer until the input ends."""
    answers = _own_output()
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    ask = _function(sys.argv[1])
    for line in sys.stdin:
        asked = json.loads(line)
        answers.write(json.dumps(_answer(ask, asked), default=str) + "\n")
        answers.flush()


def _own_output() -> IO[str]:
    """The pipe of answers under another number; its old one leads to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)


def _function(name: str) -> Callable[[dict[str, Any]], Any]:
    module, _, function = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    found: Callable[[dict[str, Any]], Any] = getattr(importlib.import_module(module), function)
    return found


def _answer(ask: Callable[[dict[str, Any]], Any], asked: dict[str, Any]) -> dict[str, Any]:
    name = {"query_id": asked.get("query_id")}
    try:
        said = ask(asked)
    except Exception as error:
        return name | {RAISED: f"{type(error).__name__}: {error}"}
    if not isinstance(said, dict):
        return name | {RAISED: f"it returned {type(said).__name__}, not a dict"}
    return said | name


if __name__ == "__main__":
    main()
