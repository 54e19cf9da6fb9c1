"""Which comparisons and gates would be decided otherwise, among the newest pairs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from eval_pipeline.comparing.documents import UNCLEAR, GateReport
from eval_pipeline.comparing.gate import judge_pair
from eval_pipeline.comparing.material import Paired, find_pair, read_pair, whole_run_tests
from eval_pipeline.comparing.noise import find_noise
from eval_pipeline.comparing.options import comparison_options
from eval_pipeline.comparing.pair_states import PairState
from eval_pipeline.comparing.pairs import find_pairs, is_gated
from eval_pipeline.comparing.significance import (
    WHOLE_RUN_QUESTIONS,
    compare_metric,
    entries_of,
    questions_of,
)
from eval_pipeline.comparing.warnings import chunk_level_metrics
from eval_pipeline.computing.scope import Scope, visible_catalogue
from eval_pipeline.computing.scratch import (
    drop,
    evaluate,
    keep_computed,
    lay_over,
    runs_behind,
    scratch_catalogue,
)
from eval_pipeline.errors import UsageError
from eval_pipeline.planning.plan import StaleCells
from eval_pipeline.planning.reports import Flip, Verdicts
from eval_pipeline.stats import PairedResult
from eval_pipeline.store.project import Store

MOST_PAIRS: Final = 6
# How many nights a gate's trend may look back over.
NIGHTS: Final = 120
RUN_METRICS: Final = "aggregates.run_metrics"


@dataclass(frozen=True)
class Judged:
    """What is said of a pair: better, worse or neither by each metric, and the gate's verdict with its reasons."""

    tests: Mapping[str, PairedResult]
    metrics: Mapping[str, str]
    gate: str | None
    reasons: Sequence[str]


def _preview_verdicts(
    store: Store,
    cells: StaleCells,
    scopes: Sequence[tuple[Scope, set[str]]],
    keys: Collection[str],
) -> Verdicts:
    """What the plan would turn round among the newest pairs, in the metric keys that it changes.

    `cells` are the plan's; `scopes` are what of them was previewed.
    """
    expected = cells.expected()
    stale = {key for (key,) in store.con.execute(f"select distinct run_key from {expected}").fetchall()}
    previewed = {run_key for scope, _ in scopes for run_key in scope.run_keys}
    touched = _pairs(store, previewed, left_out=stale - previewed)
    pairs, n_pairs = touched[:MOST_PAIRS], len(touched)
    if not pairs:
        return Verdicts(pairs=0, of=n_pairs, flips=[])
    run_keys = [key for one in pairs for key in (one.run_a_key, one.run_b_key)]
    behind = runs_behind(store.con, run_keys, most=NIGHTS)
    before = {one: _judge(store, one, keys) for one in pairs}
    with scratch_catalogue(store, behind, expected=expected) as catalogue:
        _compute(store, _within(scopes, set(behind)))
        lay_over(store, catalogue)
        after = {one: _judge(store, one, keys, before[one]) for one in pairs}
    flips = [flip for one in pairs for flip in _flips(one, before[one], after[one])]
    return Verdicts(pairs=len(pairs), of=n_pairs, flips=flips)


def _pairs(store: Store, previewed: set[int], *, left_out: set[int]) -> list[PairState]:
    """The pairs with a run that was previewed and none that should have been; the newest first, then gated ones."""
    touched = [
        one
        for one in find_pairs(store)
        if not one.is_left
        and not previewed.isdisjoint((one.run_a_key, one.run_b_key))
        and left_out.isdisjoint((one.run_a_key, one.run_b_key))
    ]
    return sorted(touched, key=lambda one: (one.b_at, one.run_b, one.is_baseline), reverse=True)


def _within(scopes: Sequence[tuple[Scope, set[str]]], run_keys: set[int]) -> list[tuple[Scope, set[str]]]:
    return [
        (replace(scope, run_keys=kept), stale)
        for scope, stale in scopes
        if (kept := [key for key in scope.run_keys if key in run_keys])
    ]


def _compute(store: Store, scopes: Sequence[tuple[Scope, set[str]]]) -> None:
    registry = store.definitions()
    con = store.con
    with visible_catalogue(con, registry.helpers.values(), registry.config) as catalogue:
        for scope, stale in scopes:
            chain = [one for one in registry if one.name in stale and one.schema in ("facts", "metrics")]
            evaluate(con, catalogue, chain, scope)
            keep_computed(con, catalogue, chain, registry.definitions[RUN_METRICS], scope)
            drop(con, [one.name for one in chain])


def _judge(
    store: Store, one: PairState, keys: Collection[str], before: Judged | None = None
) -> Judged | None:
    """What is said of the pair by the catalogue that is read; None where nothing can be said.

    Of the metrics that are not among `keys` what was found `before` holds.
    """
    registry = store.definitions()
    try:
        a, b = find_pair(store.con, one.run_a, one.run_b)
        paired = read_pair(store, a, b)
    except UsageError:
        return None
    held = is_gated(registry, (one.run_a, one.run_b), suite=b.suite, dataset=b.dataset)
    gate = judge_pair(store, paired) if held else None
    tests = _tests(store, paired, {} if before is None else before.tests, keys)
    return Judged(
        tests=tests,
        metrics=_metric_verdicts(store, paired, tests, keys),
        gate=gate.verdict if gate else None,
        reasons=[*gate.preconditions, *_failing(gate)] if gate else [],
    )


def _tests(
    store: Store,
    paired: Paired,
    known: Mapping[str, PairedResult],
    keys: Collection[str],
) -> dict[str, PairedResult]:
    """As the comparison of the two runs tests their metrics."""
    untestable = {} if paired.is_exact else dict.fromkeys(chunk_level_metrics(store.definitions(), paired))
    tested = {
        one.metric: known[one.metric]
        if one.metric in known and one.metric not in keys
        else compare_metric(one, groups=paired.groups)
        for one in paired.compared
        if one.metric not in untestable
    }
    return tested | whole_run_tests(store.con, paired)


def _metric_verdicts(
    store: Store, paired: Paired, tests: Mapping[str, PairedResult], keys: Collection[str]
) -> dict[str, str]:
    registry = paired.registry
    con = store.con
    formulas = registry.keys()
    shown = [key for key in keys if key in tests]
    options = comparison_options(registry.config)
    sources = {key: formulas[key].name for key in shown}
    bands = find_noise(con, paired.a, paired.b, sources=sources, k=options.compare_k).bands
    entries = entries_of(tests, {**questions_of(registry), **WHOLE_RUN_QUESTIONS}, bands=bands)
    return {key: entries[key].verdict or UNCLEAR for key in shown}


def _failing(gate: GateReport) -> list[str]:
    return [f"{rule.metric}: {rule.reason}" for rule in gate.not_passed]


def _flips(one: PairState, before: Judged | None, after: Judged | None) -> list[Flip]:
    if before is None or after is None:
        return []
    flip = partial(Flip, run_a=one.run_a, run_b=one.run_b)
    found: list[Flip] = []
    if before.gate != after.gate:
        found.append(flip(kind="gate", old=before.gate, new=after.gate, reasons=list(after.reasons)))
    for key, old in before.metrics.items():
        new = after.metrics.get(key)
        if new is not None and new != old:
            found.append(flip(kind="comparison", metric=key, old=old, new=new))
    return found
