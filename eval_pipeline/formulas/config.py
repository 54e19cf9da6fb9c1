"""eval-pipeline.toml: parameters, other readings, and which names apply to a dataset."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InvalidConfig

TABLES = ("formulas", "datasets", "gate", "baselines")


@dataclass(frozen=True)
class Config:
    """The file's tables, checked for their shape."""

    path: Path | None = None
    formulas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    datasets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    gate: Mapping[str, Any] = field(default_factory=dict)
    baselines: Mapping[str, Any] = field(default_factory=dict)


def load_config(path: Path) -> Config:
    """Read the file; no file means no changes to what is shipped."""
    if not path.is_file():
        return Config()
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{path}: not TOML: {error}") from error
    unknown = sorted(set(values) - set(TABLES))
    if unknown:
        raise InvalidConfig(f"{path}: unknown table [{unknown[0]}]; there is: {', '.join(TABLES)}")
    for table, entries in values.items():
        if not isinstance(entries, dict):
            raise InvalidConfig(f"{path}: {table} is a table: [{table}]")
    for table in ("formulas", "datasets"):
        for name, entry in values.get(table, {}).items():
            if not isinstance(entry, dict):
                raise InvalidConfig(f"{path}: {table}.{name} is a table of its own: [{table}.{name}]")
    return Config(path, **{table: values.get(table, {}) for table in TABLES})
