"""What runs store of chunks and spans is what the public functions give: two ways to compute one number."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from eval_pipeline import metrics
from tests.bundle_files import ask, compute, load, settings_in, write_golden, write_run

QUERIES = 120
BUNDLES = range(3)
DOCUMENTS = ("d1", "d2", "d3")
CHUNKS = [f"{document}/{number}" for document in DOCUMENTS for number in range(4)]
# Also what the default leaves out of the mean: queries that expect nothing.
EVERYTHING = """
[formulas.chunk_overlap]
s0_vacuous = "include"
[formulas.span_cover]
s0_vacuous = "include"
"""
CHUNK_METRICS = {
    "chunk_recall": metrics.chunk_recall,
    "chunk_precision": metrics.chunk_precision,
    "chunk_f1": metrics.chunk_f1,
}
SPAN_METRICS = {
    "span_recall": metrics.span_recall,
    "span_precision": metrics.span_precision,
    "span_iou": metrics.span_iou,
}


def spans(random: Random, document: str) -> list[dict[str, Any]]:
    """Few positions, so that spans touch, repeat, lie within each other and have no character."""
    starts = [random.randint(0, 12) for _ in range(random.randint(0, 3))]
    return [{"doc_id": document, "start": start, "end": start + random.randint(0, 6)} for start in starts]


def bundle_rows(seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Golden rows and results; both sides are empty now and then, and a chunk may be found twice."""
    random = Random(f"stored values {seed}")
    golden, results = [], []
    for number in range(QUERIES):
        spans_of_chunk = {chunk: spans(random, chunk.split("/")[0]) for chunk in CHUNKS}
        golden.append(
            {
                "query_id": f"q{number}",
                "expected_chunk_ids": random.sample(CHUNKS, random.choice((0, 1, 2, 3, 7))),
                "ground_truth_spans": [
                    one for document in DOCUMENTS if random.random() < 0.5 for one in spans(random, document)
                ],
            }
        )
        found = random.choices(CHUNKS, k=random.choice((0, 1, 2, 5, 12)))
        results.append(
            {
                "query_id": f"q{number}",
                "hits_top_k": [
                    {
                        "chunk_id": chunk,
                        "doc_id": chunk.split("/")[0],
                        "source_spans": spans_of_chunk[chunk],
                    }
                    for chunk in found
                ],
            }
        )
    return golden, results


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> dict[tuple[str, str, str], float | None]:
    """Every stored value by run, query and metric."""
    folder = tmp_path_factory.mktemp("stored")
    settings = settings_in(folder)
    settings.config.write_text(EVERYTHING)
    for seed in BUNDLES:
        golden, results = bundle_rows(seed)
        write_golden(folder / "bundle", golden, dataset=f"kb{seed}")
        write_run(folder / "bundle", f"run-{seed}", results, dataset=f"kb{seed}")
    report = load(settings, folder / "bundle")
    assert report.quarantined == 0
    compute(settings, definitions=["metrics.chunk_overlap", "metrics.span_overlap"])
    rows = ask(settings, "select run_id, query_id, metric, value from per_query_metrics")
    return {(run, query, metric): value for run, query, metric, value in rows}


@pytest.mark.parametrize("seed", BUNDLES)
def test_stored_values_are_those_of_the_public_functions(stored, seed) -> None:
    compared = 0
    for labels, result in zip(*bundle_rows(seed), strict=True):
        place = f"run-{seed}", labels["query_id"]
        found = [hit["chunk_id"] for hit in result["hits_top_k"]]
        for key, metric in CHUNK_METRICS.items():
            assert stored[*place, key] == metric.calculate(found, labels["expected_chunk_ids"]), (key, place)
            compared += 1
        retrieved = metrics.read_spans(one for hit in result["hits_top_k"] for one in hit["source_spans"])
        expected = metrics.read_spans(labels["ground_truth_spans"])
        for key, metric in SPAN_METRICS.items():
            assert stored[*place, key] == metric.calculate(retrieved, expected), (key, place)
            compared += 1
    assert compared == 6 * QUERIES
    values = {stored[f"run-{seed}", f"q{number}", "span_iou"] for number in range(QUERIES)}
    assert {0.0, 1.0} < values and len(values) > 20
