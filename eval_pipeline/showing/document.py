"""A run's aggregate_json: computed from what is stored, and written back."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from eval_pipeline.computing.aggregates import (
    DOCUMENT_KEYS,
    Aggregate,
    empty_document,
    read_documents,
    summary_of,
    to_json,
    values_in,
)
from eval_pipeline.computing.scope import Scope, visible_catalogue
from eval_pipeline.computing.scratch import evaluate, scratch
from eval_pipeline.errors import UsageError
from eval_pipeline.formulas.definition import Definition, Helper, quoted
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.formulas.text_columns import text_columns
from eval_pipeline.showing.sqlite_base import _is_knowledge_base, _write_back
from eval_pipeline.store.frozen import emptied_places
from eval_pipeline.store.open import Connection, first_value, transaction
from eval_pipeline.store.project import Project
from eval_pipeline.store.runs import RunRow, find_run
from eval_pipeline.words import rounded


def _compute_document(
    con: Connection,
    run: RunRow,
    *,
    wanted: Sequence[Definition],
    helpers: Mapping[str, Helper],
    rounding: str,
    as_stored: Collection[str] = (),
) -> Aggregate:
    """The summary under these definitions, parents first; nothing is written.

    The keys `as_stored` keep the values that stand in the store.
    """
    dataset_key = first_value(con, "select dataset_key from raw.runs where run_key = ?", [run.run_key])
    scope = Scope(dataset_key, run.golden_key, [run.run_key])
    with visible_catalogue(con, helpers.values()) as catalogue:
        evaluate(con, catalogue, wanted, scope)
        values = {
            key: _mean(con, one, key, rounding=rounding)
            for one in wanted
            for key in one.keys
            if key in DOCUMENT_KEYS
        }
        document = read_documents(con, catalogue, [run.run_key])[run.run_key]

    kept = {key: stored for key, stored in values_in(document).items() if key in as_stored}
    return summary_of(values | kept, document["total_queries"], document["failed_queries"])


def _mean(con: Connection, formula: Definition, key: str, *, rounding: str) -> float | None:
    found: float | None = first_value(
        con,
        f"select rounded_by(exact_sum({quoted(key)}) / nullif(count({quoted(key)}), 0), ?) "
        f"from {scratch(formula.name)}",
        [rounding],
    )
    return found


def _put_document(con: Connection, run: RunRow, text: str) -> None:
    """Make this the run's aggregate_json; the same text again writes nothing."""
    known = first_value(
        con, "select aggregate_json from aggregates.run_documents where run_key = ?", [run.run_key]
    )
    if known == text:
        return
    with transaction(con):
        con.execute("delete from aggregates.run_documents where run_key = ?", [run.run_key])
        con.execute("insert into aggregates.run_documents values (?, ?)", [run.run_key, text])


def compute_aggregate(project: Project, run_id: str) -> Aggregate:
    """The summary under the formulas that hold now; nothing is written. Frozen values are taken as they are stored."""
    registry = project.definitions()
    with project.read() as store:
        run = find_run(store.con, run_id)
        emptied = emptied_places(store.con, run.run_key)
        definitions = _behind_the_document(registry, run.dataset)
        frozen = [one for one in definitions if text_columns(registry, one) & emptied]
        return _compute_document(
            store.con,
            run,
            wanted=[one for one in definitions if one not in frozen],
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


def store_aggregate(project: Project, run_id: str, aggregate: Mapping[str, object]) -> None:
    """Make the aggregate the run's aggregate_json; an unknown run is an error, no other run changes."""
    if _is_knowledge_base(project.settings.db):
        _write_back(project.settings.db, run_id, to_json(_checked_document(aggregate, run_id=run_id)))
        return
    # Asked read-only first: an unknown name, or no store at all, must not leave a new file behind.
    with project.read() as store:
        find_run(store.con, run_id)
    document = _checked_document(aggregate, run_id=run_id)
    with project.write() as store:
        _put_document(store.con, find_run(store.con, run_id), to_json(document))


def _checked_document(aggregate: Mapping[str, object], *, run_id: str) -> Aggregate:
    """The aggregate with its keys in their order and its values rounded as stored ones are; an error if it is none."""
    if not isinstance(aggregate, Mapping):
        raise UsageError(f"the aggregate of {run_id!r} is a {type(aggregate).__name__}, expected a mapping")
    return cast(Aggregate, _like(empty_document(), aggregate, place=f"the aggregate of {run_id!r}"))


def _like(pattern: Mapping[str, object], given: Mapping[str, object], *, place: str) -> dict[str, object]:
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
        return given if is_count else rounded(given)
    if not is_count and (given is None or is_number):
        return None
    expected = "a whole number" if is_count else "a finite number, or None where it is undefined"
    raise UsageError(f"{place} is {given!r}, expected {expected}")
