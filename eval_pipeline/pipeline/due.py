"""Which cells there should be, which of them are due, and in which order they are computed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.fingerprint import combined
from eval_pipeline.formulas.registry import ALL_FORMULAS, Registry
from eval_pipeline.formulas.text_columns import text_columns
from eval_pipeline.store.connect import Connection
from eval_pipeline.store.ledger import Wanted, find_states, wanted_of

BATCH_RESULTS = 1_000_000
# An extraction case is compared field by field in Python: it costs about as much as this many results.
RESULTS_PER_CASE = 50
ASKED = "asked"
MISSING = "missing"
DUE = frozenset((MISSING, "results"))


@dataclass(frozen=True)
class Due:
    """One cell that is to be computed."""

    wanted: Wanted
    run_key: int
    run_id: str
    dataset_key: int
    golden_key: int
    reason: str


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
                        texts=text_columns(registry, one) | text_columns(registry, formula),
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
                    was=old_name(registry, one),
                    texts=text_columns(registry, one),
                )
            )
    return found


def old_name(registry: Registry, one: Definition) -> str:
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
    find_states(con, wanted, unwanted=unwanted_cells(registry), only_due=not force)
    by_name = {(one.definition, one.source): one for one in wanted}
    rows = con.execute(
        "select definition, source, run_key, run_id, dataset_key, golden_key, reason from cell_states "
        "where not is_pinned and not is_frozen order by run_no"
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
    lineages = {name: _with_parents(registry, name) for name in {asked_name for asked_name, _ in asked}}
    needed = {(name, run_key) for asked_name, run_key in asked for name in lineages[asked_name]}
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


def in_batches(con: Connection, due: Sequence[Due]) -> Iterator[list[Due]]:
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


def in_steps(wanted: Sequence[Wanted], batch: Sequence[Due]) -> list[list[Due]]:
    """One step per kind of cell, parents first."""
    by_name: dict[str, list[Due]] = {}
    for due in batch:
        by_name.setdefault(due.wanted.name, []).append(due)
    return [by_name[one.name] for one in wanted if one.name in by_name]
