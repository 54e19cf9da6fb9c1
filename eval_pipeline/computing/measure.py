"""What is due is computed: facts, metrics and aggregates, in ranges of runs."""

from __future__ import annotations

import datetime as dt
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from eval_pipeline.computing.aggregates import DOCUMENT_KEYS, _write_documents, compute_aggregates
from eval_pipeline.computing.definition_versions import _record_versions
from eval_pipeline.computing.derived import add_new_columns, compute, table_of
from eval_pipeline.computing.failures import Culprit, _find_culprit
from eval_pipeline.computing.history import _carry_rename, _keep_replaced, _keep_replaced_rows
from eval_pipeline.computing.ledger import (
    ASKED,
    MISSING,
    NEW_DATA_REASONS,
    StaleCell,
    _find_stale,
    _in_batches,
    _in_steps,
)
from eval_pipeline.computing.scope import (
    CATALOGUE,
    KnownTables,
    Scope,
    known_tables,
    point_views_at,
    visible_catalogue,
)
from eval_pipeline.computing.states import (
    Cell,
    CellSpec,
    Failure,
    States,
    _old_name,
    _unwanted_cells,
    cell_specs,
    find_states,
    states_of_cells,
)
from eval_pipeline.errors import FormulaFailed
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.settings import product_version
from eval_pipeline.store.engine import interruptible
from eval_pipeline.store.lock import yield_lock
from eval_pipeline.store.open import Connection, first_value, transaction
from eval_pipeline.store.project import Project, Store, at_one_time
from eval_pipeline.store.schema import assign_label_chunkers, refresh_views

TURN_SECONDS = 1.0

Progress = Callable[[int, int], None]
# The cells of one kind that are computed together.
Step = list[StaleCell]
# (definition, source, run key) → reason, golden key
Reasons = Mapping[tuple[str, str, int], Sequence[Any]]


@dataclass
class Measured:
    """What was computed: cells per definition, runs, and time spent computing; and what could not be.

    `failed` holds the cells by name and run key, with the first definition that failed and how.
    """

    cells: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    runs: set[str] = field(default_factory=set)
    reasons: dict[str, dict[str, str]] = field(default_factory=dict)
    seconds: float = 0.0
    failed: dict[tuple[str, int], Failure] = field(default_factory=dict)


@dataclass(frozen=True)
class Stamp:
    """When, by which Dagster run and for what stated reason cells are computed."""

    now: dt.datetime
    dagster_run_id: str | None
    note: str | None


@dataclass
class _Work:
    """What one call computes with, turn after turn, and what it has left to do.

    `waiting` holds the steps with the number of their batch, `states` what was found of the batch that is computed,
    `documents` the runs whose document is behind.
    """

    registry: Registry
    stamp: Stamp
    total: int
    progress: Progress | None
    waiting: deque[tuple[int, Step]]
    states: States
    documents: set[int] = field(default_factory=set)
    done: Measured = field(default_factory=Measured)

    def makes_documents(self, wanted: CellSpec) -> bool:
        """Whether a run's document shows these aggregates."""
        return bool(wanted.source and DOCUMENT_KEYS & set(self.registry.definitions[wanted.source].keys))


def measure(
    project: Project,
    *,
    reasons: Collection[str] | None = NEW_DATA_REASONS,
    run_ids: Collection[str] | None = None,
    definitions: Collection[str] | None = None,
    force: bool = False,
    dagster_run_id: str | None = None,
    note: str | None = None,
    progress: Progress | None = None,
) -> Measured:
    """Compute the cells that are stale for one of the reasons (None: any), with the stale cells they build on.

    `definitions` names tables, or one formula's aggregates as `aggregates.run_metrics:metrics.hit_at_k`. `force`
    computes what is named although it is fresh. A definition that fails takes with it what reads it, and nothing else.
    """
    project = at_one_time(project)
    registry = project.definitions()
    wanted = cell_specs(registry)
    with project.write() as store, interruptible(store.con):
        with transaction(store.con):
            _prepare(store)
            assign_label_chunkers(store.con, registry.config.label_chunkers)
        states = states_of_cells(store, only_due=not force)
        due = _find_stale(
            states, registry, wanted, reasons=reasons, run_ids=run_ids, names=definitions, force=force
        )
        _note_first_computed(store.con, due)
        batches = [_in_steps(wanted, batch) for batch in _in_batches(store.con, due)]
        waiting = deque((number, step) for number, batch in enumerate(batches) for step in batch)
        work = _Work(
            registry,
            Stamp(project.clock(), dagster_run_id, note),
            len(due),
            progress,
            waiting,
            states,
        )
        started = time.perf_counter()
        # The states were found under this very lock.
        _take_turn(store.con, work, is_first=True)
    while waiting:
        yield_lock()
        with project.write() as store, interruptible(store.con):
            _take_turn(store.con, work, is_first=False)
    work.done.seconds = time.perf_counter() - started
    return work.done


def _prepare(store: Store) -> None:
    """Carry renamed definitions over and remember what every definition means now."""
    registry = store.definitions()
    for one in registry:
        old = _old_name(registry, one)
        if old:
            _carry_rename(store.con, old, one.name)
    _record_versions(store)


def _note_first_computed(con: Connection, due: Sequence[StaleCell]) -> None:
    """Which version computes a run that none has computed yet."""
    run_keys = {one.run_key for one in due if one.reason == MISSING}
    if run_keys:
        con.execute(
            "insert into ledger.computed_runs select run_key, ? from (select unnest(?) as run_key) "
            "where run_key not in (select run_key from ledger.computed_runs)",
            [product_version(), sorted(run_keys)],
        )


def _take_turn(con: Connection, work: _Work, *, is_first: bool) -> None:
    """Compute for about a second; under the lock of the first turn everything that waits is known to be due."""
    waiting, ends = work.waiting, time.monotonic() + TURN_SECONDS
    with visible_catalogue(con, work.registry.helpers.values(), work.registry.config) as catalogue:
        known = known_tables(con, catalogue)
        batch = None
        while waiting and time.monotonic() < ends:
            number = waiting[0][0]
            if not is_first and number != batch:
                # While the lock is held nobody else changes a state: once per batch and turn is enough.
                batch = number
                _leave_out_done(con, catalogue, work, batch)
            if waiting and waiting[0][0] == number:
                _take_step(con, catalogue, work, waiting.popleft()[1], known)
            if work.progress:
                work.progress(sum(work.done.cells.values()) + len(work.done.failed), work.total)
        if work.documents:
            with transaction(con):
                _renew_documents(con, catalogue, work, work.documents)
    if not waiting:
        _forget_mended(con)
        times = {key: one for one in work.registry.times for key in one.keys}
        refresh_views(con, work.registry.keys() | times)


def _forget_mended(con: Connection) -> None:
    """A cell that stands has not failed, whatever was tried before."""
    if first_value(con, "select count(*) from ledger.failures"):
        con.execute(
            "delete from ledger.failures where (definition, source, run_key) in "
            "(select definition, source, run_key from ledger.cells)"
        )


def _leave_out_done(con: Connection, catalogue: str, work: _Work, batch: int) -> None:
    """Take out of a batch what is no longer due."""
    steps = _steps_of(work, batch)
    known = _reasons_now(con, catalogue, work, steps)
    for _ in steps:
        work.waiting.popleft()
    due = [_still_due(known, step) for step in steps]
    work.waiting.extendleft((batch, step) for step in reversed(due) if step)


def _steps_of(work: _Work, batch: int) -> list[Step]:
    """What waits of the batch that comes next."""
    return [step for _, step in takewhile(lambda one: one[0] == batch, work.waiting)]


def _reasons_now(con: Connection, catalogue: str, work: _Work, steps: Sequence[Step]) -> Reasons:
    """Ask again for the states of the cells that these steps are about to compute; without those that are frozen."""
    run_keys = sorted({due.run_key for step in steps for due in step})
    con.execute(f'use "{catalogue}"')
    work.states = find_states(
        con,
        [step[0].wanted for step in steps],
        unwanted=_unwanted_cells(work.registry),
        run_keys=run_keys,
        config=work.registry.config,
    )
    con.execute(f"use {CATALOGUE}")
    rows = work.states.rows("definition, source, run_key, reason_unless_frozen, golden_key", "not is_frozen")
    return {(definition, source, run_key): state for definition, source, run_key, *state in rows}


def _still_due(known: Reasons, step: Step) -> Step:
    """Without what somebody else has computed, or delivered anew under another golden set, in the meantime."""
    found: Step = []
    for due in step:
        key = (due.wanted.definition, due.wanted.source, due.run_key)
        reason, golden_key = known.get(key, (None, None))
        if golden_key == due.golden_key and (reason is not None or due.reason == ASKED):
            found.append(due)
    return found


def _take_step(con: Connection, catalogue: str, work: _Work, step: Step, known: KnownTables) -> None:
    """Compute one kind of cell for its runs, but for those where something that it reads has failed."""
    failed = [failure for due in step if (failure := _failed_before(work, due))]
    if failed:
        _keep_failures(con, catalogue, work, step, failed, known)
        lost = {one.run_key for one in failed}
        step = [due for due in step if due.run_key not in lost]
    if step:
        _try_step(con, catalogue, work, step, known)


def _failed_before(work: _Work, due: StaleCell) -> Failure | None:
    """How a parent of the cell failed just now; one that is not due stands."""
    if not work.done.failed:
        return None
    wanted = due.wanted
    parents = (wanted.source,) if wanted.source else work.registry.definitions[wanted.definition].reads
    for parent in parents:
        first = work.done.failed.get((parent, due.run_key))
        if first:
            why = "" if wanted.source or first.name != parent else f"it reads {parent}, which failed: "
            return replace(first, error=why + first.error)
    return None


def _try_step(con: Connection, catalogue: str, work: _Work, step: Step, known: KnownTables) -> None:
    """All runs at once; where that fails by halves, so that the runs that can be computed are."""
    try:
        _replace_cells(con, catalogue, work, step, known)
        return
    except FormulaFailed as failed:
        # What was rolled back is no longer as it was noted.
        known.columns = known_tables(con, catalogue).columns
        error = failed
    if len(step) > 1 and not error.is_everywhere:
        half = len(step) // 2
        _try_step(con, catalogue, work, step[:half], known)
        _try_step(con, catalogue, work, step[half:], known)
        return
    definition = work.registry.definitions[step[0].wanted.definition]
    if step[0].wanted.source:
        # An aggregate is computed from whole tables, so no single query can be named.
        culprit = Culprit(None, error.text)
    else:
        culprit = _find_culprit(con, catalogue, definition, _scope_of(step), error)
    known.views.clear()
    known.run_keys = ()
    found = [Failure(definition.name, due.run_key, culprit.query_key, culprit.text) for due in step]
    _keep_failures(con, catalogue, work, step, found, known)


def _keep_failures(
    con: Connection, catalogue: str, work: _Work, step: Step, failures: Sequence[Failure], known: KnownTables
) -> None:
    """What stood there was of another definition or of other data: it goes into the history, as if replaced."""
    wanted = step[0].wanted
    definition = work.registry.definitions[wanted.definition]
    run_keys = sorted(one.run_key for one in failures)
    scope = Scope(step[0].dataset_key, step[0].golden_key, run_keys)
    point_views_at(con, catalogue, scope, (), known)
    with transaction(con):
        if definition.name.lower() in known.columns:
            _keep_history(catalogue, work, wanted, scope, known)
            of_formula = " and source = ?" if wanted.source else ""
            con.execute(
                f"delete from {table_of(definition, catalogue)} where {scope.condition()}{of_formula}",
                [wanted.source] if wanted.source else [],
            )
        stamp = work.stamp
        work.states.record_failures(
            catalogue, wanted, failures, now=stamp.now, dagster_run_id=stamp.dagster_run_id
        )
    if work.makes_documents(wanted):
        work.documents.update(run_keys)
    work.done.failed |= {(wanted.name, one.run_key): one for one in failures}


def _scope_of(step: Step) -> Scope:
    return Scope(
        step[0].dataset_key,
        step[0].golden_key,
        sorted(due.run_key for due in step),
        is_first=all(due.reason == MISSING for due in step),
    )


def _add_new_columns(
    con: Connection, catalogue: str, work: _Work, name: str, scope: Scope, known: KnownTables
) -> None:
    """Add what newer versions of a definition, and of what it reads, have more; its runs may all be fresh."""
    definition = work.registry.definitions.get(name)
    existing = known.columns.get(name.lower())
    if definition is None or not existing or existing.keys() >= definition.column_of_key.keys():
        return
    for parent in definition.reads:
        _add_new_columns(con, catalogue, work, parent, scope, known)
    point_views_at(con, catalogue, scope, definition.reads, known)
    with transaction(con):
        add_new_columns(con, catalogue, definition, known)


def _replace_cells(con: Connection, catalogue: str, work: _Work, step: Step, known: KnownTables) -> None:
    """Replace one kind of cell for its runs: rows, history and ledger together."""
    wanted, registry = step[0].wanted, work.registry
    definition = registry.definitions[wanted.definition]
    formula = registry.definitions[wanted.source] if wanted.source else None
    scope = _scope_of(step)
    started = time.perf_counter()
    read = ["labels.slices", formula.name] if formula else definition.reads
    for name in read:
        _add_new_columns(con, catalogue, work, name, scope, known)
    point_views_at(con, catalogue, scope, read, known)
    with transaction(con):
        if any(due.reason != MISSING for due in step):
            _keep_history(catalogue, work, wanted, scope, known)
        lacks_labels = _lacks_labels(con, catalogue, work, scope, definition, known)
        rows = (
            compute_aggregates(con, catalogue, definition, formula, scope)
            if formula
            else compute(con, catalogue, definition, scope, known, has_no_values=lacks_labels)
        )
        seconds = (time.perf_counter() - started) / len(step)
        cells = [Cell(due.run_key, rows.get(due.run_key, 0), seconds, due.reason) for due in step]
        stamp = work.stamp
        work.states.record(
            catalogue, wanted, cells, now=stamp.now, dagster_run_id=stamp.dagster_run_id, note=stamp.note
        )
        if work.makes_documents(wanted):
            work.documents.update(scope.run_keys)
            _renew_documents(con, catalogue, work, work.documents - _renewed_later(work))
    _note(work.done, definition, step, sum(rows.values()))


def _lacks_labels(
    con: Connection, catalogue: str, work: _Work, scope: Scope, definition: Definition, known: KnownTables
) -> bool:
    """Whether a metric reads ids of chunks, and the labels of these runs have none of their chunker."""
    if definition.schema != "metrics" or not work.registry.compares_chunk_ids(definition):
        return False
    chunkers = f'"{catalogue}".ledger.label_chunkers'
    sql = f"select count(*) from {chunkers} where variant_key = ?"
    if scope.golden_key not in known.variants:
        known.variants[scope.golden_key] = bool(first_value(con, sql, [scope.golden_key]))
    return known.variants[scope.golden_key]


def _keep_history(catalogue: str, work: _Work, wanted: CellSpec, scope: Scope, known: KnownTables) -> None:
    """What is about to be replaced; facts and values per query can be computed again and have no history."""
    definition = work.registry.definitions[wanted.definition]
    if wanted.source:
        _keep_replaced(
            work.states, catalogue, wanted, scope.run_keys, now=work.stamp.now, note=work.stamp.note
        )
    elif definition.schema == "aggregates" and definition.name.lower() in known.columns:
        _keep_replaced_rows(
            work.states, catalogue, definition, scope.run_keys, now=work.stamp.now, note=work.stamp.note
        )


def _renewed_later(work: _Work) -> set[int]:
    """The runs whose document a later step renews: until then a cell of theirs is stale, whatever happens between."""
    steps = _steps_of(work, work.waiting[0][0]) if work.waiting else []
    coming = (due for step in steps if work.makes_documents(step[0].wanted) for due in step)
    return {due.run_key for due in coming if due.reason != ASKED}


def _renew_documents(con: Connection, catalogue: str, work: _Work, run_keys: set[int]) -> None:
    if run_keys:
        _write_documents(con, catalogue, sorted(run_keys))
        work.documents.difference_update(run_keys)


def _note(done: Measured, definition: Definition, step: Sequence[StaleCell], n_rows: int) -> None:
    reasons = done.reasons.setdefault(definition.name, {})
    for due in step:
        reasons[due.run_id] = due.reason
        done.runs.add(due.run_id)
    done.cells[definition.name] = done.cells.get(definition.name, 0) + len(step)
    done.rows[definition.name] = done.rows.get(definition.name, 0) + n_rows
