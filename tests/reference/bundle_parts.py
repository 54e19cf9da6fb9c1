"""The other parts of a random run: run.json, extraction cases, index report, spot checks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from random import Random
from typing import Any

from .bundle_texts import ABSENT, chance, fresh_id, pick, put, sentence
from .bundle_world import Row, World
from .extraction import compare_fields, leaf_fields
from .rows import query_id_of

RUN_ID_FORMS = ("run-{}", "nightly.2026-01-{:02d}", "R{}:retry@eu+b", "{}", "Run_{}-x")
FIELD_NAMES = ("bedrooms", "window count", "na|me", "\u65e5\u4ed8", "it's", "garden", "price")
SPOT_CHECK_KINDS = ("second_judge", "second_prompt", "replicate")


def random_run(rng: Random, *, number: int, dataset_id: str, version: str | None) -> Row:
    run: Row = {"run_id": rng.choice(RUN_ID_FORMS).format(number), "dataset": dataset_id}
    put(run, "suite", pick(rng, (1, ABSENT), (2, "nightly")))
    day = (date(2026, 1, 1) + timedelta(days=number)).isoformat()
    times = [ABSENT, f"{day}T02:00:00Z", f"{day}T03:30:00+02:00", f"{day}T01:15:00", f"{day}T01:15:00.250Z"]
    put(run, "created_at", rng.choice(times))
    put(run, "night", pick(rng, (2, ABSENT), (1, day)))
    put(run, "attempt", pick(rng, (2, ABSENT), (1, 1)))
    put(run, "commit_hash", pick(rng, (1, ABSENT), (1, f"{rng.getrandbits(64):016x}")))
    put(run, "suite_time_ms", pick(rng, (2, ABSENT), (1, None), (2, rng.randint(0, 10**7)), (1, 1234.56789)))
    config = random_config(rng, version=version)
    put(run, "config", config or rng.choice([ABSENT, None, {}]))
    put(run, "x_unknown", pick(rng, (3, ABSENT), (1, {"kept": True})))
    return run


def random_config(rng: Random, *, version: str | None) -> Row:
    config: Row = {}
    put(config, "chunker_version", ABSENT if version is None else version)
    put(config, "embedding_model", pick(rng, (1, ABSENT), (2, "embed-1"), (1, "embed-2")))
    put(config, "prompt_version", pick(rng, (1, ABSENT), (2, "prompt 1"), (1, "prompt 2")))
    put(config, "index_version", pick(rng, (1, ABSENT), (1, "index-7")))
    put(config, "llm_model", pick(rng, (1, ABSENT), (1, "llm-3")))
    put(config, "top_k", pick(rng, (1, ABSENT), (1, 5), (3, 10)))
    put(config, "folder_mode", pick(rng, (2, ABSENT), (1, "off"), (2, "on"), (1, "on_with_fallback")))
    judge = {"model": "judge-1", "version": "2026-01-01", "temperature": 0, "prompt_version": "p1"}
    odd = {"model": "judge-1", "version": rng.choice(["latest", "2026-01-01"]), "temperature": 0.7}
    put(config, "judge", pick(rng, (1, ABSENT), (4, judge), (1, odd)))
    put(config, "judge_price_per_1k", pick(rng, (1, ABSENT), (2, {"prompt": 0.0025, "completion": 0.01})))
    return config


def random_extractions(rng: Random) -> list[Row]:
    taken: set[str] = set()
    return [random_extraction(rng, fresh_id(rng, "case", taken)) for _ in range(rng.choice([0, 1, 5, 9]))]


def random_extraction(rng: Random, case_id: str) -> Row:
    """A case told by both sides, by its discrepancies, by both, by the truth alone, or as failed."""
    truth = random_fields(rng)
    extracted = changed_fields(rng, truth)
    case: Row = {"case_id": case_id}
    form = rng.choice(["sides", "sides", "all", "told", "told", "truth", "truth and told", "failed"])
    if form in ("sides", "all", "truth", "truth and told"):
        case["ground_truth"] = truth
    if form in ("sides", "all"):
        case["extracted"] = extracted
    if form == "truth":
        put(case, "extracted", rng.choice([ABSENT, None, {}]))
    if form in ("all", "truth and told"):
        case["discrepancies"] = compare_fields(truth, extracted)
    if form == "all":
        case["total_gt_fields"] = len(leaf_fields(truth))
    if form == "told":
        case |= told_discrepancies(rng)
    if form == "failed":
        case["error"] = "model not reachable"
        case |= rng.choice([{}, {"ground_truth": truth}])
    return case


def random_fields(rng: Random) -> Row:
    fields: Row = {}
    for name in FIELD_NAMES:
        value = rng.choice([3, 3.0, 0, "3", "", True, False, None, {}, [], [1, 2], ["a", True, 1.5], ABSENT])
        put(fields, name, value)
    address = {"city": "\u6771\u4eac", "zip": rng.choice(["01", 1, None]), "geo": {"lat": 1.5, "empty": {}}}
    put(fields, "address", pick(rng, (1, ABSENT), (3, address)))
    return fields


def changed_fields(rng: Random, truth: Row) -> Row:
    """What an extractor made of it: kept, left out, of another type, another value, or invented."""
    extracted: Row = {}
    for name, value in truth.items():
        if isinstance(value, dict):
            extracted[name] = changed_fields(rng, value)
            continue
        change = pick(rng, (6, "keep"), (1, "drop"), (1, "null"), (2, "replace"), (1, "retype"))
        if change == "keep" and isinstance(value, int | float) and not isinstance(value, bool):
            extracted[name] = rng.choice([value, float(value)])
        elif change == "keep":
            extracted[name] = value
        elif change == "replace":
            extracted[name] = rng.choice([4, "4", "", False, [2, 1], ["a", 1, 1.5]])
        elif change == "retype":
            extracted[name] = rng.choice([str(value), 1, True, [value]])
        elif change == "null":
            extracted[name] = None
    if chance(rng, 0.3):
        extracted["invented"] = rng.choice([1, "x", {"deep": [1]}, {"deep": {}}])
    return extracted


def told_discrepancies(rng: Random) -> Row:
    total = rng.choice([0, 1, 4, 9])
    wrong = rng.sample(range(total), k=rng.randint(0, total))
    discrepancies: list[Row] = [
        {"field": f"field {number}", "error_type": rng.choice(["omission", "format_error", "wrong_value"])}
        for number in wrong
    ]
    discrepancies += [
        {"field": f"extra {number}", "error_type": "hallucination", "actual": 1}
        for number in range(rng.choice([0, 0, 1, 3]))
    ]
    return {"total_gt_fields": total, "discrepancies": discrepancies}


def random_index_report(rng: Random, world: World, *, version: str | None) -> Row:
    report: Row = {}
    put(report, "chunker_version", ABSENT if version is None else version)
    put(report, "embedding_model", pick(rng, (1, ABSENT), (1, "embed-1")))
    put(report, "index_version", pick(rng, (1, ABSENT), (1, "index-7")))
    doc_ids = sorted({chunk.doc_id for chunk in world.labelled})
    docs = [random_indexed_document(rng, doc_id) for doc_id in [*doc_ids, "empty one"] if chance(rng, 0.8)]
    chunks = [random_indexed_chunk(rng, chunk.doc_id, chunk.chunk_id) for chunk in world.labelled]
    put(report, "docs", pick(rng, (1, ABSENT), (1, []), (8, docs)))
    put(report, "chunks", pick(rng, (1, ABSENT), (1, []), (8, chunks)))
    return report


def random_indexed_document(rng: Random, doc_id: str) -> Row:
    document: Row = {"doc_id": doc_id, "n_chunks": rng.choice([0, 1, 4, 40])}
    put(document, "doc_type", pick(rng, (1, ABSENT), (1, None), (3, "markdown"), (1, "pdf"), (1, "code")))
    return document


def random_indexed_chunk(rng: Random, doc_id: str, chunk_id: str) -> Row:
    chunk: Row = {"doc_id": doc_id, "chunk_id": chunk_id, "status": "embedded"}
    if chance(rng, 0.3):
        chunk["status"] = "skipped"
        reason = pick(rng, (1, ABSENT), (1, None), (4, "context_limit"), (1, "too short"))
        put(chunk, "skip_reason", reason)
    put(chunk, "tokens", pick(rng, (1, ABSENT), (1, None), (6, rng.randint(0, 9000))))
    return chunk


def random_spot_checks(rng: Random, golden_rows: Sequence[Row]) -> list[Row]:
    query_ids = [query_id_of(golden) for golden in golden_rows]
    checks = []
    for query_id in rng.sample(query_ids, k=rng.randint(0, min(20, len(query_ids)))):
        check: Row = {"query_id": query_id, "first": random_verdict(rng), "second": random_verdict(rng)}
        put(check, "kind", pick(rng, (1, ABSENT), *((1, kind) for kind in SPOT_CHECK_KINDS)))
        put(check, "x_unknown", pick(rng, (4, ABSENT), (1, sentence(rng))))
        checks.append(check)
    return checks


def random_verdict(rng: Random) -> dict[str, Any]:
    verdict: Row = {}
    put(verdict, "score", pick(rng, (1, ABSENT), (1, None), (4, rng.choice([0, 2, 3, 4, 4.0, 3.5, 5]))))
    put(verdict, "binary", pick(rng, (2, ABSENT), (1, None), (3, True), (1, False)))
    return verdict
