"""Latency, judge and indexing from the delivered files to what `show` says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from eval_pipeline.loading.quarantine import find_quarantine
from eval_pipeline.showing.blocks import judge_config_problems
from tests.computing.building import (
    Row,
    blocks_of,
    settings_in,
    taken_in,
    write_golden,
    write_run,
)
from tests.projects import project_of

QUERIES = [f"q{number}" for number in range(1, 21)]
GOOD_JUDGE = {"model": "judge", "version": "2026-01-01", "temperature": 0, "prompt_version": "p1"}


def timed(query_id: str, total: float | None, **more: Any) -> Row:
    return {"query_id": query_id, "latency_ms": {"total": total}, **more}


def judged(query_id: str, score: Any, **more: Any) -> Row:
    return {"query_id": query_id, "judge": {"groundedness": {"score": score, **more}}}


def pair(first: Any, second: Any) -> Row:
    return {"query_id": "q1", "first": first, "second": second}


LATENCIES = [
    timed("q1", 10),
    timed("q2", 20, error="no connection"),
    timed("q3", 30, timed_out=True),
    timed("q4", -5),
    timed("q5", None),
    {"query_id": "q6"},
    timed("unknown", 9999),
]
RUNS: dict[str, Row] = {
    "latencies": {"results": LATENCIES},
    "shuffled": {"results": LATENCIES[::-1]},
    "recorded-suite": {"results": LATENCIES, "suite_time_ms": 12.5},
    "stages": {
        "results": [
            {"query_id": "q1", "latency_ms": {"retrieval": 4, "judge": 0}},
            {"query_id": "q2", "latency_ms": {"retrieval": 6, "generation": 0.00004}},
        ]
    },
    "huge": {"results": [timed("q1", 1e300), timed("q2", 1e308), timed("q3", 1.7e308)]},
    "tokens": {
        "results": [
            {"query_id": "q1", "judge": {"tokens": {"prompt": 3000, "completion": 250}}},
            {"query_id": "q2", "error": "late", "judge": {"tokens": {"prompt": 1000}}},
        ],
        "config": {"judge": GOOD_JUDGE, "judge_price_per_1k": {"prompt": 0.5, "completion": 2}},
    },
    "half-a-price": {
        "results": [{"query_id": "q1", "judge": {"tokens": {"prompt": 3000, "completion": 250}}}],
        "config": {"judge_price_per_1k": {"prompt": 0.5}},
    },
    "judge": {
        "results": [
            judged("q1", 5, unsupported_claims=["c"], supported_claims=[]),
            judged("q2", 5, unsupported_claims=[]),
            judged("q3", "5", unsupported_claims=["c"]),
            judged("q4", 5.5, unsupported_claims=["c"]),
            {**judged("q5", 5, unsupported_claims=["c"]), "error": "late"},
            {"query_id": "q6", "judge": {"correctness": {"score": 0}}},
        ]
    },
    "no-judge": {"results": [{"query_id": "q1", "judge": {"groundedness": {}}}]},
    "empty-judge": {"results": [], "config": {"judge": {}}},
    "three-of-twenty": {
        "spot_checks": [pair({"score": 5}, {"score": 3 if number < 3 else 4}) for number in range(20)]
    },
    "odd-checks": {
        "spot_checks": [
            pair({"score": 4}, {"score": 2.5, "binary": True}),
            pair({"score": 4, "binary": True}, {"score": 4, "binary": False}),
            pair({"score": "4"}, {"score": 1}),
            pair({"score": True}, {"score": 5}),
            pair({"score": 9}, {"score": 1}),
            pair({"score": None, "binary": True}, {"binary": True}),
            {"first": {"score": 1}, "second": {"score": 1}},
            {"query_id": "q9"},
        ]
    },
    "indexed": {
        "index_report": {
            "docs": [
                {"doc_id": "a", "doc_type": "pdf", "n_chunks": 0},
                {"doc_id": "b", "doc_type": "pdf", "n_chunks": 3},
                {"doc_id": "c", "n_chunks": 1},
                {"n_chunks": 0},
            ],
            "chunks": [
                {"doc_id": "b", "status": "embedded", "tokens": 10},
                {"doc_id": "b", "status": "skipped", "skip_reason": "context_limit", "tokens": 30},
                {"doc_id": "not listed", "status": "skipped"},
                {"status": "skipped", "skip_reason": "too short", "tokens": 1},
            ],
            "index_version": "index-7",
        }
    },
    "empty-report": {"index_report": {}},
    "bad-report": {
        "results": [timed("q1", 7)],
        "index_report": {"docs": [{"doc_id": "a", "n_chunks": "many"}]},
    },
    "nothing": {},
}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Mapping[str, Any], list[Row]]:
    """Run → its blocks, and what was quarantined."""
    folder = tmp_path_factory.mktemp("runs")
    write_golden(folder, QUERIES)
    for run_id, parts in RUNS.items():
        write_run(folder, run_id, **parts)
    settings = settings_in(folder)
    _, registry = taken_in(settings, folder)
    return {run_id: blocks_of(settings, registry, run_id) for run_id in RUNS}, find_quarantine(
        project_of(settings)
    )


@pytest.fixture(scope="module")
def shown(loaded: tuple[Mapping[str, Any], list[Row]]) -> Mapping[str, Any]:
    return loaded[0]


def test_every_recorded_latency_of_a_golden_query_counts_failures_too(shown: Mapping[str, Any]) -> None:
    performance = shown["latencies"]["performance"]
    assert performance["latency_ms"] == {"n": 3, "p50": 20, "p95": 29, "mean": 20}
    assert performance["total_suite_ms"] == 60
    assert shown["recorded-suite"]["performance"]["total_suite_ms"] == 12.5


def test_the_order_of_the_results_changes_no_number_of_a_run(shown: Mapping[str, Any]) -> None:
    assert shown["shuffled"] == shown["latencies"]


def test_the_stages_are_told_apart(shown: Mapping[str, Any]) -> None:
    performance = shown["stages"]["performance"]
    undefined = {"n": 0, "p50": None, "p95": None, "mean": None}
    assert performance["latency_breakdown_ms"] == {
        "folder_selection": undefined,
        "retrieval": {"n": 2, "p50": 5, "p95": 5.9, "mean": 5},
        "generation": {"n": 1, "p50": 0, "p95": 0, "mean": 0},
        "judge": {"n": 1, "p50": 0, "p95": 0, "mean": 0},
    }
    assert performance["latency_ms"] == undefined
    assert performance["total_suite_ms"] is None


def test_latencies_too_large_for_a_sum_leave_it_undefined(shown: Mapping[str, Any]) -> None:
    performance = shown["huge"]["performance"]
    assert (performance["latency_ms"]["n"], performance["latency_ms"]["p50"]) == (3, 1e308)
    assert (performance["latency_ms"]["mean"], performance["total_suite_ms"]) == (None, None)


def test_tokens_cost_what_the_run_says_and_nothing_without_a_price(shown: Mapping[str, Any]) -> None:
    priced, half = shown["tokens"]["performance"], shown["half-a-price"]["performance"]
    assert (priced["judge_tokens"], priced["judge_cost"]) == (4250, 2.5)
    assert (half["judge_tokens"], half["judge_cost"]) == (3250, None)
    free = shown["nothing"]["performance"]
    assert (free["judge_tokens"], free["judge_cost"]) == (0, None)


def test_only_valid_scores_are_covered_and_a_full_score_with_unsupported_claims_is_flagged(
    shown: Mapping[str, Any],
) -> None:
    assert shown["judge"]["judge_coverage"] == {
        "groundedness_n": 2,
        "correctness_n": 1,
        "inconsistent_n": 1,
        "uncited_fives": 0,
    }


def test_three_disagreements_in_twenty_checks_are_fifteen_per_cent(shown: Mapping[str, Any]) -> None:
    found = shown["three-of-twenty"]["judge_reliability"]
    assert (found["disagreement_rate"], found["spot_check_n"]) == (0.15, 20)
    # The first side always gives the same score, which agrees with the second no better than chance.
    assert found["kappa_low"] < found["kappa"] == 0 < found["kappa_high"]


def test_a_pair_without_a_common_verdict_leaves_the_spot_check(shown: Mapping[str, Any]) -> None:
    assert shown["odd-checks"]["judge_reliability"] == {"disagreement_rate": 0.5, "spot_check_n": 4}
    assert shown["nothing"]["judge_reliability"] == {"disagreement_rate": None, "spot_check_n": 0}


def test_a_judge_is_looked_at_where_it_is_configured_or_was_used(shown: Mapping[str, Any]) -> None:
    all_missing = [f"{name} is missing" for name in ("model", "version", "temperature", "prompt_version")]
    assert shown["tokens"]["judge_config_problems"] == []
    assert shown["nothing"]["judge_config_problems"] == []
    assert shown["no-judge"]["judge_config_problems"] == []
    assert shown["judge"]["judge_config_problems"] == all_missing
    assert shown["empty-judge"]["judge_config_problems"] == all_missing


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ({"temperature": 0.3}, "temperature is 0.3, not 0"),
        ({"temperature": None}, "temperature is missing"),
        ({"version": "latest"}, "version 'latest' is a moving alias"),
        ({"version": "judge-v2:Latest"}, "version 'judge-v2:Latest' is a moving alias"),
        ({"version": " "}, "version is missing"),
        ({"prompt_version": ""}, "prompt_version is missing"),
        ({"model": None}, "model is missing"),
    ],
)
def test_each_setting_of_the_judge_that_can_drift_is_named(setting: Row, problem: str) -> None:
    assert judge_config_problems({"judge": GOOD_JUDGE | setting}, is_judged=True) == [problem]


@pytest.mark.parametrize("version", ["2026-01-01", "sha256:0a1b", "latest-but-pinned-1", "v3"])
def test_a_pinned_version_is_no_problem(version: str) -> None:
    assert judge_config_problems({"judge": GOOD_JUDGE | {"version": version}}, is_judged=False) == []


def test_indexing_counts_documents_chunks_and_reasons(shown: Mapping[str, Any]) -> None:
    indexing = shown["indexed"]["indexing"]
    assert (indexing["docs_processed"], indexing["docs_with_0_chunks"]) == (4, 2)
    assert indexing["no_chunks_generated_rate"] == 0.5
    assert (indexing["chunks_attempted"], indexing["chunks_embedded"], indexing["chunks_skipped"]) == (
        4,
        1,
        3,
    )
    assert indexing["skip_reasons"] == {"(none)": 1, "context_limit": 1, "too short": 1}
    assert indexing["chunks_skipped_context_rate"] == 0.25
    assert indexing["tokens_per_chunk"] == {"min": 1, "max": 30, "mean": 13.6667, "p95": 28}
    assert indexing["index_version_info"] == {
        "chunker_version": None,
        "embedding_model": None,
        "index_version": "index-7",
    }


def test_indexing_by_type_has_the_keys_of_the_whole(shown: Mapping[str, Any]) -> None:
    indexing = shown["indexed"]["indexing"]
    by_type = indexing["by_doc_type"]
    assert list(by_type) == ["(none)", "pdf"]
    for part in by_type.values():
        assert [*part, "by_doc_type"] == list(indexing)
    assert [part["chunks_attempted"] for part in by_type.values()] == [2, 2]
    assert [part["no_chunks_generated_rate"] for part in by_type.values()] == [0.5, 0.5]


def test_an_empty_report_has_zero_counts_and_undefined_rates(shown: Mapping[str, Any]) -> None:
    indexing = shown["empty-report"]["indexing"]
    assert (indexing["docs_processed"], indexing["chunks_attempted"], indexing["skip_reasons"]) == (0, 0, {})
    assert (indexing["no_chunks_generated_rate"], indexing["chunks_skipped_context_rate"]) == (None, None)
    assert set(indexing["tokens_per_chunk"].values()) == {None}
    assert indexing["by_doc_type"] == {}
    assert shown["nothing"]["indexing"] is None


def test_a_report_with_a_wrong_value_is_quarantined_and_its_run_goes_on(
    loaded: tuple[Mapping[str, Any], list[Row]],
) -> None:
    shown, quarantined = loaded
    assert shown["bad-report"]["indexing"] is None
    assert shown["bad-report"]["performance"]["latency_ms"]["n"] == 1
    assert [(row["run_id"], row["field"]) for row in quarantined] == [("bad-report", "docs[0].n_chunks")]
