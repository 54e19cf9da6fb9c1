"""Stored comparisons: which there should be, which of them are due, and making them."""

# Every one of the newest runs of a suite is compared with the answer of the night before and with the pinned
# baseline. A kept comparison remembers what it was made of, and is due when that has moved.

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from eval_pipeline.comparing.documents import SAYS_IMPLAUSIBLE
from eval_pipeline.comparing.options import comparison_options
from eval_pipeline.comparing.pair_states import (
    PAIR_FACTS,
    PairState,
    WantedPairs,
    _average_seconds,
    _computed_inputs,
    _recent_runs,
    _wanted_pairs,
)
from eval_pipeline.comparing.stored import Made, _are_there, _find_keys, _write_comparison
from eval_pipeline.computing.measure import Progress
from eval_pipeline.computing.states import States, states_of_cells
from eval_pipeline.errors import EvalPipelineError, UnknownName, UsageError
from eval_pipeline.formulas.fingerprint import combined
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.settings import product_version
from eval_pipeline.showing.plausibility import implausible_runs
from eval_pipeline.store.lock import yield_lock
from eval_pipeline.store.open import Connection, transaction
from eval_pipeline.store.project import Project, Store, at_one_time

PAIRS: Final = "comparisons.pairs"
PARENT: Final = "parent"
BETWEEN: Final = ".."
# Raise it when the same material gives another comparison: what is stored is then stale.
VERSION: Final = 3
# Of every suite and dataset so many runs have their comparisons made and kept current; older ones stay as they are.
NEWEST_RUNS: Final = 30
TURN_SECONDS: Final = 1.0
# What the first comparison of a store is taken to cost.
FIRST_GUESS: Final = 0.3

Pair = tuple[str, str]


@dataclass
class Compared:
    """What one call stored: pairs with the reason, which a gate judged, and those that could not be compared."""

    reasons: dict[Pair, str] = field(default_factory=dict)
    judged: set[Pair] = field(default_factory=set)
    errors: dict[Pair, EvalPipelineError] = field(default_factory=dict)


def own_fingerprint(registry: Registry) -> str:
    """Changes exactly when the same two runs would be compared otherwise."""
    options = asdict(comparison_options(registry.config))
    return combined(PAIRS, str(VERSION), *(f"{name}={value}" for name, value in options.items()))


def partition_of(run_a: str, run_b: str) -> str:
    """The pair's name; run ids have no two dots in a row."""
    return f"{run_a}{BETWEEN}{run_b}"


def pair_of(partition: str) -> Pair:
    """The runs of a pair's name."""
    run_a, between, run_b = partition.partition(BETWEEN)
    if not (run_a and between and run_b):
        raise UsageError(f"{partition!r} names no pair of runs; a pair is written A..B")
    return run_a, run_b


def wanted_pairs(store: Store) -> WantedPairs:
    """Which pairs there are and should be."""
    recent = _recent_runs(store.con, most=NEWEST_RUNS)
    baselines = {
        (suite, dataset): run_id
        for suite, dataset in recent.suites()
        if (run_id := store.definitions().config.baseline_of(suite, dataset)) is not None
    }
    return _wanted_pairs(recent, baselines)


def find_pairs(store: Store, states: States | None = None) -> list[PairState]:
    """The state of every pair that is stored or should be, in run order; `states` are those of all cells, if known."""
    registry = store.definitions()
    # Without the facts that verdicts are read from there is nothing to compare.
    if not set(PAIR_FACTS) <= set(registry.definitions):
        return []
    pairs = wanted_pairs(store)
    run_keys = pairs.runs()
    if not run_keys:
        return []
    known = states or states_of_cells(store, runs=run_keys)
    found = pairs.states(known, own_fingerprint=own_fingerprint(registry), facts=PAIR_FACTS)
    return _with_moved_plausibility(store.con, found)


def _with_moved_plausibility(con: Connection, found: Sequence[PairState]) -> list[PairState]:
    """A run may become plausible, or implausible, by what happens to others of its dataset."""
    stored = con.execute(
        "select run_a_key, run_b_key, list_bool_or(list_transform(warnings, lambda one: contains(one, ?))) "
        "from comparisons.pairs",
        [SAYS_IMPLAUSIBLE],
    ).fetchall()
    was = {(a, b): bool(said) for a, b, said in stored}
    keys = {key for one in found for key in (one.run_a_key, one.run_b_key)}
    unknown = implausible_runs(con, keys) if keys else {}
    return [
        one._replace(reason=PARENT)
        if one.reason is None
        and was.get((one.run_a_key, one.run_b_key)) != (one.run_a_key in unknown or one.run_b_key in unknown)
        else one
        for one in found
    ]


def due_pairs(
    store: Store, *, reasons: Collection[str] | None, run_ids: Collection[str] | None = None
) -> list[PairState]:
    """The pairs to compare for one of the reasons (None: any), in run order; `run_ids` are of either side."""
    return [one for one in find_pairs(store) if is_due(one, reasons=reasons, run_ids=run_ids)]


def is_due(
    one: PairState, *, reasons: Collection[str] | None, run_ids: Collection[str] | None = None
) -> bool:
    """Whether the pair is to be compared for one of the reasons, or because both of its runs were computed anew."""
    return (
        one.reason is not None
        and not one.is_left
        and (reasons is None or one.reason in reasons or (one.reason == PARENT and one.is_settled))
        and (run_ids is None or one.run_a in run_ids or one.run_b in run_ids)
    )


def is_of_an_upgrade(one: PairState) -> bool:
    """Whether another version of the product made the comparison otherwise than this one would."""
    return one.reason == "formula" and one.made_by != product_version()


def unknown_baselines(store: Store) -> list[str]:
    """What is wrong with [baselines], in words: names of runs that are not there."""
    named = store.definitions().config.baselines
    known = {
        run_id
        for (run_id,) in store.con.execute(
            "select run_id from raw.runs where run_id in (select unnest(?))", [sorted(named.values())]
        ).fetchall()
    }
    return [
        f"[baselines] {name} names {run_id!r}, and there is no run of that name: nothing is held against it"
        for name, run_id in named.items()
        if run_id not in known
    ]


def store_comparisons(
    project: Project,
    pairs: Sequence[Pair],
    *,
    reasons: Collection[str] | None = None,
    force: bool = False,
    dagster_run_id: str | None = None,
    progress: Progress | None = None,
) -> Compared:
    """Compare those of the pairs that are due for one of the reasons and store them; `force` compares them all.

    A pair that cannot be compared keeps nobody: why is in the answer.
    """
    project = at_one_time(project)
    done = Compared()
    wanted = _asked(project, pairs, done, reasons=reasons, force=force)
    waiting: list[Made] = []
    started = time.monotonic()
    for position, (pair, reason) in enumerate(wanted, start=1):
        try:
            waiting.append(_make(project, pair, reason=reason))
            done.reasons[pair] = reason
            if waiting[-1].gate is not None:
                done.judged.add(pair)
        except UsageError as error:
            done.errors[pair] = error
        if time.monotonic() - started > TURN_SECONDS:
            _store(project, waiting, dagster_run_id=dagster_run_id)
            waiting, started = [], time.monotonic()
            yield_lock()
        if progress:
            progress(position, len(wanted))
    _store(project, waiting, dagster_run_id=dagster_run_id)
    return done


def _asked(
    project: Project, pairs: Sequence[Pair], done: Compared, *, reasons: Collection[str] | None, force: bool
) -> list[tuple[Pair, str]]:
    """The pairs to compare, each with its reason; unknown runs are noted as errors."""
    with project.read() as store:
        known = _find_keys(store.con, pairs)
        states = {(one.run_a, one.run_b): one for one in find_pairs(store)}
    found: list[tuple[Pair, str]] = []
    for pair in pairs:
        state = states.get(pair)
        if pair not in known:
            done.errors[pair] = UnknownName("pair of runs", partition_of(*pair), [])
        elif force:
            found.append((pair, (state.reason if state else "missing") or "asked"))
        elif state and state.is_ready and is_due(state, reasons=reasons):
            found.append((pair, str(state.reason)))
    return found


def _make(project: Project, pair: Pair, *, reason: str) -> Made:
    """Read as a comparison on the command line does, with what it is made of."""
    registry = project.definitions()
    # They compute with NumPy, for which those who only ask what is due need not wait.
    from eval_pipeline.comparing.compare import _comparison_document
    from eval_pipeline.comparing.gate import judge_pair
    from eval_pipeline.comparing.material import _read_material, find_pair

    started = time.perf_counter()
    options = comparison_options(registry.config)
    with project.read() as store:
        a, b = find_pair(store.con, *pair)
        material = _read_material(store, (a, b), options)
        is_held = is_gated(registry, pair, suite=b.suite, dataset=b.dataset)
        judged = judge_pair(store, material.paired) if is_held else None
        with states_of_cells(store, runs=[a.run_key, b.run_key]) as states:
            inputs = _computed_inputs(states, (a.run_key, b.run_key))
    document = _comparison_document(material, registry, options)
    return Made(
        keys=(a.run_key, b.run_key),
        document=document,
        inputs=inputs,
        own_fingerprint=own_fingerprint(registry),
        seconds=time.perf_counter() - started,
        reason=reason,
        gate=judged,
    )


def is_gated(registry: Registry, pair: Pair, *, suite: str | None, dataset: str) -> bool:
    """Whether b is judged against a every night: [gate] is there, and a is pinned for b."""
    return bool(registry.config.gate) and registry.config.baseline_of(suite, dataset) == pair[0]


def _store(project: Project, made: Sequence[Made], *, dagster_run_id: str | None) -> None:
    if not made:
        return
    with project.write() as store:
        for one in made:
            if not _are_there(store.con, one.keys):
                continue
            with transaction(store.con):
                _write_comparison(store, one, dagster_run_id=dagster_run_id)


def count_pairs(states: Sequence[PairState]) -> Iterator[tuple[str, str | None]]:
    """(state, reason) of every pair, in the words of `status`."""
    for one in states:
        if one.reason is None:
            yield "fresh", None
        elif one.reason == "missing":
            yield "missing", None
        else:
            yield ("pinned" if one.is_left else "stale"), one.reason


def estimated_seconds(con: Connection, pairs: Sequence[PairState]) -> float:
    """What comparing them will take."""
    return len(pairs) * (_average_seconds(con) or FIRST_GUESS) if pairs else 0.0
