"""Load a bundle and compute it, and be killed at a chosen step."""

from __future__ import annotations

import math
from pathlib import Path

from eval_pipeline.computing import measure as measure_module
from eval_pipeline.settings import Settings
from tests.bundle_files import compute, load, settings_in
from tests.faults.dying import die_at, die_at_step
from tests.projects import open_writer


def load_and_compute(settings: Settings, bundle: Path) -> None:
    load(settings, bundle)
    compute(settings)


def load_and_compute_until(folder: str, bundle: str, step: int) -> None:
    """In a process of its own; 0 lets everything through and prints how many steps that were."""
    steps = die_at_step(step, Path(folder))
    # A turn ends by the clock, and every further one costs statements: on a busy machine there would be more to count.
    measure_module.TURN_SECONDS = math.inf
    load_and_compute(settings_in(Path(folder)), Path(bundle))
    print(steps.count)


def make_until(folder: str, words: str, number: int) -> None:
    """Make a new store, until the so-manyth step with these words in it."""
    die_at(words, number, Path(folder))
    with open_writer(settings_in(Path(folder)).db):
        pass
