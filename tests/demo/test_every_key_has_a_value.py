"""The example shows everything: each key of the catalogue has a value in some run, or in some pair of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from eval_pipeline.comparing.compare import compare
from eval_pipeline.formulas.registry import Registry, load_registry
from eval_pipeline.settings import Settings, load_settings
from eval_pipeline.showing.show import show_run
from tests.called import EXAMPLE, demo_once, working_in
from tests.projects import open_reader, project_of

BEFORE, AFTER, OTHER_CHUNKER, BEST = (f"nightly-2026-09-{day}" for day in ("08", "11", "14", "18"))
KS = (1, 3, 5, 10)
# Spelled out, so that a key that disappears from the product is missed here.
QUERY_KEYS = {
    *("chunk_recall", "chunk_precision", "chunk_f1", "span_recall", "span_precision", "span_iou"),
    *(f"{name}@{k}" for name in ("recall_any", "recall_all", "precision", "hit") for k in KS),
    *(f"recall@{k}_doc" for k in KS),
    *("mrr_anchor", "mrr", "scope_miss_rate", "attribution_hit_rate", "recency_conflict_ok"),
    *("judge_groundedness", "judge_correctness", "abstention_accuracy", "hallucination_rate_unanswerable"),
    *("error_rate", "timeout_rate", "empty_response_rate"),
    *("citation_coverage", "groundedness", "empty_result_rate", "refusal_correctness"),
    *(f"{name}@{k}" for name in ("ndcg", "ap") for k in KS),
    *(f"{name}@{k}_chunk" for name in ("recall", "precision") for k in KS),
    *(f"hit@{k}_span" for k in KS),
    *("rprec", "mrr_span"),
}
# The example's labels name all that is relevant: nothing in it is judged.
OF_JUDGED_LABELS = {f"judged@{k}" for k in KS}
RATES = ("precision", "recall", "f1")
CASE_KEYS = {
    *(*RATES, "recall_strict", "f1_strict", "true_positives", "false_positives", "false_negatives"),
    *("total_gt_fields", "correct_fields"),
}
BLOCK_KEYS = {
    "performance": {
        *(f"latency_ms.{name}" for name in ("n", "p50", "p95", "mean")),
        *(
            f"latency_breakdown_ms.{stage}.{name}"
            for stage in ("folder_selection", "retrieval", "generation", "judge")
            for name in ("n", "p50", "p95", "mean")
        ),
        *("total_suite_ms", "judge_tokens", "judge_cost"),
    },
    "judge_coverage": {"groundedness_n", "correctness_n", "inconsistent_n", "uncited_fives"},
    "judge_reliability": {"disagreement_rate", "spot_check_n"},
    "extraction": {
        *(
            f"{average}.{rate}"
            for average in ("macro", "micro", "macro_strict", "micro_strict")
            for rate in RATES
        ),
        *("total_true_positives", "total_false_positives", "total_false_negatives", "eval_count"),
        *("target", "target_met"),
    },
    "indexing": {
        *("docs_processed", "docs_with_0_chunks", "no_chunks_generated_rate", "chunks_attempted"),
        *("chunks_embedded", "chunks_skipped", "chunks_skipped_context_rate", "skip_reasons.context_limit"),
        *(f"tokens_per_chunk.{name}" for name in ("min", "max", "mean", "p95")),
        *(f"index_version_info.{name}" for name in ("chunker_version", "embedding_model", "index_version")),
        *(f"by_doc_type.{kind}.docs_processed" for kind in ("markdown", "code", "pdf")),
    },
}

Document = Mapping[str, Any]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    with working_in(demo_once(tmp_path_factory) / EXAMPLE):
        return load_settings()


@pytest.fixture(scope="module")
def registry(settings: Settings) -> Registry:
    return load_registry(settings)


@pytest.fixture(scope="module")
def documents(settings: Settings, registry: Registry) -> dict[str, Document]:
    with open_reader(settings.db) as con:
        runs = [run_id for (run_id,) in con.execute("select run_id from raw.runs").fetchall()]
    return {run_id: show_run(project_of(settings, registry), run_id) for run_id in runs}


def values_in(block: Any, path: str = "") -> Iterator[str]:
    """The dotted places of everything in a block that is not null."""
    if isinstance(block, Mapping):
        for name, value in block.items():
            yield from values_in(value, f"{path}.{name}" if path else str(name))
    elif block is not None:
        yield path


def test_every_key_over_queries_has_a_value_in_some_run(
    documents: Mapping[str, Document], registry: Registry
) -> None:
    assert registry.keys().keys() >= QUERY_KEYS
    valued = {
        key
        for document in documents.values()
        for key, entry in document["metrics"].items()
        if entry["value"] is not None
    }
    assert registry.keys().keys() - valued == OF_JUDGED_LABELS
    assert valued >= QUERY_KEYS


@pytest.mark.parametrize("block", BLOCK_KEYS)
def test_every_key_of_a_run_level_block_has_a_value_in_some_run(
    block: str, documents: Mapping[str, Document]
) -> None:
    valued = {place for document in documents.values() for place in values_in(document[block])}
    assert BLOCK_KEYS[block] - valued == set()


def test_every_key_of_extraction_cases_and_fields_has_a_value(documents: Mapping[str, Document]) -> None:
    blocks = [document["extraction"] for document in documents.values() if document["extraction"]]
    for block in blocks:
        assert all(case.keys() == CASE_KEYS for case in block["cases"].values())
        assert all(None not in case.values() for case in block["cases"].values())
    accuracies = [entry["accuracy"] for block in blocks for entry in block["fields"].values()]
    assert any(0 < accuracy < 1 for accuracy in accuracies if accuracy is not None)
    assert {block["target_met"] for block in blocks} == {True, False}


def test_what_only_shows_when_something_is_wrong_shows_somewhere(
    documents: Mapping[str, Document],
) -> None:
    assert any(document["judge_config_problems"] for document in documents.values())
    assert any(document["judge_coverage"]["inconsistent_n"] for document in documents.values())
    assert any(
        (document["judge_reliability"]["disagreement_rate"] or 0) > 0.2 for document in documents.values()
    )
    assert any(
        document["failed_queries"] and document["missing_query_ids"] for document in documents.values()
    )


def test_every_slice_dimension_has_values_beside_the_unlabelled(documents: Mapping[str, Document]) -> None:
    for dimension, values in documents[BEST]["slices"].items():
        assert len(values.keys() - {"(none)"}) >= 2, dimension


def test_two_runs_of_one_chunker_show_wins_losses_and_regressions(
    settings: Settings, registry: Registry
) -> None:
    document = compare(project_of(settings, registry), BEFORE, AFTER)
    assert document["deltas"]["chunker_version_match"] == "exact"
    for kind in ("win", "draw", "rank_up", "rank_down", "not_applicable"):
        assert document["counts"][kind], kind
    back = compare(project_of(settings, registry), AFTER, BEFORE)
    assert back["counts"]["loss"] and back["counts"]["regressions"]
    assert any(entry["regressed_chunk_ids"] for entry in back["per_query"])
    assert any(document["deltas"][key] for key in ("hit@5", "mrr"))


def test_two_chunkers_are_compared_by_document_and_span(settings: Settings, registry: Registry) -> None:
    document = compare(project_of(settings, registry), AFTER, OTHER_CHUNKER)
    assert document["deltas"]["chunker_version_match"] == "fallback_doc_span"
    found = document["fallback_metrics"]
    for key in (*(f"hit@{k}" for k in KS), "mrr"):
        assert None not in (found["a"][key], found["b"][key], found["deltas"][key]), key
