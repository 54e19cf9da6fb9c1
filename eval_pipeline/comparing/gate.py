"""Whether a run is good enough: pass, fail or inconclusive, with the reason of every rule."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from eval_pipeline.comparing.compare import _fallback_compared
from eval_pipeline.comparing.documents import UNLABELLED, WORSE, GateReport
from eval_pipeline.comparing.gate_evidence import (
    SHARE_DEFINED,
    Change,
    Drift,
    Judged,
    _judge_target,
    _with_coverage,
    judge_all,
    measure_change,
    why_empty,
    why_foreign,
)
from eval_pipeline.comparing.gate_rules import EXTRACTION, GateConfig, Rule, read_gate, with_slices
from eval_pipeline.comparing.material import Paired, SpanFacts, find_pair, read_pair
from eval_pipeline.comparing.noise import RecentRun, StoredValue, _stored_values, recent_runs
from eval_pipeline.comparing.pair_rows import (
    ComparedRun,
    _aggregates_of,
    _count_stale_labels,
    find_compared_run,
)
from eval_pipeline.comparing.significance import (
    Compared,
    _mean_of_values,
    entries_of,
    questions_of,
    results_of,
)
from eval_pipeline.comparing.states import (
    DELIVERED,
    RunStates,
    _computed_alike,
    _formula_differences,
    _read_states,
    _unusable,
)
from eval_pipeline.comparing.warnings import (
    OF_ANOTHER_KIND,
    _about_missing_spans,
    _about_runs,
    _about_stale_labels,
    _is_judged,
    _matched_by_id,
    _scorers_differ,
    _why_unstable,
    chunk_level_metrics,
)
from eval_pipeline.computing.judges import asks_of, differing_asks
from eval_pipeline.computing.ledger import FAILED
from eval_pipeline.config import Config, load_config
from eval_pipeline.errors import InvalidConfig, RefusedError, UsageError
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.formulas.scores import PREFIX
from eval_pipeline.loading.cases import EARLIER, ExpectedCases, expected_cases, held_cases
from eval_pipeline.records import SCORED_ASKS
from eval_pipeline.showing.checks import ExtractionScores, extraction_scores
from eval_pipeline.showing.plausibility import words_about_ids
from eval_pipeline.showing.show import EXTRACTION as EXTRACTION_CASES
from eval_pipeline.showing.undefined import SPAN
from eval_pipeline.stats import drift_anchor
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Project, Store
from eval_pipeline.words import decimal

ERROR_RATE: Final = "error_rate"
TOO_FEW: Final = "applies to"
NO_QUERY: Final = "no query is in both runs"
OF_QUERIES: Final = "metrics of queries: neither run delivered results"
LOOKED_AT: Final = 120
FEWEST_NIGHTS: Final = 2
BY_SPAN: Final = "; matched by document and span"
NO_SCORE: Final = "neither run has a score of this name"
NO_DRIFT: Final = "drift: no comparable night before it but the baseline"


@dataclass(frozen=True)
class Evidence:
    """What was read for a gate: the pair, its metrics, drifts, and the extraction scores of both.

    Of two chunkers `by_span` are the metrics that are matched by document and span. `missing_cases` says which cases
    the candidate should hold and does not. `empty` is the reason why the candidate has nothing to judge.
    """

    paired: Paired
    by_span: Mapping[str, Compared]
    spans: SpanFacts | None
    drifts: Sequence[Drift]
    extraction: tuple[ExtractionScores | None, ExtractionScores | None]
    missing_cases: str | None = None
    empty: str | None = None
    foreign_ids: str | None = None
    notes: Sequence[str] = ()
    # What was said of either run as a whole, by metric.
    whole: tuple[Mapping[str, float | None], Mapping[str, float | None]] = ({}, {})


def gate(
    project: Project, candidate: str, baseline: str | None, *, config_file: Path | None = None
) -> GateReport:
    """The document of `gate CANDIDATE --baseline RUN_ID --json`."""
    registry = project.definitions()
    file = _config(config_file, registry)
    config = read_gate(file.gate, registry, path=file.path)
    with project.read() as store:
        chosen = baseline or _configured_baseline(store.con, file, candidate)
        a, b = find_pair(store.con, chosen, candidate)
        states = _read_states(store, [a, b])
        problems = [
            problem for run, one in zip((a, b), states, strict=True) if (problem := _unusable(run, one))
        ]
        if a.run_key == b.run_key:
            problems = [f"candidate and baseline are the same run, {a.run_id!r}"]
        if problems:
            return _document(a, b, config, preconditions=problems)
        _refuse_implausible(a, b)
        paired = read_pair(store, a, b)
        config = _rules_by_span(config, paired, registry)
        evidence = _read_evidence(store, paired, config)
    return _decide(evidence, evidence.paired.registry, config)


def _refuse_implausible(*runs: ComparedRun) -> None:
    """Neither a pass nor a fail of ids that nothing knows says anything."""
    for run in runs:
        if run.implausible:
            raise RefusedError(f"{run.run_id} is implausible: {run.implausible.sentence}")


def judge_pair(store: Store, paired: Paired) -> GateReport:
    """The same of runs that have been read already, b against a, by the [gate] table of eval-pipeline.toml."""
    registry = store.definitions()
    config = read_gate(registry.config.gate, registry, path=registry.config.path)
    config = _rules_by_span(config, paired, registry)
    return _decide(_read_evidence(store, paired, config), paired.registry, config)


def _span_variants(paired: Paired, registry: Registry) -> dict[str, Compared]:
    """Metric of chunk ids → its variant by characters, where both runs have values of it."""
    by_metric = {compared.metric: compared for compared in paired.compared if compared.pairs.on_both.any()}
    return {
        metric: by_metric[f"{metric}{SPAN}"]
        for metric in chunk_level_metrics(registry, paired)
        if f"{metric}{SPAN}" in by_metric
    }


def _rules_by_span(config: GateConfig, paired: Paired, registry: Registry) -> GateConfig:
    """The rules with metrics of chunk ids replaced by their variants by characters, where these have values."""
    if not paired.both.is_by_span:
        return config
    names = {metric: variant.metric for metric, variant in _span_variants(paired, registry).items()}
    return replace(
        config,
        rules=[replace(rule, metric=names.get(rule.metric, rule.metric)) for rule in config.rules],
        slices={names.get(metric, metric): slices for metric, slices in config.slices.items()},
    )


def _incomparable_metrics(paired: Paired, registry: Registry, by_span: Mapping[str, Compared]) -> set[str]:
    """Return the metrics of chunk ids that cannot be compared for this pair, neither by id nor by characters."""
    if paired.is_exact and not paired.both.is_by_span:
        return set()
    return set(chunk_level_metrics(registry, paired)) - by_span.keys()


def _config(config_file: Path | None, registry: Registry) -> Config:
    if config_file is None:
        return registry.config
    if not config_file.is_file():
        raise InvalidConfig(f"there is no file {config_file}")
    return load_config(config_file)


def _configured_baseline(con: Connection, file: Config, candidate: str) -> str:
    """The run that [baselines] names for the candidate's suite or dataset."""
    run = find_compared_run(con, candidate)
    pinned = file.baseline_of(run.suite, run.dataset)
    if pinned is not None:
        return pinned
    raise UsageError(
        f"say what {candidate} is held against: --baseline RUN_ID, or in eval-pipeline.toml a table [baselines] with "
        f'{run.suite or run.dataset} = "RUN_ID"'
    )


def _read_evidence(store: Store, paired: Paired, config: GateConfig) -> Evidence:
    registry = store.definitions()
    con = store.con
    a, b = paired.a, paired.b
    by_span, spans = _fallback_compared(paired, registry)
    return Evidence(
        paired=paired,
        by_span=by_span if by_span or paired.is_exact else _span_variants(paired, registry),
        spans=spans,
        drifts=_drifts(store, paired, config),
        extraction=(extraction_scores(con, a.run_key), extraction_scores(con, b.run_key)),
        missing_cases=_missing_cases(store, paired),
        empty=why_empty(con, paired),
        foreign_ids=why_foreign(con, paired),
        whole=(_said_of_run(con, paired, a), _said_of_run(con, paired, b)),
        notes=[*_notes(con, paired), *_about_missing_spans((a, b), spans)],
    )


def _notes(con: Connection, paired: Paired) -> list[str]:
    """The state of both runs, how many of their ids the labels name, and stale labels."""
    runs = {run.run_key: run.run_id for run in (paired.a, paired.b)}
    words = words_about_ids(con, list(runs))
    stale_labels = _count_stale_labels(con, paired.b) if paired.is_exact else 0
    return [
        *_about_runs(paired),
        *(f"{run_id}: {words[run_key]}" for run_key, run_id in runs.items() if run_key in words),
        *_about_stale_labels(paired, stale_labels),
    ]


def _missing_cases(store: Store, paired: Paired) -> str | None:
    """The expected cases that the candidate lacks: if no one declared them, those of earlier runs and the baseline."""
    con, b = store.con, paired.b
    expected = expected_cases(con, store.definitions().config, [b.run_id]).get(b.run_id, ExpectedCases())
    before, after = (held_cases(con, run.run_key) for run in (paired.a, b))
    if before and after and (expected.n is None or expected.said_by == EARLIER) and not expected.missing:
        expected = ExpectedCases(len(before), [case for case in before if case not in after], EARLIER)
    return expected.in_words


def _said_of_run(con: Connection, paired: Paired, run: ComparedRun) -> dict[str, float | None]:
    if not paired.registry.scores:
        return {}
    return {
        metric: value
        for metric, value in _aggregates_of(con, run).items()
        if metric in paired.registry.scores
    }


def _drifts(store: Store, paired: Paired, config: GateConfig) -> list[Drift]:
    """The candidate against the oldest night since the last step of every rule's metric, where that is another run."""
    if config.drift_nights < FEWEST_NIGHTS or paired.is_without_results:
        return []
    con, registry = store.con, paired.registry
    recent = recent_runs(con, paired.b, until=[paired.b], most=LOOKED_AT, only_answers=True)
    nights = trailing_nights(recent, paired.b, most=config.drift_nights)
    keys = paired.registry.keys()
    rules = [one for one in config.rules if one.target is None and one.metric in keys]
    values = _stored_values(
        con, sorted(run.run_key for run in nights), {rule.metric: keys[rule.metric].name for rule in rules}
    )
    chunk_level = chunk_level_metrics(registry, paired)
    anchors = {rule: _anchor(rule, nights, values, chunk_level) for rule in rules}
    pairs = {
        run.run_key: _read_anchor(store, run, paired)
        for run in dict.fromkeys(anchors.values())
        if run is not None and run.run_key not in (paired.a.run_key, paired.b.run_key)
    }
    return [
        drift
        for rule, run in anchors.items()
        if run and (drift := _drift(rule, run, nights[-1], pairs.get(run.run_key), chunk_level))
    ]


def _anchor(
    rule: Rule,
    nights: Sequence[RecentRun],
    values: Mapping[tuple[str, int], StoredValue],
    chunk_level: Collection[str],
) -> RecentRun | None:
    """Of the nights computed like the candidate, by the same judge and chunker where these matter."""
    candidate = nights[-1] if nights else None
    own = values.get((rule.metric, candidate.run_key)) if candidate else None
    if candidate is None or own is None:
        return None
    alike = [
        (run, stored.value)
        for run in nights
        if (stored := values.get((rule.metric, run.run_key))) is not None
        and stored.made_with == own.made_with
        and not asks_of(rule.metric, differing_asks(run.judges, candidate.judges))
        and (run.chunker_version == candidate.chunker_version or rule.metric not in chunk_level)
    ]
    return alike[drift_anchor([value for _, value in alike], limit=rule.margin)][0]


def _read_anchor(store: Store, run: RecentRun, paired: Paired) -> Paired | None:
    """The pair with the candidate; None where one of them cannot be compared."""
    try:
        return read_pair(store, find_compared_run(store.con, run.run_id), paired.b)
    except UsageError:
        return None


def _drift(
    rule: Rule, run: RecentRun, candidate: RecentRun, paired: Paired | None, chunk_level: Collection[str]
) -> Drift | None:
    compared = {one.metric: one for one in paired.compared} if paired else {}
    if paired is None or rule.metric not in compared or (not paired.is_exact and rule.metric in chunk_level):
        return None
    change = measure_change(rule, compared[rule.metric], places=None, groups=paired.groups)
    if change.is_identical:
        return None
    return Drift(change, run.run_id, (candidate.night - run.night).days)


def trailing_nights(runs: Sequence[RecentRun], candidate: ComparedRun, *, most: int) -> list[RecentRun]:
    """One run a night, its last complete attempt; the candidate stands for its own."""
    by_night = {run.night: run for run in runs if run.is_last_complete}
    by_night |= {run.night: run for run in runs if run.run_key == candidate.run_key}
    return [by_night[night] for night in sorted(by_night)][-most:]


def _decide(evidence: Evidence, registry: Registry, config: GateConfig) -> GateReport:
    paired = evidence.paired
    rules, skipped = _asked(evidence, config, registry)
    preconditions = list(_preconditions(paired, registry, config, rules, skipped=skipped))
    if preconditions:
        return _document(
            paired.a,
            paired.b,
            config,
            preconditions=preconditions,
            skipped=skipped,
            notes=evidence.notes,
        )
    incomparable = _incomparable_metrics(paired, registry, evidence.by_span)
    skipped = [*skipped, *_without_rule(evidence, registry, rules, incomparable)]
    failed = {rule.metric: why for rule in rules if (why := _why_failed(rule, paired, registry))}
    changes = [
        _change(rule, evidence, is_incomparable=rule.metric in incomparable, failed=failed.get(rule.metric))
        for rule in rules
        if rule.target is None
    ]
    families = {metric: one.family for metric, one in questions_of(registry).items()}
    judged = judge_all(
        changes,
        evidence.drifts,
        # A score that neither run has is a family of its own too.
        [families.get(change.rule.metric, change.rule.metric) for change in changes],
        config,
    )
    if paired.b.labels_of is not None:
        failed = dict.fromkeys(incomparable, _why_unstable(paired)) | failed
    judged += [
        _target(rule, evidence, failed=failed.get(rule.metric)) for rule in rules if rule.target is not None
    ]
    if not evidence.drifts and config.drift_nights and not paired.is_without_results:
        skipped = [*skipped, NO_DRIFT]
    notes = [*filter(None, [_matched_by_id(paired)]), *_stale_alike(paired, registry, rules), *evidence.notes]
    obstacles = [evidence.empty] if evidence.empty else []
    if not obstacles and all(_is_beside_quality(rule, paired) for rule in rules):
        why = f"nothing to judge retrieval by: {UNLABELLED}"
        obstacles = [why if paired.is_unlabelled else "no rule about the quality of results applies"]
    return _document(
        paired.a, paired.b, config, preconditions=obstacles, judged=judged, skipped=skipped, notes=notes
    )


def _without_rule(
    evidence: Evidence, registry: Registry, rules: Sequence[Rule], untold: Collection[str]
) -> Iterator[str]:
    """The metrics without a rule that a comparison calls worse, and those that the candidate no longer has."""
    paired = evidence.paired
    questions = questions_of(paired.registry, by_span=paired.both.is_by_span)
    differing = differing_asks(paired.a.judges, paired.b.judges)
    beside = {*untold, *evidence.by_span}
    beside |= set() if paired.is_exact else set(chunk_level_metrics(registry, paired))
    compared = [one for one in paired.compared if one.metric not in beside and questions[one.metric].is_asked]
    results = results_of(compared, [one.metric for one in compared], groups=paired.groups)
    tested = entries_of(results, questions)
    judged = {rule.metric for rule in rules}
    for one in compared:
        entry = tested[one.metric]
        if one.metric in judged:
            continue
        if one.pairs.defined_a.any() and not one.pairs.defined_b.any():
            yield f"{one.metric}: no longer measured, defined in the baseline only"
        elif entry.verdict == WORSE and not asks_of(one.metric, differing):
            yield f"{one.metric}: worse ({decimal(entry.a or 0.0)} → {decimal(entry.b or 0.0)}), and without a rule"


def _is_beside_quality(rule: Rule, paired: Paired) -> bool:
    """Whether passing this default rule is no evidence of quality: errors, or anything but scores without labels."""
    if not rule.is_default or rule.metric == EXTRACTION or _is_judged(rule.metric):
        return False
    return paired.is_unlabelled or rule.metric == ERROR_RATE


def _asked(evidence: Evidence, config: GateConfig, registry: Registry) -> tuple[list[Rule], list[str]]:
    """The rules with their slices; a rule that nobody wrote down is left out where it could never say anything."""
    kept: list[Rule] = []
    is_about_queries = not evidence.paired.is_without_results
    skipped = [] if is_about_queries else [OF_QUERIES]
    for rule in config.rules:
        reason = _beside_the_point(rule, evidence, registry) if rule.is_default else None
        if reason is None or _why_failed(rule, evidence.paired, registry):
            kept.append(rule)
        elif is_about_queries or rule.metric == EXTRACTION:
            skipped.append(f"{rule.metric}: {reason}")
    return with_slices(kept, config.slices, evidence.paired.slices), skipped


def _beside_the_point(rule: Rule, evidence: Evidence, registry: Registry) -> str | None:
    """Why these two runs do not raise the question; a metric that only one of them has does raise it."""
    if rule.metric == EXTRACTION:
        return None if any(evidence.extraction) else "neither run has extraction cases"
    if not evidence.paired.queries:
        return NO_QUERY
    if evidence.paired.has_other_chunker and rule.metric in chunk_level_metrics(registry, evidence.paired):
        return None
    sizes = [
        max(coverage.a.needed, coverage.b.needed)
        if (coverage := one.coverage())
        else max(np.count_nonzero(one.pairs.defined_a), np.count_nonzero(one.pairs.defined_b))
        for one in evidence.paired.compared
        if one.metric == rule.metric
    ]
    if not any(sizes):
        return "undefined in both runs"
    if sizes[0] < rule.minimum_n:
        return f"{TOO_FEW} {sizes[0]:,} queries only"
    return None


def _preconditions(
    paired: Paired, registry: Registry, config: GateConfig, rules: Sequence[Rule], *, skipped: Sequence[str]
) -> Iterator[str]:
    """Why no rule can be asked at all."""
    a, b = paired.a, paired.b
    if a.dataset_key != b.dataset_key:
        yield f"the baseline is scored on {a.dataset!r}, the candidate on {b.dataset!r}"
        return
    # A run that lost its results must not get by because nothing is left to ask of it.
    asked = rules if paired.is_without_results else config.rules
    asks_queries = any(rule.metric != EXTRACTION for rule in asked)
    if asks_queries or not (rules or paired.is_without_results):
        yield from _absent_queries(paired, config)
    if not rules:
        yield f"no rule applies: {_why_none(paired, skipped)}"
    yield from (f"{run.run_id} is {run.implausible.why}" for run in (a, b) if run.implausible)
    yield from _unlike_values(paired, registry, rules)
    yield from (
        f"the evaluation of {run.run_id} has not come to its end: the same `eval-pipeline evaluate` goes on with it"
        for run in (a, b)
        if run.is_unfinished
    )
    differing = differing_asks(a.judges, b.judges) if asks_queries else []
    judged = [rule.metric for rule in rules if not rule.metric.startswith(PREFIX)]
    if any(ask in SCORED_ASKS for ask in differing) or any(asks_of(metric, differing) for metric in judged):
        yield "the judge configurations differ (model, version, temperature or prompt version)"


def _why_none(paired: Paired, skipped: Sequence[str]) -> str:
    too_few = [one for one in skipped if TOO_FEW in one]
    if too_few:
        return f"{'; '.join(too_few)}; rules of your own under [gate] have a minimum_n of their own"
    if not paired.queries and not paired.is_without_results:
        return NO_QUERY
    return "neither run has any of the metrics that the gate asks for"


def _absent_queries(paired: Paired, config: GateConfig) -> Iterator[str]:
    """Which run answered too few of its queries to say anything about a metric of queries."""
    a, b = paired.a, paired.b
    # Without a golden set nobody but the baseline says what a candidate should answer.
    for name, n, wanted, whose in (
        ("baseline", len(paired.queries) + len(paired.only_in_a), a.n_golden, "golden queries"),
        ("candidate", len(paired.queries), a.n_golden, "queries that the baseline answered")
        if paired.is_unlabelled
        else ("candidate", len(paired.queries) + len(paired.only_in_b), b.n_golden, "golden queries"),
    ):
        if n < config.presence * wanted or not wanted:
            yield f"the {name} answered {n:,} of {wanted:,} {whose}; at least {config.presence:.0%} are needed"


def _unlike_values(paired: Paired, registry: Registry, rules: Sequence[Rule]) -> Iterator[str]:
    """Values that were not computed, or not alike, of the metrics that the rules are about."""
    wanted = _formulas_asked(registry, rules)
    formulas = [one for one in paired.formulas if one.short_name in wanted]
    for difference in _formula_differences(
        formulas,
        paired.states_a,
        paired.states_b,
        names=(paired.a.run_id, paired.b.run_id),
        with_labels=paired.reads_same_labels,
    ):
        if difference.what == DELIVERED:
            yield f"{OF_ANOTHER_KIND}: {difference.name}; computing it again changes nothing"
            continue
        yield (
            f"{difference.name} was computed differently for the two runs ({difference.what}): "
            f"{_computed_alike([difference.name], paired.states_a, paired.states_b)} computes both alike"
        )
    for name, states in (("baseline", paired.states_a), ("candidate", paired.states_b)):
        yield from _not_current(name, states, wanted)


def _formulas_asked(registry: Registry, rules: Sequence[Rule]) -> set[str]:
    keys = registry.keys()
    return {keys[rule.metric].short_name for rule in rules if rule.metric in keys}


def _not_current(name: str, states: RunStates, wanted: set[str]) -> Iterator[str]:
    due = sorted(one for one in wanted if states.reasons.get(one) in ("missing", "results"))
    if due:
        yield f"not computed for the {name}: {', '.join(due)}; `eval-pipeline run` computes it"


def _stale_alike(paired: Paired, registry: Registry, rules: Sequence[Rule]) -> Iterator[str]:
    """Formulas whose values are alike on both sides and yet not what the definitions that hold now would give."""
    stale = sorted(
        name
        for name in _formulas_asked(registry, rules)
        if all(one.reasons.get(name, FAILED) != FAILED for one in (paired.states_a, paired.states_b))
    )
    if stale:
        yield (
            f"decided by values that are stale for both runs: {', '.join(stale)}; `eval-pipeline plan` says why, "
            "`eval-pipeline run --all` computes them anew"
        )


def _why_failed(rule: Rule, paired: Paired, registry: Registry) -> str | None:
    """Why the rule's metric could not be computed for one of the runs; the candidate's reason comes first."""
    formula = registry.keys().get(rule.metric)
    name = formula.name if formula else EXTRACTION_CASES
    why = paired.states_b.failed.get(name) or paired.states_a.failed.get(name)
    return f"{FAILED}: {why}" if why else None


def _change(rule: Rule, evidence: Evidence, *, is_incomparable: bool, failed: str | None) -> Change:
    paired = evidence.paired
    if failed:
        return Change(rule, None, None, None, failed)
    if asks_of(rule.metric, differing_asks(paired.a.judges, paired.b.judges)):
        return Change(rule, None, None, None, _scorers_differ(paired, rule.metric))
    is_by_id = rule.metric not in evidence.by_span and rule.metric in chunk_level_metrics(
        paired.registry, paired
    )
    if evidence.foreign_ids and is_by_id:
        return Change(rule, None, None, None, evidence.foreign_ids)
    if is_incomparable:
        # Chunkers that no run recorded do not make a default rule required. Labels that cannot be applied do.
        is_recorded = None not in (run.config["chunker_version"] for run in (paired.a, paired.b))
        share = 1.0 if is_recorded or paired.has_other_chunker else 0.0
        return Change(rule, None, None, None, _why_unstable(paired), share=share)
    if rule.metric in evidence.by_span and evidence.spans and (why := _why_unplaced(evidence.spans)):
        return Change(rule, None, None, None, why)
    places = None
    if rule.slice is not None and rule.slice_value is not None:
        places = paired.slices.get((rule.slice, rule.slice_value))
        if places is None:
            return Change(rule, None, None, None, "no query of both runs stands in this slice")
    compared = {one.metric: one for one in paired.compared} | dict(evidence.by_span)
    if rule.metric.startswith(PREFIX) and rule.metric not in compared:
        return Change(rule, None, None, None, NO_SCORE)
    change = measure_change(
        rule,
        compared.get(rule.metric),
        places=places,
        groups=paired.groups,
        is_judged=_is_judged(rule.metric),
    )
    return replace(change, seen=BY_SPAN) if rule.metric in evidence.by_span else change


def _why_unplaced(spans: SpanFacts) -> str | None:
    """Why too few queries can be compared by document and span; None if enough can be."""
    n, unplaced = len(spans.places), frozenset.union(*spans.unplaced)
    if len(unplaced) <= (1 - SHARE_DEFINED) * n:
        return None
    return f"hits of {len(unplaced):,} of {n:,} queries have no source_spans and are in no inventory"


def _target(rule: Rule, evidence: Evidence, *, failed: str | None) -> Judged:
    if failed:
        return replace(_judge_target(rule, None, None, n=0), reason=failed)
    if rule.metric == EXTRACTION:
        before, after = (_macro_f1(scores) for scores in evidence.extraction)
        judged = _judge_target(rule, before[0], after[0], n=after[1])
        missing = evidence.missing_cases
        return replace(judged, verdict="inconclusive", reason=missing) if missing else judged
    for one in evidence.paired.compared:
        if one.metric == rule.metric and not one.pairs.defined_b.any() and rule.metric in evidence.whole[1]:
            return _judge_target(rule, *(values.get(rule.metric) for values in evidence.whole), n=1)
        if one.metric == rule.metric:
            extremes = [_target_of_queries(rule, extreme) for extreme in one.extremes()]
            return _with_coverage(_target_of_queries(rule, one), one.coverage(), extremes)
    return _judge_target(rule, None, None, n=0)


def _target_of_queries(rule: Rule, compared: Compared) -> Judged:
    pairs = compared.pairs
    after = pairs.b[pairs.defined_b]
    return _judge_target(
        rule, _mean_of_values(pairs.a[pairs.defined_a]), _mean_of_values(after), n=int(after.size)
    )


def _macro_f1(scores: ExtractionScores | None) -> tuple[float | None, int]:
    if scores is None:
        return None, 0
    return _mean_of_values(scores.case_f1), len(scores.case_f1)


def _document(
    a: ComparedRun,
    b: ComparedRun,
    config: GateConfig,
    *,
    preconditions: Sequence[str] = (),
    judged: Sequence[Judged] = (),
    skipped: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> GateReport:
    return GateReport(
        verdict=verdict_of_rules(judged, is_decided=not preconditions),
        candidate=b.run_id,
        baseline=a.run_id,
        preconditions=list(preconditions),
        rules=[one.entry() for one in judged],
        skipped=list(skipped),
        notes=list(notes),
        evidence=config.evidence,
        on_inconclusive=config.on_inconclusive,
    )


def verdict_of_rules(judged: Sequence[Judged], *, is_decided: bool = True) -> str:
    """Any rule may fail it; that it passes takes the required ones, and at least one of them."""
    required = [one.verdict for one in judged if one.required]
    if any(one.verdict == "fail" for one in judged):
        return "fail"
    return "pass" if is_decided and required and set(required) == {"pass"} else "inconclusive"
