"""eval-pipeline.toml: parameters, variants, datasets, comparisons, gates, Dagster."""

from __future__ import annotations

import re
import tomllib
import zoneinfo
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from eval_pipeline.errors import InvalidConfig

TABLES = ("formulas", "datasets", "comparison", "gate", "baselines", "dagster", "load")
LAUNCH = "launch"
PLAN = "plan"
STALE_METRICS_SECONDS = 60
STALE_METRICS_MOST_SECONDS = 600
NIGHTLY = "02:00"
TIMEZONE = "UTC"
_HOUR = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
# Minute, hour, day, month, weekday; what each may hold is for the scheduler to say.
_CRON = re.compile(r"[\d*/,\-]+ [\d*/,\-]+ [\d*/,\-L]+ [\w*/,\-]+ [\w*/,\-]+")


@dataclass(frozen=True)
class Config:
    """The file's tables, checked for their shape."""

    path: Path | None = None
    formulas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    datasets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    comparison: Mapping[str, Any] = field(default_factory=dict)
    gate: Mapping[str, Any] = field(default_factory=dict)
    baselines: Mapping[str, str] = field(default_factory=dict)
    dagster: Mapping[str, Any] = field(default_factory=dict)
    load: Mapping[str, Any] = field(default_factory=dict)

    @property
    def inverted_spans(self) -> Literal["error", "drop"]:
        """Whether a span that ends before it starts rejects its row, or is left out alone (A0.4)."""
        return "drop" if self.load.get("inverted_spans") == "drop" else "error"

    @property
    def only_plans(self) -> bool:
        """Whether the sensor stale_metrics says what it would launch and launches nothing."""
        return bool(self.dagster.get("stale_metrics", LAUNCH) == PLAN)

    @property
    def stale_metrics_seconds(self) -> int:
        """How long the sensor stale_metrics waits between two looks."""
        return int(self.dagster.get("stale_metrics_seconds", STALE_METRICS_SECONDS))

    @property
    def stale_metrics_most_seconds(self) -> int:
        """What takes longer than this the sensor stale_metrics leaves to somebody, and only plans."""
        return int(self.dagster.get("stale_metrics_most_seconds", STALE_METRICS_MOST_SECONDS))

    @property
    def nightly(self) -> str:
        """When the nightly schedule ticks, as a cron text."""
        asked = str(self.dagster.get("nightly", NIGHTLY))
        hour = _HOUR.fullmatch(asked)
        return f"{int(hour[2])} {int(hour[1])} * * *" if hour else asked

    @property
    def timezone(self) -> str:
        """Whose clock the nightly schedule goes by."""
        return str(self.dagster.get("timezone", TIMEZONE))

    def extraction_cases_of(self, dataset: str) -> int | None:
        """How many extraction cases every run of the dataset should hold, where it is said."""
        found: int | None = self.datasets.get(dataset, {}).get("extraction_cases")
        return found

    def baseline_of(self, suite: str | None, dataset: str) -> str | None:
        """The run that others of this suite and dataset are held against; a suite's own wins."""
        for name in (suite, dataset):
            if name is not None and name in self.baselines:
                return self.baselines[name]
        return None


def load_config(path: Path) -> Config:
    """Read the file; no file means no changes to what is shipped."""
    if not path.is_file():
        return Config()
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidConfig(f"{path}: not TOML: {error}") from error
    except OSError as error:
        raise InvalidConfig(f"{path}: cannot be read: {error.strerror or error}") from error
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
    _check_baselines(values.get("baselines", {}), path)
    _check_dagster(values.get("dagster", {}), path)
    _check_load(values.get("load", {}), path)
    return Config(path, **{table: values.get(table, {}) for table in TABLES})


def _check_baselines(entries: Mapping[str, Any], path: Path) -> None:
    """Whether the run is there is for the store to say; here it is only asked whether it could be one."""
    for name, run_id in entries.items():
        if not isinstance(run_id, str) or not run_id.strip():
            raise InvalidConfig(
                f"{path}: [baselines] {name} is {run_id!r}; what stands there is the id of a run: "
                f'{name} = "nightly-2026-09-01"'
            )


def _check_load(entries: Mapping[str, Any], path: Path) -> None:
    for name, value in entries.items():
        if name != "inverted_spans":
            raise InvalidConfig(f"{path}: [load] has no {name!r}; there is: inverted_spans")
        if value not in ("error", "drop"):
            raise InvalidConfig(
                f'{path}: [load] inverted_spans is {value!r}; it is "error" (the row goes to quarantine) or "drop" '
                "(the span is left out)"
            )


def _check_dagster(entries: Mapping[str, Any], path: Path) -> None:
    for name, value in entries.items():
        if name not in _DAGSTER:
            raise InvalidConfig(f"{path}: [dagster] has no {name!r}; there is: {', '.join(_DAGSTER)}")
        is_possible, what_it_is = _DAGSTER[name]
        if not is_possible(value):
            raise InvalidConfig(f"{path}: [dagster] {name} is {value!r}; it is {what_it_is}")


def _is_timezone(value: Any) -> bool:
    try:
        zoneinfo.ZoneInfo(value)
    except (TypeError, ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return False
    return True


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


# Of every key whether a value is possible, and in words what is.
_DAGSTER: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "stale_metrics": (
        lambda value: value in (LAUNCH, PLAN),
        f'"{LAUNCH}" (compute what is stale) or "{PLAN}" (only say what would be computed)',
    ),
    "stale_metrics_seconds": (_is_seconds, "a whole number of seconds from 1"),
    "stale_metrics_most_seconds": (_is_seconds, "a whole number of seconds from 1"),
    "nightly": (
        lambda value: isinstance(value, str) and bool(_HOUR.fullmatch(value) or _CRON.fullmatch(value)),
        'an hour such as "02:00", or a cron text of five fields such as "30 1 * * 1-5"',
    ),
    "timezone": (_is_timezone, 'the name of a time zone, such as "UTC" or "Europe/Berlin"'),
}
