"""Whether two runs can be compared: both computed, still holding, and computed alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from eval_pipeline.comparing.pair_rows import CellState, ComparedRun, _cells_of
from eval_pipeline.comparing.pair_states import PAIR_FACTS
from eval_pipeline.computing.ledger import FAILED
from eval_pipeline.computing.states import RunCell, states_of_cells
from eval_pipeline.errors import UsageError
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.store.project import Store

# A formula that was never computed for a run and cannot be any more: the texts it reads were forgotten.
FROZEN: Final = "forgotten"

# Of a formula that is made as it should be for both runs, of another kind of what was delivered.
DELIVERED: Final = "judgements or delivered scores"

Cells = Mapping[tuple[str, str], CellState]


@dataclass(frozen=True)
class RunStates:
    """One run's cells as they were computed, and the formulas whose values are missing or do not hold any more.

    Of what is `pinned` the old value is kept on purpose. `failed` says of a table by its full name why it has none.
    `current` are the tables, by their full names, that today's definitions have made.
    """

    cells: Cells
    reasons: Mapping[str, str]
    outdated_facts: str | None
    pinned: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    current: frozenset[str] = frozenset()


@dataclass(frozen=True)
class FormulaDifference:
    """A formula that was computed differently for the two runs."""

    name: str
    what: str


def _read_states(store: Store, runs: Sequence[ComparedRun]) -> list[RunStates]:
    """The states of the runs, in their order."""
    registry = store.definitions()
    formulas = {one.name: one.short_name for one in registry.formulas}
    summaries = {one.name: one.short_name for one in registry.summaries}
    shown = formulas | summaries
    found = []
    with states_of_cells(store, runs=sorted({run.run_key for run in runs})) as states:
        for run in runs:
            cells = _cells_of(store.con, run)
            own = states.of_run(run.run_key)
            reasons = {
                formulas[one.definition]: reason
                for one in own
                if one.definition in formulas and (reason := _in_the_way(one))
            }
            outdated = None
            for one in own:
                if one.definition in PAIR_FACTS and outdated is None:
                    outdated = _outdated(cells.get((one.definition, "")), one)
            left = {
                shown[one.definition]: one.reason
                for one in own
                if one.is_pinned and one.reason and one.definition in shown
            }
            failed = {one.definition: one.failure for one in own if one.failure and not one.source}
            current = frozenset(
                one.definition for one in own if one.stored_fingerprint and not (one.reason or one.source)
            )
            found.append(RunStates(cells, reasons, outdated, left, failed, current))
    return found


def _in_the_way(one: RunCell) -> str | None:
    """Why the values of a formula are missing or do not hold any more; what is pinned is left on purpose."""
    if one.is_frozen and one.stored_fingerprint is None:
        return FROZEN
    return None if one.is_pinned else one.reason


def _outdated(cell: CellState | None, now: RunCell) -> str | None:
    if cell is None:
        return FAILED if now.failure else "missing"
    if cell.results_hash != now.results_hash:
        return "results"
    return "labels" if cell.labels_hash != now.labels_hash else None


def _unusable(run: ComparedRun, states: RunStates) -> str | None:
    """Why nothing can be said about this run yet, and what to do; None when there is nothing in the way."""
    if run.is_without_results and states.outdated_facts == "labels":
        return None
    failed = next((states.failed[name] for name in PAIR_FACTS if name in states.failed), None)
    return {
        None: None,
        FAILED: f"run {run.run_id!r} cannot be compared, because what verdicts are read from failed: {failed}",
        "missing": f"run {run.run_id!r} has not been computed yet: `eval-pipeline run {run.run_id}` computes it",
        "results": f"run {run.run_id!r} was delivered anew since it was computed: `eval-pipeline run {run.run_id}` "
        "computes it",
        "labels": f"the labels of {run.dataset!r} have changed since run {run.run_id!r} was computed: "
        "`eval-pipeline run --all` computes it anew",
    }[states.outdated_facts]


def _require_usable(run: ComparedRun, states: RunStates) -> None:
    """Refuse a run about which nothing can be said yet."""
    problem = _unusable(run, states)
    if problem:
        raise UsageError(problem)


def _computed_alike(names: Iterable[str], states_a: RunStates, states_b: RunStates) -> str:
    """The command that computes these formulas alike for both runs: what is pinned is left alone by `run --all`."""
    is_pinned = any(name in states.pinned for name in names for states in (states_a, states_b))
    return "`eval-pipeline apply --pinned`" if is_pinned else "`eval-pipeline run --all`"


def _computed_from_the_same(name: str, a: RunStates, b: RunStates) -> bool:
    """Whether one definition read the same bytes of results and labels for both runs."""
    cells = a.cells.get((name, "")), b.cells.get((name, ""))
    made_of = {(one.fingerprint, one.results_hash, one.labels_hash) for one in cells if one is not None}
    return None not in cells and len(made_of) == 1


def _formula_differences(
    formulas: Sequence[Definition],
    states_a: RunStates,
    states_b: RunStates,
    *,
    names: tuple[str, str],
    with_labels: bool,
) -> list[FormulaDifference]:
    """Those of these definitions whose values for the two runs have different meanings, or labels, behind them."""
    found = []
    for one in formulas:
        a, b = states_a.cells.get((one.name, "")), states_b.cells.get((one.name, ""))
        if a is None or b is None:
            continue
        if a.fingerprint != b.fingerprint and a.has_rows and b.has_rows:
            versions = f"version {a.version} in {names[0]}, version {b.version} in {names[1]}"
            what = "definition" if a.version == b.version else versions
            if one.name in states_a.current & states_b.current:
                what = DELIVERED
            found.append(FormulaDifference(one.short_name, what))
        elif with_labels and a.labels_hash != b.labels_hash:
            found.append(FormulaDifference(one.short_name, "labels"))
    return found
