"""Compute what is due: facts, metrics and aggregates, in ranges of runs, in short transactions."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.fingerprint import combined
from eval_pipeline.formulas.registry import ALL_FORMULAS, Registry
from eval_pipeline.settings import Settings
from eval_pipeline.store.aggregates import DOCUMENT_KEYS, compute_aggregates, write_documents
from eval_pipeline.store.connect import Connection, open_writer, transaction
from eval_pipeline.store.derived import compute
from eval_pipeline.store.history import carry_rename, keep_replaced
from eval_pipeline.store.ledger import (
    Cell,
    Wanted,
    find_states,
    record_cells,
    wanted_of,
)
from eval_pipeline.store.lock import Tell, let_others_in
from eval_pipeline.store.meanings import record_meanings
from eval_pipeline.store.summary_history import keep_replaced_rows
from eval_pipeline.store.views import refresh_views
from eval_pipeline.store.visible import CATALOGUE, Scope, show, visible_catalogue

TURN_SECONDS = 1.0
BATCH_RESULTS = 1_000_000
# An extraction case is compared field by field in Python: it costs about as much as this many results.
RESULTS_PER_CASE = 50
ASKED = "asked"
DUE = frozenset(("missing", "results"))

Progress = Callable[[int, int], None]


@dataclass
class Measured:
    """What was computed: cells per definition, runs, and time spent computing."""

    cells: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    runs: set[str] = field(default_factory=set)
    reasons: dict[str, dict[str, str]] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class Due:
    """One cell that is to be computed."""

    wanted: Wanted
    run_key: int
    run_id: str
    dataset_key: int
    golden_key: int
    reason: str


@dataclass(frozen=True)
class Stamp:
    """When, by which Dagster run and for what stated reason cells are computed."""

    now: dt.datetime
    dagster_run_id: str | None
    note: str | None


def wanted_cells(registry: Registry) -> list[Wanted]:
    """Every kind of cell there should be, parents before children."""
    found: list[Wanted] = []
    for one in registry:
        if ALL_FORMULAS in one.reads:
            for formula in registry.formulas:
                found.append(
                    wanted_of(
                        one.name,
                        source=formula.name,
                        fingerprint=combined(one.fingerprint, formula.fingerprint),
                        own_fingerprint=one.own_fingerprint,
                        inputs={*registry.inputs_of(one), *registry.inputs_of(formula)},
                        source_fingerprint=formula.fingerprint,
                    )
                )
        else:
            found.append(
                wanted_of(
                    one.name,
                    source="",
                    fingerprint=one.fingerprint,
                    own_fingerprint=one.own_fingerprint,
                    inputs=registry.inputs_of(one),
                    was=_old_name(registry, one),
                )
            )
    return found


def _old_name(registry: Registry, one: Definition) -> str:
    """The name the definition was renamed from, unless something stands under that name again."""
    old = f"{one.schema}.{one.header.was}" if one.header.was else ""
    return "" if old in registry.definitions else old


def unwanted_cells(registry: Registry) -> list[tuple[str, str]]:
    """(definition, dataset) where a dataset's configuration leaves a formula out."""
    return [
        (one.name, dataset)
        for dataset in registry.config.datasets
        for one in registry
        if not registry.applies_to(one, dataset)
    ]


def measure(
    settings: Settings,
    registry: Registry,
    *,
    now: dt.datetime,
    reasons: Collection[str] | None = DUE,
    run_ids: Collection[str] | None = None,
    definitions: Collection[str] | None = None,
    force: bool = False,
    dagster_run_id: str | None = None,
    note: str | None = None,
    tell: Tell | None = None,
    progress: Progress | None = None,
) -> Measured:
    """Compute the cells that are stale for one of the reasons (None: any), with the stale cells they build on.

    `definitions` names tables, or one formula's aggregates as `aggregates.run_metrics:metrics.hit_at_k`. `force`
    computes what is named although it is fresh.
    """
    done = Measured()
    wanted = wanted_cells(registry)
    with open_writer(settings.db, tell=tell) as con:
        with transaction(con):
            _prepare(con, registry, now=now)
        due = find_due(
            con, registry, wanted, reasons=reasons, run_ids=run_ids, definitions=definitions, force=force
        )
        batches = list(_batches(con, due))
    stamp = Stamp(now, dagster_run_id, note)
    steps = [(number, step) for number, batch in enumerate(batches) for step in _steps(wanted, batch)]
    total = sum(len(step) for _, step in steps)
    started = time.perf_counter()
    position = 0
    while position < len(steps):
        with (
            open_writer(settings.db, tell=tell) as con,
            visible_catalogue(con, registry.helpers.values()) as store,
        ):
            turn = time.monotonic()
            batch = None
            while position < len(steps) and time.monotonic() - turn < TURN_SECONDS:
                number, step = steps[position]
                if number != batch:
                    # While the lock is held nobody else changes a state: once per batch and turn is enough.
                    _find_states_of(con, store, registry, [one for n, one in steps[position:] if n == number])
                    batch = number
                _take_step(con, store, registry, step, done, stamp)
                position += 1
                if progress:
                    progress(sum(done.cells.values()), total)
        let_others_in()
    with open_writer(settings.db, tell=tell) as con:
        refresh_views(con, registry.keys())
    done.seconds = time.perf_counter() - started
    return done


def _prepare(con: Connection, registry: Registry, *, now: dt.datetime) -> None:
    """Carry renamed definitions over and remember what every definition means now."""
    for one in registry:
        old = _old_name(registry, one)
        if old:
            carry_rename(con, old, one.name)
    record_meanings(con, registry.definitions, registry.helpers, now=now)


def find_due(
    con: Connection,
    registry: Registry,
    wanted: Sequence[Wanted],
    *,
    reasons: Collection[str] | None,
    run_ids: Collection[str] | None,
    definitions: Collection[str] | None,
    force: bool,
) -> list[Due]:
    """The cells to compute, in the order of the runs."""
    find_states(con, wanted, unwanted=unwanted_cells(registry))
    by_name = {(one.definition, one.source): one for one in wanted}
    rows = con.execute(
        "select definition, source, run_key, run_id, dataset_key, golden_key, reason from cell_states "
        "where not is_pinned order by run_no"
    ).fetchall()
    asked: set[tuple[str, int]] = set()
    stale: dict[tuple[str, str, int], Due] = {}
    for definition, source, run_key, run_id, dataset_key, golden_key, reason in rows:
        names = {definition, by_name[definition, source].name}
        is_named = (definitions is None or not names.isdisjoint(definitions)) and (
            run_ids is None or run_id in run_ids
        )
        forced = force and is_named
        if reason is None and not forced:
            continue
        due = Due(by_name[definition, source], run_key, run_id, dataset_key, golden_key, reason or ASKED)
        stale[definition, source, run_key] = due
        if is_named and (forced or reasons is None or reason in reasons):
            asked.add((due.wanted.name, run_key))
    needed = {
        (name, run_key) for asked_name, run_key in asked for name in _with_parents(registry, asked_name)
    }
    return [due for due in stale.values() if (due.wanted.name, due.run_key) in needed]


def _with_parents(registry: Registry, name: str) -> set[str]:
    """The cell's name with those of everything it is computed from."""
    definition, _, source = name.partition(":")
    found = {name}
    parents = (source,) if source else registry.definitions[definition].reads
    for parent in parents:
        if parent in registry.definitions:
            found |= _with_parents(registry, parent)
    return found


def _batches(con: Connection, due: Sequence[Due]) -> Iterator[list[Due]]:
    """Runs of one dataset together, up to a number of results that is computed in about a second."""
    sizes = dict(
        con.execute(
            "select run_key, sum(case when part = 'results' then n_rows else n_rows * ? end) from raw.run_parts "
            "where part in ('results', 'extractions') group by run_key",
            [RESULTS_PER_CASE],
        ).fetchall()
    )
    by_dataset: dict[int, dict[int, list[Due]]] = {}
    for one in due:
        by_dataset.setdefault(one.dataset_key, {}).setdefault(one.run_key, []).append(one)
    for runs in by_dataset.values():
        batch: list[Due] = []
        size = 0
        for run_key in sorted(runs):
            if batch and size + sizes.get(run_key, 0) > BATCH_RESULTS:
                yield batch
                batch, size = [], 0
            batch += runs[run_key]
            size += sizes.get(run_key, 0)
        if batch:
            yield batch


def _steps(wanted: Sequence[Wanted], batch: Sequence[Due]) -> list[list[Due]]:
    """One step per kind of cell, parents first."""
    by_name: dict[str, list[Due]] = {}
    for due in batch:
        by_name.setdefault(due.wanted.name, []).append(due)
    return [by_name[one.name] for one in wanted if one.name in by_name]


def _take_step(
    con: Connection,
    store: str,
    registry: Registry,
    step: Sequence[Due],
    done: Measured,
    stamp: Stamp,
) -> None:
    wanted = step[0].wanted
    definition = registry.definitions[wanted.definition]
    step = _still_due(con, step)
    if not step:
        return
    run_keys = sorted(due.run_key for due in step)
    scope = Scope(step[0].dataset_key, step[0].golden_key, run_keys)
    started = time.perf_counter()
    formula = registry.definitions[wanted.source] if wanted.source else None
    show(con, store, scope, ["labels.slices", formula.name] if formula else definition.reads)
    with transaction(con):
        if formula:
            keep_replaced(con, store, wanted, run_keys, now=stamp.now, note=stamp.note)
            rows = compute_aggregates(con, store, definition, formula, scope)
            if DOCUMENT_KEYS & set(formula.keys):
                write_documents(con, store, run_keys)
        else:
            if definition.schema == "aggregates":
                keep_replaced_rows(con, store, definition, run_keys, now=stamp.now, note=stamp.note)
            rows = compute(con, store, definition, scope)
        seconds = (time.perf_counter() - started) / len(run_keys)
        cells = [
            Cell(wanted.definition, wanted.source, due.run_key, rows.get(due.run_key, 0), seconds, due.reason)
            for due in step
        ]
        record_cells(
            con, store, cells, wanted, now=stamp.now, dagster_run_id=stamp.dagster_run_id, note=stamp.note
        )
    _note(done, definition, step, sum(rows.values()))


def _find_states_of(con: Connection, store: str, registry: Registry, steps: Sequence[Sequence[Due]]) -> None:
    """The states of the cells that these steps are about to compute."""
    wanted = [step[0].wanted for step in steps]
    run_keys = sorted({due.run_key for step in steps for due in step})
    con.execute(f'use "{store}"')
    find_states(con, wanted, unwanted=unwanted_cells(registry), run_keys=run_keys)
    con.execute(f"use {CATALOGUE}")


def _still_due(con: Connection, step: Sequence[Due]) -> list[Due]:
    """Without what somebody else has computed, or delivered anew under another golden set, in the meantime."""
    states = {
        run_key: (reason, golden_key)
        for run_key, reason, golden_key in con.execute(
            "select run_key, reason, golden_key from temp.cell_states where definition = ? and source = ?",
            [step[0].wanted.definition, step[0].wanted.source],
        ).fetchall()
    }
    return [
        due
        for due in step
        if due.run_key in states
        and states[due.run_key][1] == due.golden_key
        and (states[due.run_key][0] is not None or due.reason == ASKED)
    ]


def _note(done: Measured, definition: Definition, step: Sequence[Due], n_rows: int) -> None:
    reasons = done.reasons.setdefault(definition.name, {})
    for due in step:
        reasons[due.run_id] = due.reason
        done.runs.add(due.run_id)
    done.cells[definition.name] = done.cells.get(definition.name, 0) + len(step)
    done.rows[definition.name] = done.rows.get(definition.name, 0) + n_rows
