"""Two runs compared: the document of `compare A B --format json`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import cast

import numpy as np
from msgspec.structs import replace

from eval_pipeline.comparing._whole_runs import compare_cases, compare_parts
from eval_pipeline.comparing.documents import (
    EXACT,
    FALLBACK,
    MODE,
    UNCLEAR,
    CompareReport,
    Counts,
    FallbackMetrics,
    Tested,
)
from eval_pipeline.comparing.material import (
    Material,
    Paired,
    SpanFacts,
    _read_material,
    _span_facts,
    _versions_match,
    _whole_run_tests,
    find_pair,
)
from eval_pipeline.comparing.options import _option_notes, comparison_options
from eval_pipeline.comparing.pair_rows import ComparedRun, MetricPairs
from eval_pipeline.comparing.significance import (
    WHOLE_RUN_QUESTIONS,
    Compared,
    Question,
    entries_of,
    moved_slices,
    questions_of,
    results_of,
)
from eval_pipeline.comparing.verdicts import (
    ComparisonOptions,
    Cutoffs,
    QueryFacts,
    _mean_of,
    _rank_values,
    count_kinds,
    deltas_of,
    judge_queries,
    rank_summary,
)
from eval_pipeline.comparing.warnings import (
    WAY_OUT,
    _caveats_of,
    _trust_of,
    _warnings_of,
    chunk_level_metrics,
)
from eval_pipeline.computing.judges import differing_asks
from eval_pipeline.documents import UNSET
from eval_pipeline.errors import RefusedError
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.store.project import Project

CAUSES = (
    ("chunker_version", "chunker version diff"),
    ("embedding_model", "embedding diff"),
    ("prompt_version", "prompt diff"),
)

NOT_IN_BOTH = "no query of both runs with a value"

Values = dict[str, float | None]


def compare(
    project: Project,
    run_a: str,
    run_b: str,
    *,
    strict_chunker_version: bool = False,
    options: ComparisonOptions | None = None,
) -> CompareReport:
    """Compare two runs; strict mode refuses runs that are not known to share one chunker version."""
    registry = project.definitions()
    chosen = options or comparison_options(registry.config)
    with project.read() as store:
        a, b = find_pair(store.con, run_a, run_b)
        if strict_chunker_version:
            _refuse_unlike_chunkers(a, b)
        material = _read_material(store, (a, b), chosen)
    return _comparison_document(material, registry, chosen)


def _refuse_unlike_chunkers(a: ComparedRun, b: ComparedRun) -> None:
    """S3.20: no comparison at all rather than one by document and span."""
    if not _versions_match(a, b):
        versions = [str(run.config["chunker_version"] or "no version recorded") for run in (a, b)]
        is_unknown = None in (a.config["chunker_version"], b.config["chunker_version"])
        known = "known to be " if is_unknown else ""
        raise RefusedError(
            f"{a.run_id} and {b.run_id} are not {known}of one chunker version ({versions[0]}, {versions[1]}); without "
            f"--strict-chunker-version they are matched by document and span{_else_by_id(a, b) if is_unknown else ''}"
        )


def _else_by_id(a: ComparedRun, b: ComparedRun) -> str:
    """What else would be done where a version is unknown, and how to make it known."""
    is_neither = a.config["chunker_version"] == b.config["chunker_version"]
    return f"{', or by id where no spans decide' if is_neither else ''}; {WAY_OUT}"


def _comparison_document(material: Material, registry: Registry, options: ComparisonOptions) -> CompareReport:
    """The document, from what was read; the same material gives the same bytes."""
    paired = material.paired
    causes = _causes_of(paired.a, paired.b)
    aggregate_a, aggregate_b = _aggregates(material, options)
    facts = _query_facts(material, options, threshold=options.overlap_threshold)
    per_query = judge_queries(facts, causes, options)
    counts = count_kinds(per_query)
    caveats = _caveats_of(paired, registry)
    # Metrics that mean something else in the other run are not tested.
    unstable = [] if paired.is_exact else chunk_level_metrics(registry, paired)
    unstable += [metric for metric in differing_asks(paired.a.judges, paired.b.judges) if metric in caveats]
    cutoffs = _cutoffs_of(registry)
    questions = questions_of(paired.registry, by_span=paired.both.is_by_span)
    tested = _tested(material, questions, untestable=unstable, doubted=caveats)
    return CompareReport(
        run_a=paired.a.run_id,
        run_b=paired.b.run_id,
        aggregate_a=aggregate_a,
        aggregate_b=aggregate_b,
        deltas={MODE: _mode_of(paired), **deltas_of(aggregate_a, aggregate_b)},
        per_query=per_query,
        counts=counts,
        causes=causes,
        only_in_a=list(paired.only_in_a),
        only_in_b=list(paired.only_in_b),
        warnings=[*_option_notes(options), *_warnings_of(material, registry, counts)],
        fallback_metrics=_fallback_metrics(facts, cutoffs) if material.spans else None,
        significance={key: tested[key] for key in paired.keys},
        caveats=caveats,
        slices=moved_slices(
            [one for one in paired.compared if one.metric not in unstable],
            paired.slices,
            groups=paired.groups,
        ),
        parts=compare_parts(*material.parts, tested),
        fallback_significance=_fallback_significance(paired, facts, registry) if material.spans else None,
        noise=material.noise.bands,
        identical_pairs=material.noise.pairs,
        flaky_queries=material.noise.flaky_queries,
        sensitivity=_sensitivity(material, counts, options) if material.spans else None,
        is_without_results=paired.is_without_results,
        cases=compare_cases(*material.parts),
        undefined=_undefined(material, aggregate_a, aggregate_b),
        coverage={one.metric: found for one in paired.compared if (found := one.coverage())} or UNSET,
        trust=_trust_of(material, registry),
    )


def _tested(
    material: Material,
    questions: Mapping[str, Question],
    *,
    untestable: Sequence[str],
    doubted: Collection[str],
) -> dict[str, Tested]:
    """Every metric of queries and every measure of whole runs that is tested, adjusted for each other."""
    paired = material.paired
    a, b = material.parts
    whole = _whole_run_tests(paired, a.cases, b.cases, material.noise.times)
    queries = results_of(paired.compared, paired.keys, groups=paired.groups, untestable=untestable)
    asked = {**questions, **WHOLE_RUN_QUESTIONS}
    entries = entries_of(queries | whole, asked, bands=material.noise.bands, doubted=doubted)
    undecided = {pair.metric for pair in paired.compared if (found := pair.coverage()) and found.is_undecided}
    return {
        metric: replace(entry, verdict=entry.verdict and UNCLEAR) if metric in undecided else entry
        for metric, entry in entries.items()
    }


def _undefined(material: Material, aggregate_a: Values, aggregate_b: Values) -> dict[str, str]:
    """Metric → why it has no value in one of the runs, or in both."""
    found = {}
    runs = ((material.paired.a.run_id, "a"), (material.paired.b.run_id, "b"))
    for metric in aggregate_a:
        sides = zip(runs, (aggregate_a, aggregate_b), material.undefined, strict=True)
        # A metric that a run defines may have no query that the other answered too.
        reasons = {
            side: known.get(metric, NOT_IN_BOTH) for side, values, known in sides if values[metric] is None
        }
        if reasons:
            found[metric] = _why_undefined(reasons)
    return found


def _why_undefined(reasons: Mapping[tuple[str, str], str]) -> str:
    """The reason of both runs, or of each by its name; what follows a semicolon is of the formula and said once."""
    if len(reasons) == 2 and len(set(reasons.values())) == 1:
        return next(iter(reasons.values()))
    parted = {side: reason.partition(";") for side, reason in reasons.items()}
    told = ", ".join(f"{head} in {run_id}" for (run_id, _), (head, _, _) in parted.items())
    about = next((rest for _, _, rest in parted.values() if rest), "")
    return f"{told};{about}" if about else told


def _mode_of(paired: Paired) -> str:
    return EXACT if paired.is_exact else FALLBACK


def _causes_of(a: ComparedRun, b: ComparedRun) -> list[str]:
    """Known differences of the configuration; missing against present is one."""
    return [cause for key, cause in CAUSES if a.config[key] != b.config[key]]


def _aggregates(material: Material, options: ComparisonOptions) -> tuple[Values, Values]:
    """Each run's own stored values, or both over the queries of both runs."""
    keys = material.paired.keys
    own = tuple(
        {key: values.get(key) for key in keys} for values in (material.aggregate_a, material.aggregate_b)
    )
    if options.delta_scope == "own":
        return own[0], own[1]
    common_a, common_b = _over_common(material.paired)
    return own[0] | common_a, own[1] | common_b


def _over_common(paired: Paired) -> tuple[Values, Values]:
    return (
        {one.metric: _mean_of(one.pairs.a[one.pairs.defined_a].tolist()) for one in paired.compared},
        {one.metric: _mean_of(one.pairs.b[one.pairs.defined_b].tolist()) for one in paired.compared},
    )


def _query_facts(material: Material, options: ComparisonOptions, *, threshold: float) -> list[QueryFacts]:
    if material.spans:
        return _span_query_facts(material.paired, material.spans, options, threshold=threshold)
    return [
        QueryFacts(
            query.query_id,
            is_expecting=bool(query.n_expected) or not query.same_labels or not query.has_facts,
            is_comparable=query.same_labels and query.has_facts and material.paired.is_comparable,
            rank_a=query.rank_a,
            rank_b=query.rank_b,
            regressed_chunk_ids=material.regressed.get(place, ()),
            error_a=query.error_a,
            error_b=query.error_b,
        )
        for place, query in enumerate(material.paired.queries)
    ]


def _span_query_facts(
    paired: Paired, spans: SpanFacts, options: ComparisonOptions, *, threshold: float
) -> list[QueryFacts]:
    """The same by document and span, with one criterion for both runs."""
    column = list(spans.thresholds).index(threshold)
    found: dict[tuple[bool, int], dict[str, int]] = {}
    for match in spans.matches:
        rank = match.ranks[column]
        if rank is not None:
            found.setdefault((match.is_a, match.place), {})[match.chunk_id] = rank
    facts = []
    for place, query in enumerate(paired.queries):
        in_a, in_b = found.get((True, place), {}), found.get((False, place), {})
        within_a, within_b = (
            {chunk_id for chunk_id, rank in ranks.items() if rank <= options.compare_k}
            for ranks in (in_a, in_b)
        )
        facts.append(
            QueryFacts(
                query.query_id,
                is_expecting=bool(query.n_expected) or not query.same_labels or not query.has_facts,
                is_comparable=query.same_labels
                and query.has_facts
                and place in spans.places
                and not any(place in unplaced for unplaced in spans.unplaced),
                rank_a=min(in_a.values(), default=None),
                rank_b=min(in_b.values(), default=None),
                regressed_chunk_ids=sorted(within_a - within_b),
                error_a=query.error_a,
                error_b=query.error_b,
            )
        )
    return facts


def _cutoffs_of(registry: Registry) -> Cutoffs:
    """As the formulas have them now; one of the user's own that declares none has none."""
    hit, reciprocal = (
        registry.get(f"metrics.{name}").header.parameters for name in ("hit_at_k", "reciprocal_rank")
    )
    return Cutoffs(cast("Sequence[int]", hit.get("ks", ())), cast("int | None", reciprocal.get("cutoff")))


def _fallback_metrics(facts: Sequence[QueryFacts], cutoffs: Cutoffs) -> FallbackMetrics:
    """hit@k and MRR of both runs by document and span, over the comparable queries (A3.17)."""
    usable = [one for one in facts if one.is_expecting and one.is_comparable]
    a = rank_summary([one.rank_a for one in usable], cutoffs)
    b = rank_summary([one.rank_b for one in usable], cutoffs)
    return FallbackMetrics(a={**a, "n": len(usable)}, b={**b, "n": len(usable)}, deltas=deltas_of(a, b))


def _fallback_significance(
    paired: Paired, facts: Sequence[QueryFacts], registry: Registry
) -> dict[str, Tested]:
    """The tests of the fallback metrics, adjusted for each other."""
    compared = _compared_by_span(facts, registry)
    results = results_of(list(compared.values()), list(compared), groups=paired.groups)
    questions = questions_of(registry)
    return entries_of(results, {metric: questions.get(metric) or Question("retrieval") for metric in results})


def _fallback_compared(paired: Paired, registry: Registry) -> tuple[dict[str, Compared], SpanFacts | None]:
    """The metrics of two chunkers that are matched by document and span, and the spans of their hits."""
    if paired.is_exact or paired.is_without_results:
        return {}, None
    options = comparison_options(registry.config)
    spans = _span_facts(paired, options)
    facts = _span_query_facts(paired, spans, options, threshold=options.overlap_threshold)
    is_comparable = any(query.is_expecting and query.is_comparable for query in facts)
    return (_compared_by_span(facts, registry) if is_comparable else {}), spans


def _compared_by_span(facts: Sequence[QueryFacts], registry: Registry) -> dict[str, Compared]:
    """hit@k and MRR by document and span, over the comparable queries."""
    usable = np.array([one.is_expecting and one.is_comparable for one in facts], dtype=np.bool_)
    cutoffs = _cutoffs_of(registry)
    values_a = _rank_values([one.rank_a for one in facts], cutoffs)
    values_b = _rank_values([one.rank_b for one in facts], cutoffs)
    hit, reciprocal = (registry.get(f"metrics.{name}") for name in ("hit_at_k", "reciprocal_rank"))
    return {
        metric: Compared(
            metric,
            reciprocal if metric == "mrr" else hit,
            MetricPairs(
                np.where(usable, np.array(values_a[metric], float), 0.0),
                np.where(usable, np.array(values_b[metric], float), 0.0),
                usable,
                usable,
            ),
        )
        for metric in values_a
    }


def _sensitivity(material: Material, counts: Counts, options: ComparisonOptions) -> dict[str, Counts]:
    """How the verdicts would be counted if less, or more, of the characters had to be shared."""
    assert material.spans is not None
    found = {}
    for threshold in material.spans.thresholds:
        if threshold == options.overlap_threshold:
            found[f"{threshold:g}"] = counts
            continue
        facts = _query_facts(material, options, threshold=threshold)
        found[f"{threshold:g}"] = count_kinds(judge_queries(facts, [], options))
    return found
