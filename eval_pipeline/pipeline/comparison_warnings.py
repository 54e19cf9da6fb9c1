"""What a reader has to know before believing a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from eval_pipeline.formulas.registry import Registry
from eval_pipeline.pipeline.cell_states import formula_differences
from eval_pipeline.pipeline.compared_runs import Material, Paired

SMALL_N: Final = 30
NAMED: Final = 5
CHUNKERS_DIFFER: Final = "labels name the chunks of one chunker version"
JUDGES_DIFFER: Final = "judge configurations differ"
LABELLED_CHUNKS: Final = "labels.expected_chunks"


def warnings_of(material: Material, registry: Registry, counts: Mapping[str, int]) -> list[str]:
    """In a fixed order: what is compared, how it was computed, what is missing, how little it is."""
    paired = material.paired
    return [
        *_about_runs(paired, counts),
        *_about_chunkers(material, registry, counts),
        *_about_values(paired),
        *_about_config(paired),
        *_about_queries(paired),
    ]


def caveats_of(paired: Paired, registry: Registry) -> dict[str, str]:
    """Metric → why its difference does not say what it seems to say."""
    found: dict[str, str] = {}
    if paired.a.judge != paired.b.judge:
        found |= dict.fromkeys(
            (one.metric for one in paired.compared if is_judged(one.metric)), JUDGES_DIFFER
        )
    if not paired.is_exact:
        found |= dict.fromkeys(chunk_level_metrics(registry, paired), CHUNKERS_DIFFER)
    return found


def is_judged(metric: str) -> bool:
    """Whether a judge's score stands behind the metric: these carry the judge in their name."""
    return metric.startswith("judge_")


def chunk_level_metrics(registry: Registry, paired: Paired) -> list[str]:
    """The metrics that compare chunk ids with labels, which mean nothing to another chunker."""
    return [key for one in paired.formulas if LABELLED_CHUNKS in registry.inputs_of(one) for key in one.keys]


def _about_runs(paired: Paired, counts: Mapping[str, int]) -> Iterator[str]:
    a, b = paired.a, paired.b
    if a.run_key == b.run_key:
        yield f"a and b are the same run, {a.run_id!r}: every difference is 0"
    if a.dataset_key != b.dataset_key:
        different = sum(not query.same_labels for query in paired.queries)
        yield (
            f"different datasets: a is scored on {a.dataset!r}, b on {b.dataset!r}; only the "
            f"{len(paired.queries):,} queries of the same id are paired, and {different:,} of these expect different "
            "chunks and are not comparable"
        )
    for name, run in (("a", a), ("b", b)):
        if run.n_results == 0:
            yield f"{name} ({run.run_id!r}) has no results: there is nothing to pair"
        if run.n_quarantined:
            yield (
                f"{run.n_quarantined:,} rows of {name} are in quarantine and count as missing: "
                "`eval-pipeline quarantine` shows them"
            )
    if paired.is_exact and counts["not_comparable"] and a.dataset_key == b.dataset_key:
        yield f"{counts['not_comparable']:,} queries are not comparable: nothing was computed for them"


def _about_chunkers(material: Material, registry: Registry, counts: Mapping[str, int]) -> Iterator[str]:
    paired = material.paired
    versions = [run.config["chunker_version"] for run in (paired.a, paired.b)]
    if not paired.is_exact:
        if None in versions:
            missing = " and ".join(
                name for name, version in zip("ab", versions, strict=True) if version is None
            )
            yield f"no chunker version is recorded for {missing}: matched by document and span"
        metrics = _named(chunk_level_metrics(registry, paired))
        if metrics:
            yield (
                f"deltas of chunk-level metrics are unstable across chunkers, because labels name the chunks of one "
                f"version: read fallback_metrics instead of {metrics}"
            )
        if counts["not_comparable"]:
            yield (
                f"{counts['not_comparable']:,} queries are not comparable: the spans of their expected chunks are "
                "neither frozen in the golden set nor in an archive"
            )
    if material.stale_labels:
        yield (
            f"stale labels: {material.stale_labels:,} expected chunk ids are not in the inventory of chunker "
            f"{versions[1]!r}, so that neither run can find them"
        )


def _about_values(paired: Paired) -> Iterator[str]:
    differences = formula_differences(paired.formulas, paired.states_a, paired.states_b)
    changed = [f"{one.name} ({one.what})" for one in differences if one.what != "labels"]
    if changed:
        yield (
            f"values computed under different definitions: {_named(changed)}; `eval-pipeline run --all` computes "
            "both with the ones that hold now"
        )
    relabelled = [one.name for one in differences if one.what == "labels"]
    if relabelled and paired.a.dataset_key == paired.b.dataset_key:
        yield f"values computed with different labels: {_named(relabelled)}"
    for name, states in (("a", paired.states_a), ("b", paired.states_b)):
        missing = sorted(one for one, reason in states.reasons.items() if reason == "missing")
        stale = sorted(f"{one} ({reason})" for one, reason in states.reasons.items() if reason != "missing")
        if missing:
            yield f"not computed for {name}: {_named(missing)}; `eval-pipeline run` computes what is missing"
        if stale:
            yield f"stale for {name}: {_named(stale)}; `eval-pipeline run --all` computes them anew"


def _about_config(paired: Paired) -> Iterator[str]:
    a, b = paired.a, paired.b
    if a.judge != b.judge:
        fields = ("model", "version", "temperature", "prompt version")
        differing = [
            f"{field} {before!r} and {after!r}"
            for field, before, after in zip(fields, a.judge, b.judge, strict=True)
            if before != after
        ]
        yield f"judge configurations differ ({', '.join(differing)}): judge metrics are not comparable"
    top_a, top_b = a.config["top_k"], b.config["top_k"]
    if top_a != top_b:
        yield f"a was configured to retrieve {_hits(top_a)}, b {_hits(top_b)}"


def _hits(top_k: Any) -> str:
    return "an unrecorded number of hits" if top_k is None else f"{top_k} hits"


def _about_queries(paired: Paired) -> Iterator[str]:
    if paired.only_in_a or paired.only_in_b:
        yield (
            f"{len(paired.only_in_a):,} queries are only in a and {len(paired.only_in_b):,} only in b: aggregates "
            "count each run's own queries, verdicts and tests only those of both"
        )
    for name, failed in (
        ("a", sum(query.error_a for query in paired.queries)),
        ("b", sum(query.error_b for query in paired.queries)),
    ):
        if failed:
            yield f"{failed:,} queries failed in {name}; they count as stored"
    if 0 < len(paired.queries) < SMALL_N:
        yield (
            f"only {len(paired.queries):,} paired queries: read each difference beside the smallest one that could "
            "have been shown (mde)"
        )


def _named(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
