"""A run's aggregate_json: computed from what is stored (no query is asked again), and written back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from eval_pipeline.errors import UsageError
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.formulas.text_columns import text_columns
from eval_pipeline.settings import Settings
from eval_pipeline.store.aggregates import DOCUMENT_KEYS, empty_document, to_json
from eval_pipeline.store.connect import open_reader, open_writer
from eval_pipeline.store.forgotten_texts import emptied_places
from eval_pipeline.store.lock import Tell
from eval_pipeline.store.read import find_run
from eval_pipeline.store.run_documents import compute_document, put_document


def compute_aggregate(
    settings: Settings, registry: Registry, run_id: str, *, tell: Tell | None = None
) -> dict[str, Any]:
    """The summary under the formulas that hold now; nothing is written. Frozen values are taken as they are stored."""
    with open_reader(settings.db, tell=tell) as con:
        run = find_run(con, run_id)
        if run.golden_key is None:
            raise UsageError(
                f"run {run_id!r} waits for its golden set: load datasets/{run.dataset}/ with `eval-pipeline load PATH`"
            )
        emptied = emptied_places(con, run.run_key)
        definitions = _behind_the_document(registry, run.dataset)
        frozen = [one for one in definitions if text_columns(registry, one) & emptied]
        return compute_document(
            con,
            run,
            definitions=[one for one in definitions if one not in frozen],
            helpers=registry.helpers,
            rounding=rounding_of(registry),
            as_stored={key for one in frozen for key in one.keys},
        )


def rounding_of(registry: Registry) -> str:
    """How aggregates are rounded for storage."""
    return str(registry.get("aggregates.run_metrics").header.parameters["rounding"])


def _behind_the_document(registry: Registry, dataset: str) -> list[Definition]:
    """The formulas of the summary's keys and all that these read, parents first."""
    wanted: set[str] = set()

    def add(one: Definition) -> None:
        if one.name not in wanted:
            wanted.add(one.name)
            for parent in one.reads:
                if parent in registry.definitions:
                    add(registry.definitions[parent])

    for key, one in registry.keys().items():
        if key in DOCUMENT_KEYS and registry.applies_to(one, dataset):
            add(one)
    return [one for one in registry if one.name in wanted]


def store_aggregate(
    settings: Settings, run_id: str, aggregate: Mapping[str, Any], *, tell: Tell | None = None
) -> None:
    """Make the aggregate the run's aggregate_json; an unknown run is an error, no other run changes."""
    # Asked read-only first: an unknown name, or no store at all, must not leave a new file behind.
    with open_reader(settings.db, tell=tell) as con:
        find_run(con, run_id)
    document = checked_document(aggregate, run_id=run_id)
    with open_writer(settings.db, tell=tell) as con:
        put_document(con, find_run(con, run_id), to_json(document))


def checked_document(aggregate: Mapping[str, Any], *, run_id: str) -> dict[str, Any]:
    """The aggregate with its keys in their order and its values rounded as stored ones are; an error if it is none."""
    if not isinstance(aggregate, Mapping):
        raise UsageError(f"the aggregate of {run_id!r} is a {type(aggregate).__name__}, expected a mapping")
    return _like(empty_document(), aggregate, place=f"the aggregate of {run_id!r}")


def _like(pattern: Mapping[str, Any], given: Mapping[str, Any], *, place: str) -> dict[str, Any]:
    missing, unknown = sorted(pattern.keys() - given.keys()), sorted(map(str, given.keys() - pattern.keys()))
    if missing or unknown:
        wrong = f"lacks {missing[0]!r}" if missing else f"has {unknown[0]!r}"
        raise UsageError(f"{place} {wrong}; its keys are: {', '.join(pattern)}")
    return {key: _value(wanted, given[key], place=f"{place}: {key}") for key, wanted in pattern.items()}


def _value(wanted: Any, given: Any, *, place: str) -> Any:
    if isinstance(wanted, dict):
        if not isinstance(given, Mapping):
            raise UsageError(f"{place} is {given!r}, expected a mapping")
        return _like(wanted, given, place=place)
    is_count = isinstance(wanted, int)
    is_number = isinstance(given, int if is_count else int | float) and not isinstance(given, bool)
    if is_number and math.isfinite(given):
        return given if is_count else round(float(given), 4) + 0.0
    if given is None and not is_count:
        return None
    expected = "a whole number" if is_count else "a finite number, or None where it is undefined"
    raise UsageError(f"{place} is {given!r}, expected {expected}")
