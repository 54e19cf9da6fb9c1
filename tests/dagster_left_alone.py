"""Dagster as a process finds it that has not used it before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from dagster._core.storage.defs_state.base import DefsStateStorage


@contextmanager
def nothing_left_of_dagster() -> Iterator[None]:
    """No state of definitions, which nothing here has: Dagster would ask whichever instance entered last.

    Where the collector takes an instance that was never left, an earlier one is the last again, although it
    is gone itself; no test can know when that happens.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DefsStateStorage, "get", classmethod(lambda cls: None))
        yield
