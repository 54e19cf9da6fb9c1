"""The product as an earlier or later version of itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import eval_pipeline


@contextmanager
def of_version(version: str) -> Iterator[None]:
    """Within the block this program is of that version."""
    with pytest.MonkeyPatch.context() as here:
        here.setattr(eval_pipeline, "__version__", version)
        yield
