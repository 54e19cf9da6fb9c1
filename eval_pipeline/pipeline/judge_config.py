"""What is wrong with the way a run's judge was set up (S2.16)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# What such a name stands for changes without notice, so that two runs under it cannot be compared.
MOVING_ALIAS = re.compile(
    r"(?:.*[-:@/_])?(?:latest|current|stable|default|main|master|head|nightly|preview)", re.IGNORECASE
)
NAMES = ("model", "version", "temperature", "prompt_version")


def judge_config_problems(config: Mapping[str, Any] | None, *, is_judged: bool) -> list[str]:
    """Short texts, each starting with the setting at fault; none where no judge is configured or was used."""
    judge = (config or {}).get("judge")
    if judge is None and not is_judged:
        return []
    return [problem for name in NAMES if (problem := _problem(name, (judge or {}).get(name)))]


def _problem(name: str, value: Any) -> str | None:
    if value is None or not str(value).strip():
        return f"{name} is missing"
    if name == "temperature":
        return None if value == 0 else f"temperature is {value:g}, not 0"
    if name == "version" and MOVING_ALIAS.fullmatch(value.strip()):
        return f"version {value!r} is a moving alias"
    return None
