"""Which cells are to be computed, why, and in which batches and steps."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from eval_pipeline.computing.states import CellSpec, States
from eval_pipeline.computing.upgrades import UPGRADE, upgraded_cells
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.store.open import Connection

BATCH_RESULTS = 1_000_000
# An extraction case is compared field by field in Python: it costs about as much as this many results.
RESULTS_PER_CASE = 50
ASKED = "asked"
MISSING = "missing"
NEW_DATA_REASONS = frozenset((MISSING, "results"))
# Reasons that lie in the data: no definition speaks against computing them.
DATA_REASONS = NEW_DATA_REASONS | {"labels", "archive"}
# Tried with these very inputs: only what asks for every reason tries once more.
FAILED = "failed"
DEFINITION_REASONS = frozenset(("formula", "parent"))
# What came with a later version than the run was computed by, and nobody has asked for yet.
OFFERED = "offered"
EVERY_REASON = DATA_REASONS | DEFINITION_REASONS | {UPGRADE, OFFERED, FAILED}


@dataclass(frozen=True)
class StaleCell:
    """One cell that is to be computed."""

    wanted: CellSpec
    run_key: int
    run_id: str
    dataset_key: int
    golden_key: int
    reason: str


def _find_stale(
    states: States,
    registry: Registry,
    wanted: Sequence[CellSpec],
    *,
    reasons: Collection[str] | None,
    run_ids: Collection[str] | None,
    names: Collection[str] | None,
    force: bool,
) -> list[StaleCell]:
    """The cells to compute, in the order of the runs; with `force` the states of fresh cells are among those given."""
    by_name = {(one.definition, one.source): one for one in wanted}
    rows = states.rows(
        "definition, source, run_key, run_id, dataset_key, golden_key, reason_unless_frozen, stored_fingerprint, "
        "is_offered",
        "not is_pinned and not is_frozen order by run_no",
    )
    asked: set[tuple[str, int]] = set()
    stale: dict[tuple[str, str, int], StaleCell] = {}
    upgraded = {} if reasons is None or DATA_REASONS.issuperset(reasons) else upgraded_cells(states, registry)
    for definition, source, run_key, run_id, dataset_key, golden_key, reason, meant, is_offered in rows:
        called = {definition, by_name[definition, source].name}
        is_named = (names is None or not called.isdisjoint(names)) and (run_ids is None or run_id in run_ids)
        forced = force and is_named
        if reason is None and not forced:
            continue
        due = StaleCell(
            by_name[definition, source], run_key, run_id, dataset_key, golden_key, reason or ASKED
        )
        stale[definition, source, run_key] = due
        kind = OFFERED if is_offered else UPGRADE if (definition, source, meant) in upgraded else reason
        is_asked = kind != OFFERED if reasons is None else kind in reasons
        if is_named and (forced or is_asked):
            asked.add((due.wanted.name, run_key))
    lineages = {name: with_parents(registry, name) for name in {asked_name for asked_name, _ in asked}}
    needed = {(name, run_key) for asked_name, run_key in asked for name in lineages[asked_name]}
    return [due for due in stale.values() if (due.wanted.name, due.run_key) in needed]


def with_parents(registry: Registry, name: str) -> set[str]:
    """The cell's name with those of everything it is computed from."""
    definition, _, source = name.partition(":")
    found = {name}
    parents = (source,) if source else registry.definitions[definition].reads
    for parent in parents:
        if parent in registry.definitions:
            found |= with_parents(registry, parent)
    return found


def _in_batches(con: Connection, due: Sequence[StaleCell]) -> Iterator[list[StaleCell]]:
    """Runs that one golden set scores together, up to a number of results that is computed in about a second."""
    sizes = dict(
        con.execute(
            "select run_key, sum(case when part = 'results' then n_rows else n_rows * ? end) from raw.run_parts "
            "where part in ('results', 'extractions') group by run_key",
            [RESULTS_PER_CASE],
        ).fetchall()
    )
    scored: dict[tuple[int, int], dict[int, list[StaleCell]]] = {}
    for one in due:
        scored.setdefault((one.dataset_key, one.golden_key), {}).setdefault(one.run_key, []).append(one)
    for runs in scored.values():
        batch: list[StaleCell] = []
        size = 0
        for run_key in sorted(runs):
            if batch and size + sizes.get(run_key, 0) > BATCH_RESULTS:
                yield batch
                batch, size = [], 0
            batch += runs[run_key]
            size += sizes.get(run_key, 0)
        if batch:
            yield batch


def _in_steps(wanted: Sequence[CellSpec], batch: Sequence[StaleCell]) -> list[list[StaleCell]]:
    """One step per kind of cell, parents first."""
    by_name: dict[str, list[StaleCell]] = {}
    for due in batch:
        by_name.setdefault(due.wanted.name, []).append(due)
    return [by_name[one.name] for one in wanted if one.name in by_name]
