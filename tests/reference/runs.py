"""A whole run: the document `show RUN_ID --json` prints, its per-query lines, and the stored aggregate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .arithmetic import mean, rounded
from .extraction import extraction_report
from .metrics import KS, METRIC_KEYS, Scores, missing_fields, score_query
from .performance import (
    indexing_report,
    judge_config_problems,
    judge_coverage,
    judge_reliability,
    performance_report,
    says_anything,
)
from .readings import Readings, resolve_readings
from .rows import Row, has_error, hits_of, is_answerable, labels, query_id_of

DIMENSIONS = ("tag", "category", "difficulty", "vault", "answerable")
UNLABELLED = "(none)"


@dataclass(frozen=True)
class ScoredQuery:
    query_id: str
    golden: Row
    result: Row
    scores: Scores


def score_queries(
    golden_rows: Sequence[Row],
    results: Sequence[Row],
    *,
    run: Row,
    archives: Sequence[Row],
    readings: Readings,
) -> list[ScoredQuery]:
    """The golden queries that have a result, in golden order (AX.6)."""
    result_of = {result["query_id"]: result for result in results}
    missing = missing_fields(golden_rows, results)
    hits = [hit for result in results for hit in hits_of(result, resolve_readings(None))]
    retrieved = frozenset({hit["doc_id"] for hit in hits} | {hit.get("rel_path") for hit in hits} - {None})
    scored = []
    for golden in golden_rows:
        query_id = query_id_of(golden)
        if query_id not in result_of:
            continue
        result = result_of[query_id]
        config = run.get("config")
        scores = score_query(
            golden,
            result,
            run_config=config,
            archive_states=archives,
            readings=readings,
            missing=missing,
            retrieved=retrieved,
        )
        scored.append(ScoredQuery(query_id, golden, result, scores))
    return scored


def per_query_lines(
    golden_rows: Sequence[Row],
    results: Sequence[Row],
    *,
    run: Row,
    archives: Sequence[Row],
    readings: Mapping[str, Any] | None = None,
) -> list[Row]:
    """The lines of `show RUN_ID --per-query --json`: unrounded."""
    chosen = resolve_readings(readings)
    scored = score_queries(golden_rows, results, run=run, archives=archives, readings=chosen)
    return [{"query_id": query.query_id, "metrics": query.scores} for query in scored]


def aggregate(queries: Sequence[ScoredQuery], readings: Readings) -> dict[str, Row]:
    """Each key's mean over the queries it applies to, beside how many these are (X.2)."""
    document = {}
    for key in METRIC_KEYS:
        scores = [query.scores[key] for query in queries]
        values = [value for value in scores if value is not None]
        document[key] = {"value": rounded(mean(values), readings), "n": len(values)}
    return document


def slice_values(golden: Row, dimension: str) -> list[str]:
    """A2.20: the distinct labels of a query in one dimension, or the bucket of the unlabelled."""
    if dimension == "answerable":
        return ["answerable" if is_answerable(golden) else "unanswerable"]
    if dimension == "tag":
        values = labels(golden, "tags")
    else:
        single = golden.get(dimension)
        values = [] if single is None else [single]
    if dimension == "vault":
        values = values + labels(golden, "vaults")
    return sorted(set(values)) or [UNLABELLED]


def slices(queries: Sequence[ScoredQuery], readings: Readings) -> dict[str, Row]:
    document: dict[str, Row] = {}
    for dimension in DIMENSIONS:
        members: dict[str, list[ScoredQuery]] = {}
        for query in queries:
            for value in slice_values(query.golden, dimension):
                members.setdefault(value, []).append(query)
        document[dimension] = {
            value: {"n_queries": len(members[value]), "metrics": aggregate(members[value], readings)}
            for value in sorted(members)
        }
    return document


def score_run(
    golden_rows: Sequence[Row],
    results: Sequence[Row],
    *,
    run: Row,
    archives: Sequence[Row],
    extractions: Sequence[Row] | None = None,
    index_report: Row | None = None,
    spot_checks: Sequence[Row] | None = None,
    readings: Mapping[str, Any] | None = None,
) -> Row:
    """The document of one run, without `formulas`."""
    chosen = resolve_readings(readings)
    queries = score_queries(golden_rows, results, run=run, archives=archives, readings=chosen)
    golden_ids = [query_id_of(golden) for golden in golden_rows]
    result_ids = [result["query_id"] for result in results]
    stored = [query.result for query in queries]
    judged_at_all = any(says_anything(result.get("judge")) for result in stored)
    return {
        "format": 1,
        "run_id": run["run_id"],
        "dataset": run["dataset"],
        "total_queries": len(queries),
        "failed_queries": sum(has_error(result) for result in stored),
        "missing_query_ids": [query_id for query_id in golden_ids if query_id not in set(result_ids)],
        "unknown_query_ids": [query_id for query_id in result_ids if query_id not in set(golden_ids)],
        "metrics": aggregate(queries, chosen),
        "slices": slices(queries, chosen),
        "performance": performance_report(stored, run=run, readings=chosen),
        "judge_coverage": judge_coverage(stored),
        "judge_reliability": judge_reliability(spot_checks or [], chosen),
        "judge_config_problems": judge_config_problems(run.get("config"), judged_at_all=judged_at_all),
        "extraction": None if extractions is None else extraction_report(extractions, readings=chosen),
        "indexing": None if index_report is None else indexing_report(index_report, chosen),
    }


def aggregate_json(
    golden_rows: Sequence[Row],
    results: Sequence[Row],
    *,
    run: Row,
    archives: Sequence[Row],
    readings: Mapping[str, Any] | None = None,
) -> Row:
    """`runs.aggregate_json`: the knowledge-base metrics, nested (A3.1)."""
    chosen = resolve_readings(readings)
    queries = score_queries(golden_rows, results, run=run, archives=archives, readings=chosen)
    values = {key: entry["value"] for key, entry in aggregate(queries, chosen).items()}
    return {
        "hit_at_k": {str(k): values[f"hit@{k}"] for k in KS},
        "mrr": values["mrr"],
        "recall_at_k_doc": {str(k): values[f"recall@{k}_doc"] for k in KS},
        "citation_coverage": values["citation_coverage"],
        "groundedness": values["groundedness"],
        "empty_result_rate": values["empty_result_rate"],
        "refusal_correctness": values["refusal_correctness"],
        "total_queries": len(queries),
        "failed_queries": sum(has_error(query.result) for query in queries),
    }
