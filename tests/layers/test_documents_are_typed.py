"""Between computing and showing things have names: so many untyped dictionaries are left, and no more come."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "eval_pipeline"
ROOMS = ("computing", "showing", "exporting", "comparing", "planning", "upkeep", "report", "api.py")
MOST_UNTYPED = 40
_UNTYPED = re.compile(r"\b(?:dict|Mapping|MutableMapping)\[str, Any\]")


def test_few_documents_are_left_that_nobody_can_know_without_reading_their_makers() -> None:
    files = [
        path
        for room in ROOMS
        for path in ([PACKAGE / room] if room.endswith(".py") else (PACKAGE / room).rglob("*.py"))
    ]
    assert len(files) > 80
    found = {
        path.relative_to(PACKAGE).as_posix(): n
        for path in files
        if (n := len(_UNTYPED.findall(path.read_text("utf-8"))))
    }
    assert sum(found.values()) <= MOST_UNTYPED, found
