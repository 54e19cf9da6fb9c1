"""Forget, and be killed at a chosen step."""

from __future__ import annotations

from pathlib import Path

from eval_pipeline.upkeep.forget import Request, forget
from tests.bundle_files import day, settings_in
from tests.faults.dying import die_at, die_at_step
from tests.projects import project_of


def forget_told(folder: str, scope: str) -> None:
    settings = settings_in(Path(folder))
    request = Request("run", "told", text=scope == "texts")
    forget(project_of(settings, now=day(3)), request)


def forget_until(folder: str, scope: str, words: str, number: int) -> None:
    """Until the so-manyth step with these words in it."""
    die_at(words, number, Path(folder))
    forget_told(folder, scope)


def forget_until_step(folder: str, scope: str, step: int) -> None:
    """Until the step with this number; 0 lets everything happen and prints how many steps that were."""
    steps = die_at_step(step, Path(folder))
    forget_told(folder, scope)
    print(steps.count)
