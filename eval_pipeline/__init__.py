"""Know whether an AI system got better: exact metrics, exact recomputation, honest comparison."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eval_pipeline.api import (
        compare_runs,
        compute_aggregate,
        open_store,
        render_report_md,
        store_aggregate,
    )

__all__ = ["compare_runs", "compute_aggregate", "open_store", "render_report_md", "store_aggregate"]


def __getattr__(name: str) -> Any:
    """Import the functions when they are asked for: `import eval_pipeline` alone stays quick."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("eval_pipeline.api"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
