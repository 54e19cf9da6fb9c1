"""Run documents and comparisons on cases small enough to be worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from .compare import StrictVersionRefused, compare
from .performance import judge_config_problems
from .runs import aggregate_json, per_query_lines, score_run

Row = dict[str, Any]
GOLDEN: list[Row] = [
    {"query_id": "q1", "expected_chunk_ids": ["a"], "tags": ["t", "t", "u"], "category": "factual"},
    {"id": "q2", "expected_chunk_ids": ["a"], "tags": [], "vaults": ["work", "personal"]},
    {"query_id": "q3", "expected_chunk_ids": ["a"], "answerable": False, "vault": "work"},
    {"query_id": "q4"},
]
RESULTS: list[Row] = [
    {"query_id": "ghost", "hits_top_k": ["a"], "error": "x", "latency_ms": {"total": 9999}},
    {"query_id": "q3", "hits_top_k": ["x", "y", "z", "a"], "latency_ms": {"total": 30, "retrieval": -1}},
    {"query_id": "q1", "hits_top_k": ["a"], "latency_ms": {"total": 10, "retrieval": 4}},
    {"query_id": "q2", "timed_out": True, "latency_ms": {"total": 20}},
]


def run(run_id: str = "r", **more: Any) -> Row:
    return {"run_id": run_id, "dataset": "d", **more}


def document(**more: Any) -> Row:
    return score_run(GOLDEN, RESULTS, run=run(), archives=[], **more)


def test_a_run_covers_the_golden_queries_that_have_a_result() -> None:
    shown = document()
    assert (shown["total_queries"], shown["failed_queries"]) == (3, 1)
    assert (shown["missing_query_ids"], shown["unknown_query_ids"]) == (["q4"], ["ghost"])
    assert shown["metrics"]["hit@1"] == {"value": 0.3333, "n": 3}
    assert shown["metrics"]["mrr"] == {"value": round((1 + 0 + 0.25) / 3, 4), "n": 3}
    assert shown["metrics"]["judge_groundedness"] == {"value": None, "n": 0}
    assert (shown["extraction"], shown["indexing"]) == (None, None)


def test_per_query_lines_come_in_golden_order_and_unrounded() -> None:
    lines = per_query_lines(GOLDEN, RESULTS, run=run(), archives=[])
    assert [line["query_id"] for line in lines] == ["q1", "q2", "q3"]
    assert [line["metrics"]["mrr"] for line in lines] == [1.0, 0.0, 0.25]


def test_slices_overlap_for_tags_and_vaults_and_have_a_bucket_for_the_unlabelled() -> None:
    slices = document()["slices"]
    sizes = {
        dimension: {v: s["n_queries"] for v, s in values.items()} for dimension, values in slices.items()
    }
    assert sizes == {
        "tag": {"(none)": 2, "t": 1, "u": 1},
        "category": {"(none)": 2, "factual": 1},
        "difficulty": {"(none)": 3},
        "vault": {"(none)": 1, "personal": 1, "work": 2},
        "answerable": {"answerable": 2, "unanswerable": 1},
    }
    assert slices["vault"]["work"]["metrics"]["mrr"] == {"value": 0.125, "n": 2}


def test_the_order_of_rows_changes_no_number() -> None:
    turned = score_run(GOLDEN[::-1], RESULTS[::-1], run=run(), archives=[])
    assert turned["metrics"] == document()["metrics"]
    assert turned["slices"] == document()["slices"]


def test_latency_counts_every_recorded_value_from_zero_on() -> None:
    performance = document()["performance"]
    assert performance["latency_ms"] == {"n": 3, "p50": 20, "p95": 29, "mean": 20}
    assert performance["latency_breakdown_ms"]["retrieval"] == {"n": 1, "p50": 4, "p95": 4, "mean": 4}
    assert performance["latency_breakdown_ms"]["judge"]["p95"] is None
    assert (performance["total_suite_ms"], performance["judge_tokens"], performance["judge_cost"]) == (
        60,
        0,
        None,
    )


def test_recorded_suite_time_and_prices_are_used() -> None:
    config = {"judge_price_per_1k": {"prompt": 0.5, "completion": 2}}
    results = [{"query_id": "q1", "judge": {"tokens": {"prompt": 3000, "completion": 250}}}]
    priced = score_run(GOLDEN, results, run=run(config=config, suite_time_ms=7.25), archives=[])[
        "performance"
    ]
    assert (priced["total_suite_ms"], priced["judge_tokens"], priced["judge_cost"]) == (7.25, 3250, 2.0)


def test_judge_coverage_counts_valid_scores_and_inconsistent_fives() -> None:
    def judged(query_id: str, score: Any, claims: list[str], **more: Any) -> Row:
        verdict = {"score": score, "unsupported_claims": claims}
        return {"query_id": query_id, "judge": {"groundedness": verdict}, **more}

    results = [judged("q1", 5, ["c"]), judged("q2", 5, ["c"], error="x"), judged("q3", "5", ["c"])]
    shown = score_run(GOLDEN, results, run=run(), archives=[])["judge_coverage"]
    assert shown == {"groundedness_n": 1, "correctness_n": 0, "inconsistent_n": 1, "uncited_fives": 0}


def test_a_five_for_an_answer_that_rests_on_nothing_is_counted() -> None:
    def five(query_id: str, answer: Row | None, **judge: Any) -> Row:
        return {"query_id": query_id, "answer": answer, "judge": {"groundedness": {"score": 5}, **judge}}

    results = [
        five("q1", {"text": "So it is."}),
        five("q2", {"text": "So it is.", "citations": ["c1"]}),
        five("q3", {"text": "I do not know."}, abstention={"abstained": True}),
    ]
    shown = score_run(GOLDEN, results, run=run(), archives=[])["judge_coverage"]
    assert shown["uncited_fives"] == 1


def pair(first: Row, second: Row) -> Row:
    return {"query_id": "q1", "first": first, "second": second}


def test_disagreement_is_more_than_one_point_or_another_boolean() -> None:
    checks = [
        pair({"score": 4}, {"score": 3}),
        pair({"score": 4}, {"score": 2}),
        pair({"score": 4, "binary": True}, {"score": 4, "binary": False}),
        pair({"binary": True}, {"binary": True, "score": 1}),
        pair({"score": 4}, {"binary": True}),
    ]
    reliability = document(spot_checks=checks)["judge_reliability"]
    assert reliability == {"disagreement_rate": 0.5, "spot_check_n": 4}
    assert document()["judge_reliability"] == {"disagreement_rate": None, "spot_check_n": 0}


def test_three_of_twenty_disagreeing_are_fifteen_per_cent() -> None:
    checks = [pair({"score": 5}, {"score": 3 if number < 3 else 4}) for number in range(20)]
    assert document(spot_checks=checks)["judge_reliability"] == {
        "disagreement_rate": 0.15,
        "spot_check_n": 20,
    }


def test_judge_settings_at_fault_are_named() -> None:
    good = {"model": "m", "version": "2026-01-01", "temperature": 0, "prompt_version": "p"}
    assert judge_config_problems({"judge": good}, judged_at_all=True) == []
    assert judge_config_problems(None, judged_at_all=False) == []
    bad = {**good, "version": "m-latest", "temperature": 0.1, "prompt_version": None}
    assert judge_config_problems({"judge": bad}, judged_at_all=True) == [
        "version 'm-latest' is a moving alias",
        "temperature is 0.1, not 0",
        "prompt_version is missing",
    ]
    assert judge_config_problems({"judge": {}}, judged_at_all=False)[0] == "model is missing"


def test_indexing_by_hand() -> None:
    docs = [
        {"doc_id": "1", "doc_type": "pdf", "n_chunks": 0},
        {"doc_id": "2", "doc_type": "pdf", "n_chunks": 3},
        {"doc_id": "3", "n_chunks": 1},
    ]
    chunks = [
        {"doc_id": "2", "status": "embedded", "tokens": 10},
        {"doc_id": "2", "status": "skipped", "skip_reason": "context_limit", "tokens": 30},
        {"doc_id": "9", "status": "skipped"},
    ]
    shown = document(index_report={"docs": docs, "chunks": chunks, "index_version": "i"})["indexing"]
    assert (shown["docs_processed"], shown["docs_with_0_chunks"]) == (3, 1)
    assert (shown["no_chunks_generated_rate"], shown["chunks_skipped_context_rate"]) == (0.3333, 0.3333)
    assert shown["skip_reasons"] == {"(none)": 1, "context_limit": 1}
    assert shown["tokens_per_chunk"] == {"min": 10, "max": 30, "mean": 20, "p95": 29}
    assert {name: part["chunks_attempted"] for name, part in shown["by_doc_type"].items()} == {
        "(none)": 1,
        "pdf": 2,
    }
    assert shown["by_doc_type"]["pdf"]["no_chunks_generated_rate"] == 0.5
    assert document(index_report={})["indexing"]["no_chunks_generated_rate"] is None


def test_the_stored_aggregate_is_nested_and_complete() -> None:
    assert aggregate_json(GOLDEN, RESULTS, run=run(), archives=[]) == {
        "hit_at_k": {"1": 0.3333, "3": 0.3333, "5": 0.6667, "10": 0.6667},
        "mrr": 0.4167,
        "recall_at_k_doc": {"1": None, "3": None, "5": None, "10": None},
        "citation_coverage": None,
        "groundedness": None,
        "empty_result_rate": 0.3333,
        "refusal_correctness": None,
        "total_queries": 3,
        "failed_queries": 1,
    }


def compared(
    hits_a: list[Any],
    hits_b: list[Any],
    *,
    golden: Row,
    versions: tuple[str | None, str | None] = ("v1", "v1"),
    archives: list[Row] | None = None,
    **more: Any,
) -> Row:
    runs = [run(f"run-{v}", config={"chunker_version": v}) for v in versions]
    return compare(
        runs[0],
        runs[1],
        golden_rows=[{"query_id": "q", **golden}],
        results_a=[{"query_id": "q", "hits_top_k": hits_a}],
        results_b=[{"query_id": "q", "hits_top_k": hits_b}],
        archives=archives or [],
        **more,
    )


@pytest.mark.parametrize(
    ("hits_a", "hits_b", "kind", "ranks", "regressed"),
    [
        (["x"], ["x", "a"], "win", (None, 2), []),
        (["a"], [], "loss", (1, None), ["a"]),
        (["a", "b"], ["a", "b"], "draw", (1, 1), []),
        (["x"], ["y"], "draw", (None, None), []),
        (["x", "a"], ["a"], "rank_up", (2, 1), []),
        (["a", "b"], ["x", "b"], "rank_down", (1, 2), ["a"]),
        (["a"], ["b"], "draw", (1, 1), ["a"]),
        (["x", "a"], ["b"], "rank_up", (2, 1), ["a"]),
        ([*["x"] * 10, "a"], ["a"], "win", (None, 1), []),
    ],
)
def test_kinds_ranks_and_regressions(
    hits_a: list[str],
    hits_b: list[str],
    kind: str,
    ranks: tuple[int | None, int | None],
    regressed: list[str],
) -> None:
    report = compared(hits_a, hits_b, golden={"expected_chunk_ids": ["b", "a"]})
    row = report["per_query"][0]
    assert (row["kind"], (row["a_hit_rank"], row["b_hit_rank"])) == (kind, ranks)
    assert (row["regressed_chunk_ids"], row["regression"]) == (regressed, bool(regressed))
    assert (report["counts"][kind], report["counts"]["regressions"]) == (1, len(regressed))


def test_the_other_readings_of_kinds() -> None:
    golden = {"expected_chunk_ids": ["a", "b"]}
    up: dict[str, Any] = {"golden": golden, "hits_a": ["x", "a"], "hits_b": ["b"]}
    assert compared(**up, readings={"rank_change": "win_loss"})["counts"]["win"] == 1
    assert compared(**up, readings={"rank_change": "draw"})["counts"]["draw"] == 1
    exclusive = compared(**up, readings={"regression_kind": "exclusive"})
    assert (exclusive["per_query"][0]["kind"], exclusive["counts"]["rank_up"]) == ("regression", 0)
    assert compared(**up, readings={"compare_k": 1})["counts"]["win"] == 1


def test_queries_without_a_pair_or_without_labels_are_outside_the_counts() -> None:
    golden: list[Row] = [
        {"query_id": "q1", "expected_chunk_ids": []},
        {"query_id": "z"},
        {"query_id": "B"},
        {"query_id": "b"},
    ]
    a = [{"query_id": query_id} for query_id in ("b", "q1", "B", "ghost")]
    b = [{"query_id": "q1", "error": "x"}, {"query_id": "z"}]
    report = compare(run("a"), run("b"), golden_rows=golden, results_a=a, results_b=b, archives=[])
    assert (report["only_in_a"], report["only_in_b"]) == (["B", "b"], ["z"])
    assert [row["query_id"] for row in report["per_query"]] == ["q1"]
    assert report["per_query"][0]["note"] == "error in b"
    assert report["counts"]["not_applicable"] == 1


def test_deltas_are_of_rounded_values_and_null_where_a_side_is_undefined() -> None:
    report = compared(["x", "x", "a"], ["x", "a"], golden={"expected_chunk_ids": ["a"]})
    assert report["deltas"]["chunker_version_match"] == "exact"
    assert report["deltas"]["mrr"] == 0.1667  # 0.5 - 0.3333
    assert report["deltas"]["hit@1"] == 0.0
    assert report["deltas"]["groundedness"] is None
    assert report["fallback_metrics"] is None


def piece(chunk_id: str, start: int, end: int, *, doc_id: str = "doc") -> Row:
    return {"chunk_id": chunk_id, "doc_id": doc_id, "source_spans": [{"start": start, "end": end}]}


ARCHIVE = [{"chunker_version": "v1", "lines": [piece("a", 0, 100)]}]


@pytest.mark.parametrize(
    ("hit", "found"),
    [
        (piece("new", 0, 100), True),
        (piece("new", 50, 150), True),
        (piece("new", 51, 151), False),
        (piece("new", 90, 110), True),
        (piece("new", 91, 111), False),
        (piece("new", 0, 1000), True),
        (piece("new", 0, 100, doc_id="other"), False),
        (piece("new", 5, 5), False),
        # Without spans, those of the inventory of the run's chunker.
        ({"chunk_id": "a", "doc_id": "doc"}, True),
        ("a", True),
    ],
)
def test_across_chunkers_a_hit_needs_half_of_the_smaller_chunk(hit: Any, found: bool) -> None:
    report = compared(
        [hit], [], golden={"expected_chunk_ids": ["a"]}, versions=("v1", "v2"), archives=ARCHIVE
    )
    assert report["deltas"]["chunker_version_match"] == "fallback_doc_span"
    assert report["per_query"][0]["kind"] == ("loss" if found else "draw")
    assert report["fallback_metrics"]["a"] == {
        **dict.fromkeys(["hit@1", "hit@3", "hit@5", "hit@10", "mrr"], float(found)),
        "n": 1,
    }


@pytest.mark.parametrize(
    ("basis", "found"), [("min", True), ("hit", True), ("expected", False), ("iou", False)]
)
def test_the_other_overlap_bases(basis: str, found: bool) -> None:
    golden = {"expected_chunk_ids": ["a"]}
    report = compared(
        [piece("new", 0, 40)],
        [],
        golden=golden,
        versions=("v1", "v2"),
        archives=ARCHIVE,
        readings={"overlap_basis": basis},
    )
    assert report["counts"]["loss"] == int(found)


def test_two_quarters_do_not_add_up_to_a_half() -> None:
    hits = [piece("new", 0, 25), piece("new2", 75, 100)]
    golden = {"expected_chunk_ids": ["a"]}
    report = compared(
        hits,
        [],
        golden=golden,
        versions=("v1", None),
        archives=ARCHIVE,
        readings={"overlap_basis": "expected"},
    )
    assert report["counts"]["draw"] == 1


def test_frozen_spans_win_and_the_newest_archive_state_counts() -> None:
    states = [{"chunker_version": "v1", "lines": [piece("a", 500, 600)]}, *ARCHIVE]
    old_place, new_place = [piece("n", 500, 600)], [piece("n", 0, 100)]
    golden: Row = {"expected_chunk_ids": ["a"]}
    arguments: dict[str, Any] = {"versions": ("v1", "v2"), "archives": states}
    assert compared(old_place, new_place, golden=golden, **arguments)["counts"]["win"] == 1
    frozen = {**golden, "expected_chunk_spans": {"a": [{"doc_id": "doc", "start": 500, "end": 600}]}}
    assert compared(old_place, new_place, golden=frozen, **arguments)["counts"]["loss"] == 1


def test_without_spans_a_query_is_not_comparable_and_with_no_documents_nothing_matches() -> None:
    same = [piece("a", 0, 100)]
    unknown = compared(
        same, [], golden={"expected_chunk_ids": ["b"]}, versions=("v1", "v2"), archives=ARCHIVE
    )
    assert unknown["per_query"][0]["kind"] == "not_comparable"
    assert unknown["fallback_metrics"]["a"]["n"] == 0
    assert unknown["fallback_metrics"]["deltas"]["mrr"] is None
    golden = {"expected_chunk_ids": ["a"], "expected_doc_ids": []}
    assert compared(same, [], golden=golden, versions=("v1", "v2"), archives=ARCHIVE)["counts"]["draw"] == 1


@pytest.mark.parametrize("hit", [{"chunk_id": "new", "doc_id": "doc"}, "new"])
def test_a_hit_with_unknown_characters_makes_a_query_not_comparable(hit: Any) -> None:
    arguments: dict[str, Any] = {
        "golden": {"expected_chunk_ids": ["a"]},
        "versions": ("v1", "v2"),
        "archives": ARCHIVE,
    }
    assert compared([piece("a", 0, 100)], [hit], **arguments)["per_query"][0]["kind"] == "not_comparable"


def test_strict_mode_refuses_differing_or_missing_versions() -> None:
    golden = {"expected_chunk_ids": ["a"]}
    for versions in (("v1", "v2"), ("v1", None), (None, None)):
        with pytest.raises(StrictVersionRefused):
            compared([], [], golden=golden, versions=versions, strict_chunker_version=True)
    assert compared([], [], golden=golden, strict_chunker_version=True)["counts"]["draw"] == 1


def test_causes_come_from_the_configuration_in_a_fixed_order() -> None:
    a = run("a", config={"chunker_version": "1", "prompt_version": "p", "embedding_model": "e"})
    b = run("b", config={"chunker_version": "2", "embedding_model": "e"})
    report = compare(
        a, b, golden_rows=GOLDEN, results_a=[{"query_id": "q1"}], results_b=[{"query_id": "q1"}], archives=[]
    )
    assert report["causes"] == ["chunker version diff", "prompt diff"]
    assert report["per_query"][0]["note"] == "chunker version diff; prompt diff"


def test_common_scope_leaves_out_the_queries_of_one_run() -> None:
    golden = [{"query_id": query_id, "expected_chunk_ids": ["a"]} for query_id in ("1", "2")]
    a = [{"query_id": "1", "hits_top_k": ["a"]}, {"query_id": "2", "hits_top_k": ["x"]}]
    b = [{"query_id": "1", "hits_top_k": ["a"]}]
    for scope, delta in (("own", 0.5), ("common", 0.0)):
        report = compare(
            run("a"),
            run("b"),
            golden_rows=golden,
            results_a=a,
            results_b=b,
            archives=[],
            readings={"delta_scope": scope},
        )
        assert report["deltas"]["hit@1"] == delta
