"""Know whether an AI system got better: exact metrics, exact recomputation, honest comparison.

The rooms are named after what a user does; each imports only from those above it:

errors, settings, records, config, words   what everybody needs
stats, metrics      pure arithmetic: numbers in, numbers out
bundle, formulas    the format of deliveries; what a definition is
adapters            other people's files become a bundle
store               the DuckDB file: lock, schema, keys, runs
loading             a bundle becomes rows, or goes to quarantine
computing           which cells are stale, and computing exactly these
showing, exporting  what the store holds, as documents; as files for other tools
comparing           two runs side by side, and the gate
planning, upkeep    status, plan, apply, explain; forget, rebuild
report              Markdown and HTML pages
api, defs, cli      the doors: Python, Dagster (by `launch`), the command line
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eval_pipeline.api import (
        BundleWriter,
        CompareReport,
        compare_files,
        compare_runs,
        compute_aggregate,
        open_store,
        per_query_metrics,
        render_report_md,
        run_metrics,
        store_aggregate,
    )

__all__ = [
    "BundleWriter",
    "CompareReport",
    "compare_files",
    "compare_runs",
    "compute_aggregate",
    "open_store",
    "per_query_metrics",
    "render_report_md",
    "run_metrics",
    "store_aggregate",
]


def __getattr__(name: str) -> Any:
    """Import the functions when they are asked for: `import eval_pipeline` alone stays quick."""
    if name == "__version__":
        globals()[name] = _installed_version()
        return globals()[name]
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("eval_pipeline.api"), name)


def _installed_version() -> str:
    """From the package's metadata; a checkout that nobody installed has it in its own file."""
    import tomllib
    from importlib.metadata import PackageNotFoundError, version
    from pathlib import Path

    try:
        return version("eval-pipeline")
    except PackageNotFoundError:
        project = Path(__file__).parents[1] / "pyproject.toml"
        return str(tomllib.loads(project.read_text("utf-8"))["project"]["version"])


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
