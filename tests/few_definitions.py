"""Some of the shipped definitions instead of all: what holds for a few holds for all of them, and is computed sooner."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from eval_pipeline.formulas import registry as registry_module
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.settings import load_settings, shipped_sql


def write_few(folder: Path, *names: str) -> Path:
    """A shipped folder with these definitions in SQL, what they read and what they call."""
    shipped = load_registry(load_settings({}))
    shutil.copytree(shipped_sql() / "functions", folder / "functions")
    waiting = list(names)
    while waiting:
        one = shipped.definitions.get(waiting.pop())
        if one is not None:
            (folder / one.schema).mkdir(exist_ok=True)
            shutil.copyfile(one.path, folder / one.schema / one.path.name)
            waiting += one.reads
    return folder


@contextmanager
def shipping(folder: Path) -> Iterator[None]:
    """The definitions of this folder are the shipped ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry_module, "shipped_sql", lambda: folder)
        patch.setattr(registry_module, "PACKAGE", folder)
        yield
