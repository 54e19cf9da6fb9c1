"""eval-pipeline.toml: parameters, variants, datasets, comparisons, gates, Dagster, who is asked."""

from __future__ import annotations

import ipaddress
import json
import re
import sys
import tomllib
import zoneinfo
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from eval_pipeline.errors import InvalidConfig

TABLES = (
    *("formulas", "datasets", "comparison", "gate", "baselines", "dagster", "load", "scores"),
    *("targets", "judges", "suites", "variants"),
)
# The parameters under which these metrics follow the literal wording of S3.
LITERAL: Mapping[str, Mapping[str, str]] = {
    "citation_coverage": {"empty_citations": "vacuous"},
    "answer_strings": {"unlabelled_groundedness": "include"},
    "refusal_correctness": {"refusal_no_answer": "zero"},
}
# Tables whose every entry is a table of its own. What the last three say is read where somebody is asked.
_NAMED = ("formulas", "datasets", "scores", "targets", "judges", "suites")
COMPLETE = "complete"
JUDGED = "judged"
LAUNCH = "launch"
PLAN = "plan"
STALE_METRICS_SECONDS = 60
STALE_METRICS_MOST_SECONDS = 600
NIGHTLY = "02:00"
CANARY_ALARM = 0.2
TIMEZONE = "UTC"
FRESH_WITHIN_HOURS = 26
ENV = "env:"
MOST_HOURS = 10_000
_VARIABLE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")
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
    scores: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    targets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    judges: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    suites: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    variants: Mapping[str, bool] = field(default_factory=dict)

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

    @property
    def fresh_within_hours(self) -> float:
        """After how many hours without a new night Dagster calls results and aggregates no longer fresh."""
        return float(self.dagster.get("fresh_within_hours", FRESH_WITHIN_HOURS))

    @property
    def webhook(self) -> str | None:
        """Where a failed Dagster run is told: an address, or `env:NAME`, the variable that holds it."""
        found: str | None = self.dagster.get("webhook")
        return found

    def score_labels(self, names: Collection[str] | None = None) -> str:
        """Which texts stand for which numbers in the scores of others, or in these, as JSON in a fixed order."""
        rows = [
            {"name": name, "label": label, "value": float(value)}
            for name, entry in sorted(self.scores.items())
            if names is None or name in names
            for label, value in sorted(entry.get("labels", {}).items())
        ]
        return json.dumps(rows, ensure_ascii=False)

    @property
    def labelled_scores(self) -> tuple[str, ...]:
        """The scores of which it is said what their texts stand for."""
        return tuple(sorted(name for name, entry in self.scores.items() if entry.get("labels")))

    def judges_of(self, suite: str | None) -> list[str]:
        """The judges that a suite names, the one that scores it first."""
        judges = self.suites.get(suite, {}).get("judges", []) if suite is not None else []
        return [one for one in judges if isinstance(one, str)] if isinstance(judges, list) else []

    def canary_alarm(self, suite: str | None) -> float:
        """The share of the season's first answers that may be judged otherwise before the judge counts as changed."""
        canary = self.suites.get(suite, {}).get("canary") if suite is not None else None
        alarm = canary.get("alarm", CANARY_ALARM) if isinstance(canary, dict) else CANARY_ALARM
        return float(alarm) if isinstance(alarm, int | float) and 0 <= alarm <= 1 else CANARY_ALARM

    def judges_of_suites(self, suite: str | None = None, judges: Collection[str] | None = None) -> str:
        """Which judge stands where in which suite, or these in this one, as JSON in a fixed order."""
        rows = [
            {"suite": name, "judge": judge, "place": place}
            for name in (sorted(self.suites) if suite is None else [suite])
            for place, judge in enumerate(
                one for one in self.judges_of(name) if judges is None or one in judges
            )
        ]
        return json.dumps(rows, ensure_ascii=False)

    def extraction_cases_of(self, dataset: str) -> int | None:
        """How many extraction cases every run of the dataset should hold, where it is said."""
        found: int | None = self.datasets.get(dataset, {}).get("extraction_cases")
        return found

    def relevant_from(self, dataset: str) -> int:
        """The lowest grade of what is relevant."""
        found: int = self.datasets.get(dataset, {}).get("relevant_from", 1)
        return found

    @property
    def label_settings(self) -> list[tuple[str, int, str | None]]:
        """(dataset, relevant_from, labels) of each dataset for which the file sets one of the two.

        `labels`: "complete" (other hits are not relevant), "judged" (they are unknown), or None (each row decides).
        """
        datasets = sorted(self.datasets.items())
        found = [(name, self.relevant_from(name), entry.get("labels")) for name, entry in datasets]
        return [settings for settings in found if settings[1:] != (1, None)]

    @property
    def label_chunkers(self) -> list[tuple[str, str | None, int]]:
        """(dataset, `labels_of`, `relevant_from`) of every dataset in the file."""
        return [
            (name, entry.get("labels_of"), self.relevant_from(name)) for name, entry in self.datasets.items()
        ]

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
        repr(values)  # An integer in base 2, 8 or 16 can be too long to be shown in a message.
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidConfig(f"{path}: not TOML: {error}") from error
    except ValueError as error:
        raise InvalidConfig(
            f"{path}: a number has more than {sys.get_int_max_str_digits():,} digits"
        ) from error
    except OSError as error:
        raise InvalidConfig(f"{path}: cannot be read: {error.strerror or error}") from error
    unknown = sorted(set(values) - set(TABLES))
    if unknown:
        raise InvalidConfig(f"{path}: unknown table [{unknown[0]}]; there is: {', '.join(TABLES)}")
    for table, entries in values.items():
        if not isinstance(entries, dict):
            raise InvalidConfig(f"{path}: {table} is a table: [{table}]")
    for table in _NAMED:
        for name, entry in values.get(table, {}).items():
            if not isinstance(entry, dict):
                raise InvalidConfig(f"{path}: {table}.{name} is a table of its own: [{table}.{name}]")
    _check_scores(values.get("scores", {}), path)
    _check_baselines(values.get("baselines", {}), path)
    _check_dagster(values.get("dagster", {}), path)
    _check_load(values.get("load", {}), path)
    _check_variants(values.get("variants", {}), path)
    formulas = values.get("formulas", {})
    if values.get("variants", {}).get("literal"):
        literal = {name: {**entry, **formulas.get(name, {})} for name, entry in LITERAL.items()}
        values["formulas"] = formulas | literal
    return Config(path, **{table: values.get(table, {}) for table in TABLES})


def _check_variants(entries: Mapping[str, Any], path: Path) -> None:
    for name, value in entries.items():
        if name != "literal" or not isinstance(value, bool):
            raise InvalidConfig(
                f"{path}: [variants] {name} is {value!r}; allowed is: literal = true or false"
            )


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


def _check_scores(entries: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    for name, entry in entries.items():
        for field_name, value in entry.items():
            if field_name not in _SCORE:
                raise InvalidConfig(
                    f"{path}: [scores.{name}] has no {field_name!r}; there is: {', '.join(_SCORE)}"
                )
            is_possible, what_it_is = _SCORE[field_name]
            if not is_possible(value):
                raise InvalidConfig(f"{path}: [scores.{name}] {field_name} is {value!r}; it is {what_it_is}")


def is_number(value: Any) -> bool:
    """Whether the value is a number that a double can hold."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_range(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(is_number, value)) and value[0] < value[1]


def _is_labels(value: Any) -> bool:
    return isinstance(value, dict) and all(is_number(number) for number in value.values())


# Of every field of a score whether a value is possible, and in words what is.
_SCORE: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "direction": (
        lambda value: value in ("higher", "lower", "none"),
        '"higher", "lower" or "none" is better',
    ),
    "range": (_is_range, "the lowest and the highest value, such as [0, 1]"),
    "labels": (_is_labels, "a table of texts and the numbers they stand for, such as {good = 1, bad = 0}"),
    "unit": (lambda value: isinstance(value, str), 'a text such as "points"'),
}


def _check_dagster(entries: Mapping[str, Any], path: Path) -> None:
    for name, value in entries.items():
        if name not in _DAGSTER:
            raise InvalidConfig(f"{path}: [dagster] has no {name!r}; there is: {', '.join(_DAGSTER)}")
        is_possible, what_it_is = _DAGSTER[name]
        if not is_possible(value):
            # An address may hold a secret anywhere.
            said = "something else" if name == "webhook" else repr(value)
            raise InvalidConfig(f"{path}: [dagster] {name} is {said}; it is {what_it_is}")


def is_webhook(value: Any) -> bool:
    """Whether a document may be sent there: nobody on the way can read or change it."""
    try:
        parts = urlsplit(value)
        _ = parts.port
    except (TypeError, ValueError, AttributeError):
        return False
    is_clean = isinstance(value, str) and value.isascii() and value.isprintable() and " " not in value
    if not is_clean or not parts.hostname:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_place_of_webhook(value: Any) -> bool:
    return bool(isinstance(value, str) and _VARIABLE.fullmatch(value)) or is_webhook(value)


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
    "fresh_within_hours": (
        lambda value: is_number(value) and 0 < value <= MOST_HOURS,
        f"a number of hours above 0, at most {MOST_HOURS:,}",
    ),
    "webhook": (
        _is_place_of_webhook,
        'an https:// address (http:// on this machine alone), or "env:NAME" for the variable that holds it',
    ),
    "nightly": (
        lambda value: isinstance(value, str) and bool(_HOUR.fullmatch(value) or _CRON.fullmatch(value)),
        'an hour such as "02:00", or a cron text of five fields such as "30 1 * * 1-5"',
    ),
    "timezone": (_is_timezone, 'the name of a time zone, such as "UTC" or "Europe/Berlin"'),
}
