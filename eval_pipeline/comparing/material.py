"""Everything that a comparison needs to know about two runs, read in one go."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from eval_pipeline.comparing._spans import (
    SharedIds,
    SpanMatch,
    can_match_spans,
    count_hits_without_spans,
    match_spans,
    places_with_spans,
    shared_ids,
    span_matches,
    unplaced_queries,
)
from eval_pipeline.comparing._whole_runs import Counts, RunParts, read_cases, read_parts, whole_run_results
from eval_pipeline.comparing.noise import Noise, find_noise
from eval_pipeline.comparing.pair_rows import (
    BothRuns,
    ComparedRun,
    IntArray,
    MetricPairs,
    PairedQuery,
    _aggregates_of,
    _count_stale_labels,
    _formulas_in_store,
    _hidden_pairs,
    _metric_pairs,
    _named_pairs,
    _pair_queries,
    _paired_queries,
    _regressed_chunks,
    _slice_places,
    _undefined_pairs,
    _unpaired_queries,
    _unscored_answers,
    find_compared_run,
)
from eval_pipeline.comparing.significance import Compared, between_runs, compare_metric
from eval_pipeline.comparing.states import RunStates, _computed_from_the_same, _read_states, _require_usable
from eval_pipeline.comparing.verdicts import ComparisonOptions
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.showing.plausibility import hidden_metrics, label_metrics, why_undefined
from eval_pipeline.showing.scores import metrics_of
from eval_pipeline.stats import PairedResult, RunSpread
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Store
from eval_pipeline.store.runs import NightRun, RunRow, attempts, find_run

LATENCY = "metrics.latency"
SENSITIVITY = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class SpanFacts:
    """What the fallback matching found, at several thresholds in ascending order.

    `unplaced` are the queries of each run with a hit whose characters are needed and unknown.
    """

    places: frozenset[int]
    matches: Sequence[SpanMatch]
    thresholds: Sequence[float]
    unplaced: tuple[frozenset[int], frozenset[int]]


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
    shared: SharedIds | None
    hits_without_spans: tuple[int, int]
    # With the scores of others that either run has.
    registry: Registry

    @property
    def is_exact(self) -> bool:
        """Whether chunk ids of the two runs mean the same: by their chunker, or as far as ids tell (A3.21)."""
        return _versions_match(self.a, self.b) or (self.shared is not None and self.shared.are_alike)

    @property
    def is_comparable(self) -> bool:
        """Whether anything can be said about single queries: not where ids say nothing, of one run or of both."""
        is_known = self.shared is None or self.shared.are_alike
        return is_known and self.a.implausible is None and self.b.implausible is None

    @property
    def is_without_results(self) -> bool:
        """Whether neither run was meant to answer queries."""
        return self.a.is_without_results and self.b.is_without_results

    @property
    def is_unlabelled(self) -> bool:
        """Whether neither dataset has a golden set: what each run answered is all that it was asked."""
        return self.a.golden_key < 0 and self.b.golden_key < 0

    @property
    def has_other_chunker(self) -> bool:
        """Whether the labels name chunks of another chunker than one of the runs recorded."""
        return self.a.labels_of is not None or self.b.labels_of is not None

    @property
    def reads_same_labels(self) -> bool:
        """Whether both runs should have the same labels, so that a difference is reported."""
        is_variant = self.a.golden_key != self.b.golden_key and self.a.delivered_key == self.b.delivered_key
        return not (self.is_unlabelled or is_variant)

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
    registry = metrics_of(store, [a.run_key, b.run_key])
    states_a, states_b = _read_states(store, [a, b])
    _require_usable(a, states_a)
    _require_usable(b, states_b)
    both = _pair_queries(store.con, a, b)
    is_unrecorded = {one.config["chunker_version"] for one in (a, b)} == {None} and not a.is_without_results
    only_in_a, only_in_b = _unpaired_queries(both)
    formulas = [
        one
        for one in registry.formulas
        if registry.applies_to(one, a.dataset) or registry.applies_to(one, b.dataset)
    ]
    named = [one for one in registry if one.is_scored_by_name and registry.scores]
    wanted = {one.name for one in (*formulas, *named)}
    queries = _paired_queries(both)
    unscored = _unscored_answers(both, registry.keys(), n=len(queries))
    compared = [
        *_compared(both, formulas, (states_a, states_b), n=len(queries), labelled=_labelled(registry, a, b)),
        *_compared_by_name(both, registry, (states_a, states_b), n=len(queries)),
    ]
    return Paired(
        a=a,
        b=b,
        both=both,
        states_a=states_a,
        states_b=states_b,
        keys=[key for key, one in registry.keys().items() if one.name in wanted],
        formulas=[*formulas, *named],
        queries=queries,
        compared=[replace(one, unscored=unscored.get(one.metric)) for one in compared],
        slices=_slice_places(both),
        only_in_a=only_in_a,
        only_in_b=only_in_b,
        attempts=attempts(store.con, [a.run_id, b.run_id]),
        times=_times(both, registry, (states_a, states_b)),
        shared=shared_ids(both) if is_unrecorded and not can_match_spans(both) else None,
        hits_without_spans=(
            (count_hits_without_spans(store.con, a), count_hits_without_spans(store.con, b))
            if both.is_by_span
            else (0, 0)
        ),
        registry=registry,
    )


def _labelled(registry: Registry, a: ComparedRun, b: ComparedRun) -> list[str]:
    """The metrics that are not shown of an implausible run; none where both are plausible."""
    return label_metrics(registry) if a.implausible or b.implausible else []


def _times(both: BothRuns, registry: Registry, states: tuple[RunStates, RunStates]) -> Compared | None:
    """How long every query took; no formula that is averaged, and yet a question about the pair."""
    latency = registry.definitions.get(LATENCY)
    if latency is None or not latency.headline or not _formulas_in_store(both.con, [latency]):
        return None
    key = latency.headline[0]
    is_identical = _computed_from_the_same(latency.name, *states)
    return Compared(key, latency, _metric_pairs(both, latency)[key], is_identical)


def _compared(
    both: BothRuns,
    formulas: Sequence[Definition],
    states: tuple[RunStates, RunStates],
    *,
    n: int,
    labelled: Collection[str],
) -> list[Compared]:
    """Formulas without an aggregate in either run define nothing there, and their rows are not read."""
    con = both.con
    defined = set(_aggregates_of(con, both.a)) | set(_aggregates_of(con, both.b))
    found: list[Compared] = []
    for one in _formulas_in_store(con, formulas):
        if defined.isdisjoint(one.keys):
            found += [Compared(key, one, _undefined_pairs(n)) for key in one.keys]
        else:
            is_identical = _computed_from_the_same(one.name, *states)
            found += [
                Compared(key, one, _shown(both, pairs) if key in labelled else pairs, is_identical)
                for key, pairs in _metric_pairs(both, one).items()
            ]
    return found


def _shown(both: BothRuns, pairs: MetricPairs) -> MetricPairs:
    return _hidden_pairs(pairs, in_a=both.a.implausible is not None, in_b=both.b.implausible is not None)


def _compared_by_name(
    both: BothRuns, registry: Registry, states: tuple[RunStates, RunStates], *, n: int
) -> list[Compared]:
    if not registry.scores:
        return []
    pairs = _named_pairs(both, registry.scores, n=n)
    return [
        Compared(key, one, pairs[key], _computed_from_the_same(one.name, *states))
        for key, one in registry.scores.items()
    ]


def whole_run_tests(con: Connection, paired: Paired) -> dict[str, PairedResult]:
    """What is asked of the runs as a whole."""
    a, b = (read_cases(con, find_run(con, run.run_id)) for run in (paired.a, paired.b))
    return _whole_run_tests(paired, a, b)


def _whole_run_tests(
    paired: Paired,
    cases_a: Mapping[str, Counts],
    cases_b: Mapping[str, Counts],
    spread: RunSpread | None = None,
) -> dict[str, PairedResult]:
    times = between_runs(compare_metric(paired.times, groups=paired.groups), spread) if paired.times else None
    is_same = _computed_from_the_same("metrics.extraction", paired.states_a, paired.states_b)
    return whole_run_results(cases_a, cases_b, times, has_same_cases=is_same)


def _read_material(
    store: Store, runs: tuple[ComparedRun, ComparedRun], options: ComparisonOptions
) -> Material:
    """Everything the comparison's document is made of."""
    con = store.con
    a, b = runs
    paired = read_pair(store, a, b)
    formulas = paired.registry.keys()
    sources = {key: formulas[key].name for key in paired.keys}
    latency = paired.times.formula if paired.times else None
    labelled = _labelled(store.definitions(), a, b)
    aggregate_a, aggregate_b = (
        {
            key: value
            for key, value in _aggregates_of(con, run).items()
            if run.implausible is None or key not in labelled
        }
        for run in (a, b)
    )
    return Material(
        paired=paired,
        aggregate_a=aggregate_a,
        aggregate_b=aggregate_b,
        regressed=_regressed_chunks(paired.both, k=options.compare_k)
        if paired.is_exact and not paired.is_unlabelled
        else {},
        spans=None if paired.is_exact or paired.is_without_results else _span_facts(paired, options),
        noise=find_noise(con, a, b, sources=sources, k=options.compare_k, latency=latency),
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
    row = RunRow(run.run_key, run.run_id, run.dataset, run.golden_key, run.delivered_key, run.labels_of)
    hidden = hidden_metrics(store, [run.run_key]).get(run.run_key, {})
    return why_undefined(store, row, [key for key in keys if aggregate.get(key) is None], hidden)


def _span_facts(paired: Paired, options: ComparisonOptions) -> SpanFacts:
    both = paired.both
    thresholds = sorted({*SENSITIVITY, options.overlap_threshold})
    if not paired.is_comparable:
        return SpanFacts(frozenset(), [], thresholds, (frozenset(), frozenset()))
    match_spans(both, basis=options.overlap_basis)
    return SpanFacts(
        places=frozenset(places_with_spans(both.con)),
        matches=span_matches(both.con, both.a, both.b, thresholds=thresholds),
        thresholds=thresholds,
        unplaced=(unplaced_queries(both.con, both.a), unplaced_queries(both.con, both.b)),
    )


def find_pair(con: Connection, run_a: str, run_b: str) -> tuple[ComparedRun, ComparedRun]:
    """The two runs, or an error with the closest names."""
    return find_compared_run(con, run_a), find_compared_run(con, run_b)
