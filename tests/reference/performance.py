"""S2 operational parts of a run: latency, tokens and cost, judge coverage and reliability, indexing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .arithmetic import is_number, mean, percentile, rounded
from .readings import Readings
from .rows import Row, abstention_of, answer_of, is_blank, judge_score, judged, valid_score

STAGES = ("folder_selection", "retrieval", "generation", "judge")
MOVING_ALIASES = ("latest", "current", "stable", "default", "main", "master", "head", "nightly", "preview")


def recorded_latencies(results: Sequence[Row], part: str) -> list[float]:
    """A2.19: every recorded finite latency from 0 on, errors and timeouts included."""
    recorded: list[Any] = [(result.get("latency_ms") or {}).get(part) for result in results]
    return [value for value in recorded if is_number(value) and value >= 0]


def latency_summary(values: Sequence[float], readings: Readings) -> Row:
    return {
        "n": len(values),
        "p50": rounded(percentile(values, 0.5, readings), readings),
        "p95": rounded(percentile(values, 0.95, readings), readings),
        "mean": rounded(mean(values), readings),
    }


def performance_report(results: Sequence[Row], *, run: Row, readings: Readings) -> Row:
    totals = recorded_latencies(results, "total")
    suite = run.get("suite_time_ms")
    if suite is None:
        suite = math.fsum(totals) if totals else None
    prompt, completion = token_total(results, "prompt"), token_total(results, "completion")
    return {
        "latency_ms": latency_summary(totals, readings),
        "latency_breakdown_ms": {
            stage: latency_summary(recorded_latencies(results, stage), readings) for stage in STAGES
        },
        "total_suite_ms": rounded(suite, readings),
        "judge_tokens": (prompt or 0) + (completion or 0),
        "judge_cost": rounded(judge_cost(prompt, completion, run), readings),
    }


def token_total(results: Sequence[Row], side: str) -> int | None:
    """The recorded judge tokens of one side; None when no row recorded any."""
    recorded = [judged(result, "tokens").get(side) for result in results]
    known = [value for value in recorded if value is not None]
    return sum(known) if known else None


def judge_cost(prompt: int | None, completion: int | None, run: Row) -> float | None:
    """Tokens at the run's prices; None without a recorded token or without the price for one."""
    prices = (run.get("config") or {}).get("judge_price_per_1k") or {}
    cost, known = 0.0, False
    for tokens, price in ((prompt, prices.get("prompt")), (completion, prices.get("completion"))):
        if tokens is None:
            continue
        if price is None:
            return None
        cost, known = cost + tokens / 1000 * price, True
    return cost if known else None


def judge_coverage(results: Sequence[Row]) -> Row:
    """A2.12 and S2.15: how many valid scores there are, and how many fives name unsupported claims."""
    groundedness = [judge_score(result, "groundedness") for result in results]
    correctness = [judge_score(result, "correctness") for result in results]
    inconsistent = [
        result
        for result, score in zip(results, groundedness, strict=True)
        if score == 5 and judged(result, "groundedness").get("unsupported_claims")
    ]
    uncited = [
        result
        for result, score in zip(results, groundedness, strict=True)
        if score == 5 and claims_without_source(result)
    ]
    return {
        "groundedness_n": sum(score is not None for score in groundedness),
        "correctness_n": sum(score is not None for score in correctness),
        "inconsistent_n": len(inconsistent),
        "uncited_fives": len(uncited),
    }


def claims_without_source(result: Row) -> bool:
    """S2.15: an answer that does not abstain, as it says itself or else its judge, and names nothing it rests on."""
    answer = answer_of(result)
    rests_on = answer is None or answer.get("citations") or answer.get("references")
    return not rests_on and abstention_of(result) is not True


def judge_reliability(spot_checks: Sequence[Row], readings: Readings) -> Row:
    """S2.26, A2.21: pairs that share a score or a boolean; more than one point apart disagrees."""
    verdicts = [disagrees(pair.get("first") or {}, pair.get("second") or {}) for pair in spot_checks]
    comparable = [float(verdict) for verdict in verdicts if verdict is not None]
    return {"disagreement_rate": rounded(mean(comparable), readings), "spot_check_n": len(comparable)}


def disagrees(first: Row, second: Row) -> bool | None:
    scores = [valid_score(side.get("score")) for side in (first, second)]
    booleans = [side.get("binary") for side in (first, second)]
    verdicts = []
    if scores[0] is not None and scores[1] is not None:
        verdicts.append(abs(scores[0] - scores[1]) > 1)
    if isinstance(booleans[0], bool) and isinstance(booleans[1], bool):
        verdicts.append(booleans[0] != booleans[1])
    return any(verdicts) if verdicts else None


def says_anything(value: Any) -> bool:
    """Whether any value is given inside; null equals absent."""
    if isinstance(value, dict):
        return any(says_anything(inner) for inner in value.values())
    return value is not None


def judge_config_problems(config: Row | None, *, judged_at_all: bool) -> list[str]:
    """S2.16: what is at fault with the judge's settings, where there is a judge to speak of."""
    judge = (config or {}).get("judge")
    if judge is None and not judged_at_all:
        return []
    judge = judge or {}
    problems = []
    for key in ("model", "version", "temperature", "prompt_version"):
        value = judge.get(key)
        if value is None or is_blank(str(value)):
            problems.append(f"{key} is missing")
        elif key == "temperature" and value != 0:
            problems.append(f"temperature is {value:g}, not 0")
        elif key == "version" and is_moving(value):
            problems.append(f"version {value!r} is a moving alias")
    return problems


def is_moving(version: str) -> bool:
    lowered = version.strip().lower()
    return any(
        lowered == alias or lowered.endswith(tuple(f"{sign}{alias}" for sign in "-:@/_"))
        for alias in MOVING_ALIASES
    )


def indexing_report(report: Row, readings: Readings) -> Row:
    """S2.33 to S2.36 and S2.42, for all documents and for each document type."""
    docs, chunks = report.get("docs") or [], report.get("chunks") or []
    version_info = {key: report.get(key) for key in ("chunker_version", "embedding_model", "index_version")}
    type_of_document = {doc["doc_id"]: label(doc.get("doc_type")) for doc in docs}
    types = [label(doc.get("doc_type")) for doc in docs]
    chunk_types = [type_of_document.get(chunk.get("doc_id"), label(None)) for chunk in chunks]
    by_type = {}
    for doc_type in sorted({*types, *chunk_types}):
        own_docs = [doc for doc, own in zip(docs, types, strict=True) if own == doc_type]
        own_chunks = [chunk for chunk, own in zip(chunks, chunk_types, strict=True) if own == doc_type]
        by_type[doc_type] = {
            **coverage(own_docs, own_chunks, readings),
            "index_version_info": version_info,
        }
    return {**coverage(docs, chunks, readings), "index_version_info": version_info, "by_doc_type": by_type}


def label(value: Any) -> str:
    return "(none)" if value is None else str(value)


def coverage(docs: Sequence[Row], chunks: Sequence[Row], readings: Readings) -> Row:
    without_chunks = [doc.get("n_chunks") == 0 for doc in docs]
    skipped = [label(chunk.get("skip_reason")) for chunk in chunks if chunk.get("status") == "skipped"]
    context_rate = skipped.count("context_limit") / len(chunks) if chunks else None
    tokens = [chunk["tokens"] for chunk in chunks if chunk.get("tokens") is not None]
    return {
        "docs_processed": len(docs),
        "docs_with_0_chunks": sum(without_chunks),
        "no_chunks_generated_rate": rounded(mean(without_chunks), readings),
        "chunks_attempted": len(chunks),
        "chunks_embedded": sum(chunk.get("status") == "embedded" for chunk in chunks),
        "chunks_skipped": len(skipped),
        "skip_reasons": {reason: skipped.count(reason) for reason in sorted(set(skipped))},
        "chunks_skipped_context_rate": rounded(context_rate, readings),
        "tokens_per_chunk": {
            "min": min(tokens, default=None),
            "max": max(tokens, default=None),
            "mean": rounded(mean(tokens), readings),
            "p95": rounded(percentile(tokens, 0.95, readings), readings),
        },
    }
