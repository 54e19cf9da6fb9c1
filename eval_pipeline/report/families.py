"""Metrics in the order in which a reader asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from eval_pipeline.report.material import MetricFacts

FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    "Finding the expected chunks": ("hit_at_k", "reciprocal_rank", "chunk_overlap", "span_overlap"),
    "Finding the expected documents": ("recall_at_k_doc",),
    "Finding supports": ("anchor_any", "anchor_all", "anchor_precision", "anchor_rank", "scope_miss"),
    "Answering": ("answer_strings", "citation_coverage", "attribution", "recency_conflict"),
    "Refusing": ("refusal_correctness", "abstention", "hallucination"),
    "What the judge says": ("judge_scores",),
    "Running": ("failures", "empty_results", "latency_summary"),
    "Extracting fields": ("extraction_summary",),
}
OTHERS: Final = "Other formulas"
HEADLINES: Final = (
    "hit@5",
    "mrr",
    "recall@5_doc",
    "recall_any@5",
    "groundedness",
    "citation_coverage",
    "refusal_correctness",
    "judge_correctness",
    "error_rate",
    "extraction.macro_f1",
    "latency_p50_ms",
    "latency_p95_ms",
)
SLICED: Final = ("hit@5", "mrr", "recall_any@5", "groundedness", "citation_coverage", "recall@5_doc")
PREFERRED_K: Final = "@5"


def by_family(metrics: Iterable[MetricFacts]) -> dict[str, list[MetricFacts]]:
    """Family → its metrics; families without one are left out."""
    family_of = {
        formula: (family, place)
        for family, formulas in FAMILIES.items()
        for place, formula in enumerate(formulas)
    }
    found: dict[str, list[tuple[int, MetricFacts]]] = {family: [] for family in (*FAMILIES, OTHERS)}
    for one in metrics:
        family, place = family_of.get(one.formula) or family_of.get(one.base, (OTHERS, 0))
        found[family].append((place, one))
    return {
        family: [one for _, one in sorted(entries, key=lambda entry: entry[0])]
        for family, entries in found.items()
        if entries
    }


def representatives(metrics: Iterable[MetricFacts]) -> list[MetricFacts]:
    """One key per formula, at k = 5 where there are several; every key of a judge."""
    by_formula: dict[str, list[MetricFacts]] = {}
    for family in by_family(metrics).values():
        for one in family:
            by_formula.setdefault(one.formula, []).append(one)
    found = []
    for keys in by_formula.values():
        preferred = [one for one in keys if PREFERRED_K in one.key]
        found += keys if keys[0].scale == "ordinal" else (preferred or keys)[:1]
    return found


def is_share(one: MetricFacts) -> bool:
    """Whether it lies between 0 and 1."""
    return tuple(one.value_range) == (0, 1)


def chosen(wanted: Sequence[str], available: Iterable[str], *, most: int) -> list[str]:
    """The first few of what is wanted that are there."""
    known = set(available)
    return [key for key in wanted if key in known][:most]
