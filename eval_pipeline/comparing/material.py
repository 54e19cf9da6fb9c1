"""Everything that a comparison needs to know about two runs, read in one go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eval_pipeline.comparing._spans import (
    SpanMatch,
    count_without_spans,
    match_spans,
    places_with_spans,
    span_matches,
)
from eval_pipeline.comparing._whole_runs import Counts, RunParts, read_cases, read_parts, whole_run_results
from eval_pipeline.comparing.noise import Noise, find_noise
from eval_pipeline.comparing.pair_rows import (
    BothRuns,
    ComparedRun,
    IntArray,
    PairedQuery,
    _count_stale_labels,
    _formulas_in_store,
    _metric_pairs,
    _pair_queries,
    _paired_queries,
    _regressed_chunks,
    _slice_places,
    _undefined_pairs,
    _unpaired_queries,
    aggregates_of,
    find_compared_run,
)
from eval_pipeline.comparing.significance import Compared, compare_metric
from eval_pipeline.comparing.states import RunStates, _computed_from_the_same, _read_states, _require_usable
from eval_pipeline.comparing.verdicts import ComparisonOptions
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.showing.undefined import undefined_of
from eval_pipeline.stats import PairedResult
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Store
from eval_pipeline.store.runs import NightRun, RunRow, attempts, find_run

LATENCY = "metrics.latency"
SENSITIVITY = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class SpanFacts:
    """What the fallback matching found, at several thresholds in ascending order.

    `without_spans` are the queries of each run whose hits do not say where their text lies.
    """

    places: frozenset[int]
    matches: Sequence[SpanMatch]
    thresholds: Sequence[float]
    without_spans: tuple[int, int]


@dataclass(frozen=True)
class Paired:
    """Two runs over the queries that both answered."""

    a: ComparedRun
    b: ComparedRun
    both: BothRuns
    states_a: RunStates
    states_b: RunStates
    keys: Sequence[str]
    formulas: Sequence[Definition]
    queries: Sequence[PairedQuery]
    compared: Sequence[Compared]
    slices: Mapping[tuple[str, str], IntArray]
    only_in_a: Sequence[str]
    only_in_b: Sequence[str]
    attempts: Mapping[str, NightRun]
    times: Compared | None

    @property
    def is_exact(self) -> bool:
        """Whether chunk ids of the two runs are known to mean the same (A3.21)."""
        return _versions_match(self.a, self.b)

    @property
    def is_without_results(self) -> bool:
        """Whether neither run was meant to answer queries."""
        return self.a.is_without_results and self.b.is_without_results

    @property
    def groups(self) -> list[str | None] | None:
        """The cluster of each paired query; None when every query stands alone."""
        groups = [query.group for query in self.queries]
        return None if all(group is None for group in groups) else groups


@dataclass(frozen=True)
class Material:
    """The pairs with what verdicts and warnings need beside them, and why metrics are undefined in a, and in b."""

    paired: Paired
    aggregate_a: Mapping[str, float | None]
    aggregate_b: Mapping[str, float | None]
    regressed: Mapping[int, list[str]]
    spans: SpanFacts | None
    noise: Noise
    stale_labels: int
    parts: tuple[RunParts, RunParts]
    undefined: tuple[Mapping[str, str], Mapping[str, str]]


def _versions_match(a: ComparedRun, b: ComparedRun) -> bool:
    """A chunker version missing on either side is no match."""
    version = a.config["chunker_version"]
    return version is not None and version == b.config["chunker_version"]


def read_pair(store: Store, a: ComparedRun, b: ComparedRun) -> Paired:
    """The values of every metric over the queries of both runs; an error where a run is not computed."""
    registry = store.definitions()
    states_a, states_b = _read_states(store, [a, b])
    _require_usable(a, states_a)
    _require_usable(b, states_b)
    both = _pair_queries(store.con, a, b)
    only_in_a, only_in_b = _unpaired_queries(both)
    formulas = [
        one
        for one in registry.formulas
        if registry.applies_to(one, a.dataset) or registry.applies_to(one, b.dataset)
    ]
    wanted = {one.name for one in formulas}
    queries = _paired_queries(both)
    return Paired(
        a=a,
        b=b,
        both=both,
        states_a=states_a,
        states_b=states_b,
        keys=[key for key, one in registry.keys().items() if one.name in wanted],
        formulas=formulas,
        queries=queries,
        compared=_compared(both, formulas, (states_a, states_b), n=len(queries)),
        slices=_slice_places(both),
        only_in_a=only_in_a,
        only_in_b=only_in_b,
        attempts=attempts(store.con, [a.run_id, b.run_id]),
        times=_times(both, registry, (states_a, states_b)),
    )


def _times(both: BothRuns, registry: Registry, states: tuple[RunStates, RunStates]) -> Compared | None:
    """How long every query took; no formula that is averaged, and yet a question about the pair."""
    latency = registry.definitions.get(LATENCY)
    if latency is None or not latency.headline or not _formulas_in_store(both.con, [latency]):
        return None
    key = latency.headline[0]
    is_identical = _computed_from_the_same(latency.name, *states)
    return Compared(key, latency, _metric_pairs(both, latency)[key], is_identical)


def _compared(
    both: BothRuns, formulas: Sequence[Definition], states: tuple[RunStates, RunStates], *, n: int
) -> list[Compared]:
    """Formulas without an aggregate in either run define nothing there, and their rows are not read."""
    con = both.con
    defined = set(aggregates_of(con, both.a)) | set(aggregates_of(con, both.b))
    found: list[Compared] = []
    for one in _formulas_in_store(con, formulas):
        if defined.isdisjoint(one.keys):
            found += [Compared(key, one, _undefined_pairs(n)) for key in one.keys]
        else:
            is_identical = _computed_from_the_same(one.name, *states)
            found += [
                Compared(key, one, pairs, is_identical) for key, pairs in _metric_pairs(both, one).items()
            ]
    return found


def whole_run_tests(con: Connection, paired: Paired) -> dict[str, PairedResult]:
    """What is asked of the runs as a whole."""
    a, b = (read_cases(con, find_run(con, run.run_id)) for run in (paired.a, paired.b))
    return _whole_run_tests(paired, a, b)


def _whole_run_tests(
    paired: Paired, cases_a: Mapping[str, Counts], cases_b: Mapping[str, Counts]
) -> dict[str, PairedResult]:
    times = compare_metric(paired.times, groups=paired.groups) if paired.times else None
    is_same = _computed_from_the_same("metrics.extraction", paired.states_a, paired.states_b)
    return whole_run_results(cases_a, cases_b, times, has_same_cases=is_same)


def _read_material(
    store: Store, runs: tuple[ComparedRun, ComparedRun], options: ComparisonOptions
) -> Material:
    """Everything the comparison's document is made of."""
    con = store.con
    a, b = runs
    paired = read_pair(store, a, b)
    formulas = store.definitions().keys()
    sources = {key: formulas[key].name for key in paired.keys}
    aggregate_a, aggregate_b = aggregates_of(con, a), aggregates_of(con, b)
    return Material(
        paired=paired,
        aggregate_a=aggregate_a,
        aggregate_b=aggregate_b,
        regressed=_regressed_chunks(paired.both, k=options.compare_k) if paired.is_exact else {},
        spans=None if paired.is_exact or paired.is_without_results else _span_facts(paired.both, options),
        noise=find_noise(con, a, b, sources=sources, k=options.compare_k),
        stale_labels=_count_stale_labels(con, b) if paired.is_exact else 0,
        parts=(read_parts(con, a.run_id), read_parts(con, b.run_id)),
        undefined=(
            _undefined_in(store, a, paired.keys, aggregate_a),
            _undefined_in(store, b, paired.keys, aggregate_b),
        ),
    )


def _undefined_in(
    store: Store, run: ComparedRun, keys: Sequence[str], aggregate: Mapping[str, float | None]
) -> dict[str, str]:
    row = RunRow(run.run_key, run.run_id, run.dataset, run.golden_key)
    return undefined_of(store, row, [key for key in keys if aggregate.get(key) is None])


def _span_facts(both: BothRuns, options: ComparisonOptions) -> SpanFacts:
    thresholds = sorted({*SENSITIVITY, options.overlap_threshold})
    match_spans(both, basis=options.overlap_basis)
    return SpanFacts(
        places=frozenset(places_with_spans(both.con)),
        matches=span_matches(both.con, both.a, both.b, thresholds=thresholds),
        thresholds=thresholds,
        without_spans=(count_without_spans(both, both.a), count_without_spans(both, both.b)),
    )


def find_pair(con: Connection, run_a: str, run_b: str) -> tuple[ComparedRun, ComparedRun]:
    """The two runs, or an error with the closest names."""
    return find_compared_run(con, run_a), find_compared_run(con, run_b)
