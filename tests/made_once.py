"""What takes long to make is made by the first worker that needs it, for all of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import portalocker
import pytest

PATIENCE_SECONDS = 300


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder of this name, filled; whoever comes while it is being made waits. Nobody may change what is in it."""
    base = factory.getbasetemp()
    # Each worker has a folder of its own within that of the whole session.
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, is_made = shared / name, shared / f"{name}.made"
    with portalocker.Lock(shared / f"{name}.lock", timeout=PATIENCE_SECONDS):
        if not is_made.exists():
            # Somebody before may have failed in the middle.
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            is_made.touch()
    return folder
