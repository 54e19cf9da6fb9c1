"""Every per-query number on cases small enough to be worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from .metrics import METRIC_KEYS, score_query

Row = dict[str, Any]
HITS = ["x", "a", "a", "b"]


def score(
    golden: Row | None = None,
    result: Row | None = None,
    *,
    config: Row | None = None,
    archives: list[Row] | None = None,
    **readings: Any,
) -> Row:
    golden = {"query_id": "q", **(golden or {})}
    result = {"query_id": "q", **(result or {})}
    return score_query(golden, result, run_config=config, archive_states=archives or [], readings=readings)


def anchor(rel_path: str, heading: Any = None, **more: Any) -> Row:
    return {"rel_path": rel_path, "heading_path": heading, **more}


def hit(rel_path: str, heading: Any = None, **more: Any) -> Row:
    return {"chunk_id": "c", "doc_id": "d", "rel_path": rel_path, "heading_path": heading, **more}


def test_an_empty_query_has_every_key_and_only_the_rates_over_all_results_apply() -> None:
    scores = score()
    assert tuple(scores) == METRIC_KEYS
    assert {key: value for key, value in scores.items() if value is not None} == {
        "error_rate": 0.0,
        "timeout_rate": 0.0,
        "empty_response_rate": 0.0,
        "empty_result_rate": 1.0,
    }


def test_hit_mrr_and_chunk_overlap_by_hand() -> None:
    scores = score({"expected_chunk_ids": ["b", "a", "b", "z"]}, {"hits_top_k": HITS})
    assert [scores[f"hit@{k}"] for k in (1, 3, 5, 10)] == [0.0, 1.0, 1.0, 1.0]
    assert scores["mrr"] == 0.5
    assert (scores["chunk_recall"], scores["chunk_precision"]) == (2 / 3, 2 / 3)


@pytest.mark.parametrize(("before", "value"), [(0, 1.0), (2, 1 / 3), (None, 0.0)])
def test_reciprocal_rank_is_one_over_the_first_matching_rank(before: int | None, value: float) -> None:
    hits = ["x"] * 5 if before is None else [*["x"] * before, hit("n.md")]
    scores = score({"expected_chunk_ids": ["c"], "gold_supports": [anchor("n.md")]}, {"hits_top_k": hits})
    assert scores["mrr"] == scores["mrr_anchor"] == value


def test_rank_eleven_is_not_found_by_mrr_but_is_by_anchor_mrr() -> None:
    golden = {"expected_chunk_ids": ["c"], "gold_supports": [anchor("n.md")]}
    scores = score(golden, {"hits_top_k": [*["x"] * 10, hit("n.md")]})
    assert (scores["mrr"], scores["hit@10"], scores["mrr_anchor"]) == (0.0, 0.0, 1 / 11)
    assert scores["chunk_recall"] == 1.0
    cut = score(golden, {"hits_top_k": [*["x"] * 10, hit("n.md")]}, mrr_anchor_cutoff=10)
    assert cut["mrr_anchor"] == 0.0


def test_position_wins_over_the_rank_field() -> None:
    hits = [{"chunk_id": "x", "doc_id": "x", "rank": 2}, {"chunk_id": "a", "doc_id": "x", "rank": 1}]
    assert score({"expected_chunk_ids": ["a"]}, {"hits_top_k": hits})["mrr"] == 0.5


def test_document_recall_looks_at_the_documents_of_the_top_hits() -> None:
    golden = {"expected_doc_ids": ["a", "b", "b"]}
    scores = score(golden, {"hits_top_k": HITS})
    assert [scores[f"recall@{k}_doc"] for k in (1, 3, 5, 10)] == [0.0, 0.5, 1.0, 1.0]
    assert score(golden, {"hits_top_k": HITS}, dedupe_hits=True)["recall@3_doc"] == 1.0


def test_an_error_row_is_scored_as_stored_unless_excluded() -> None:
    golden = {"expected_chunk_ids": ["a"], "gold_supports": [anchor("n.md")]}
    failed = {"error": "boom"}
    assert (score(golden, failed)["hit@1"], score(golden, failed)["recall_any@1"]) == (0.0, 0.0)
    assert score(golden, {"timed_out": True}, retrieval_error="exclude")["hit@1"] is None


def test_span_metrics_of_a_query_use_all_hits_and_the_document_of_the_hit() -> None:
    golden = {"ground_truth_spans": [{"doc_id": "d", "start": 0, "end": 100}]}
    hits = [
        {"chunk_id": "1", "doc_id": "d", "source_spans": [{"start": 0, "end": 25}]},
        {"chunk_id": "2", "doc_id": "d", "source_spans": [{"start": 0, "end": 100, "doc_id": "e"}]},
        "bare",
    ]
    scores = score(golden, {"hits_top_k": hits})
    assert (scores["span_recall"], scores["span_precision"], scores["span_iou"]) == (0.25, 0.2, 25 / 200)


def test_spans_of_no_length_are_labels_and_an_empty_list_is_none() -> None:
    without_length = {"ground_truth_spans": [{"doc_id": "d", "start": 3, "end": 3}]}
    assert score(without_length)["span_recall"] == 1.0
    assert score({"ground_truth_spans": []})["span_recall"] is None
    assert score({"ground_truth_spans": []}, s0_vacuous="include")["span_recall"] == 1.0


@pytest.mark.parametrize(
    ("gold", "found", "matches"),
    [
        ("Intro", "Intro", True),
        ("Intro", "Intro > Setup", True),
        ("Intro > Setup", "Intro", False),
        ("Intro", "Introduction", False),
        ("Intro", "intro", False),
        ("Intro>Setup", ["Intro", "Setup", "Linux"], True),
        ("Intro > Setup", "  # Intro\u00a0 >## Setup ", True),
        (["Intro > Setup"], "Intro > > Setup", True),
        ("Intro  Setup", "Intro\tSetup", True),
        ("##", "Anything", True),
        (None, None, True),
        ("Intro", None, False),
        ("C# notes", "C# notes", True),
        ("caf\u00e9", "cafe\u0301", False),
    ],
)
def test_headings_match_by_leading_segments(gold: Any, found: Any, matches: bool) -> None:
    scores = score({"gold_supports": [anchor("n.md", gold)]}, {"hits_top_k": [hit("n.md", found)]})
    assert scores["recall_any@1"] == float(matches)


def test_the_other_heading_readings() -> None:
    golden, result = (
        {"gold_supports": [anchor("n.md", "Intro")]},
        {"hits_top_k": [hit("n.md", "Introduction")]},
    )
    assert score(golden, result, heading_prefix="string")["recall_any@1"] == 1.0
    marked = {"hits_top_k": [hit("n.md", "# Intro")]}
    assert score(golden, marked, strip_heading_markers=False)["recall_any@1"] == 0.0


def test_the_path_must_be_equal_and_a_hit_without_one_matches_nothing() -> None:
    golden = {"gold_supports": [anchor("n.md")]}
    assert score(golden, {"hits_top_k": [hit("N.md"), "n.md"]})["recall_any@10"] == 0.0


def test_snippets_count_only_when_asked_for_and_are_waived_without_text() -> None:
    golden = {"gold_supports": [anchor("n.md", snippets=["red", "blue"])]}
    one, none = hit("n.md", text="a blue one"), hit("n.md", text="Blue")
    assert score(golden, {"hits_top_k": [none]})["recall_any@1"] == 1.0
    assert score(golden, {"hits_top_k": [none]}, require_snippets=True)["recall_any@1"] == 0.0
    assert score(golden, {"hits_top_k": [one]}, require_snippets=True)["recall_any@1"] == 1.0
    assert (
        score(golden, {"hits_top_k": [one]}, require_snippets=True, snippet_rule="all")["recall_any@1"] == 0.0
    )
    assert score(golden, {"hits_top_k": [hit("n.md")]}, require_snippets=True)["recall_any@1"] == 1.0


def multi_hop(groups: list[list[int]]) -> Row:
    supports = [anchor("a.md"), anchor("b.md"), anchor("c.md")]
    return {"gold_supports": supports, "required_support_groups": groups, "multi_hop": True}


def test_a_half_retrieved_multi_hop_scores_zero() -> None:
    scores = score(multi_hop([[0, 1], [2]]), {"hits_top_k": [hit("a.md"), hit("x.md"), hit("b.md")]})
    assert [scores[f"recall_all@{k}"] for k in (1, 3)] == [0.0, 1.0]
    assert scores["recall_any@1"] == 1.0


@pytest.mark.parametrize(
    ("paths", "any_group", "every_group", "everything"),
    [("c", 1.0, 0.0, 0.0), ("ac", 1.0, 1.0, 0.0), ("abc", 1.0, 1.0, 1.0), ("ab", 1.0, 0.0, 0.0)],
)
def test_the_three_readings_of_support_groups(
    paths: str, any_group: float, every_group: float, everything: float
) -> None:
    result = {"hits_top_k": [hit(f"{path}.md") for path in paths]}
    readings = {"any_group": any_group, "every_group": every_group, "all": everything}
    for reading, value in readings.items():
        assert score(multi_hop([[0, 1], [2]]), result, support_groups=reading)["recall_all@3"] == value


def test_recall_all_needs_the_flag_or_the_category_and_groups() -> None:
    plain = {**multi_hop([[0]]), "multi_hop": None}
    assert score(plain)["recall_all@1"] is None
    assert score({**plain, "category": "multi_hop"})["recall_all@1"] == 0.0
    assert score(multi_hop([]))["recall_all@1"] is None


def test_precision_divides_by_k_and_counts_duplicates() -> None:
    golden = multi_hop([[0]])
    result = {"hits_top_k": [hit("a.md"), hit("a.md"), hit("b.md"), hit("x.md")]}
    scores = score(golden, result)
    assert [scores[f"precision@{k}"] for k in (1, 3, 5, 10)] == [1.0, 1.0, 0.6, 0.3]
    assert score(golden, result, precision_denominator="retrieved")["precision@10"] == 0.75
    assert score(golden, result, precision_multi_hop="required_only")["precision@5"] == 0.4
    assert score(golden, {}, precision_denominator="retrieved")["precision@5"] == 0.0


def test_anchor_metrics_are_not_applicable_to_unanswerable_or_unlabelled_queries() -> None:
    supports = {"gold_supports": [anchor("n.md")]}
    result = {"hits_top_k": [hit("n.md")]}
    assert score({**supports, "answerable": False}, result)["recall_any@1"] is None
    assert score({**supports, "expected_doc_ids": []}, result)["mrr_anchor"] is None
    assert score({**supports, "expected_doc_ids": [], "answerable": True}, result)["mrr_anchor"] == 1.0
    assert score({"gold_supports": []}, result)["precision@1"] is None


@pytest.mark.parametrize(
    ("selected", "missed"),
    [
        (["work/health"], 0.0),
        (["work"], 0.0),
        (["work/"], 0.0),
        (["."], 0.0),
        ([""], 0.0),
        (["work/heal"], 1.0),
        (["Work"], 1.0),
        (["elsewhere", "work"], 0.0),
        ([], 1.0),
        (None, None),
    ],
)
def test_a_scope_miss_leaves_every_support_outside(selected: list[str] | None, missed: float | None) -> None:
    golden = {"gold_supports": [anchor("work/health/plan.md"), anchor("far/away.md")]}
    result = {"folder_mode": "on_with_fallback", "selected_folders": selected}
    assert score(golden, result)["scope_miss_rate"] == missed


def test_scope_needs_a_folder_mode_and_takes_the_runs_when_the_row_has_none() -> None:
    golden = {"gold_supports": [anchor("n.md")]}
    assert score(golden, {"selected_folders": []})["scope_miss_rate"] is None
    assert score(golden, {"selected_folders": []}, config={"folder_mode": "on"})["scope_miss_rate"] == 1.0
    off = {"selected_folders": [], "folder_mode": "off"}
    assert score(golden, off, config={"folder_mode": "on"})["scope_miss_rate"] is None


def test_attribution_by_hand() -> None:
    golden = {"gold_supports": [anchor("n.md", "Intro")]}
    good = {"references": [{"rel_path": "n.md", "heading_path": "Intro > Deep"}]}
    assert score(golden, {"answer": good})["attribution_hit_rate"] == 1.0
    assert score(golden, {"answer": {"references": [{"rel_path": "n.md"}]}})["attribution_hit_rate"] == 0.0
    assert score(golden, {"answer": {}})["attribution_hit_rate"] == 0.0
    abstained, answered = {"answer": {**good, "abstained": True}}, {"attribution_rows": "answered"}
    assert score(golden, abstained)["attribution_hit_rate"] == 1.0
    assert score(golden, abstained, **answered)["attribution_hit_rate"] == 0.0
    assert score(golden, {"answer": good, "error": "late"})["attribution_hit_rate"] == 0.0
    assert score(golden, {"error": "late"})["attribution_hit_rate"] == 0.0
    assert score(golden, {})["attribution_hit_rate"] == 0.0
    assert score(golden, {}, **answered)["attribution_hit_rate"] is None


def conflict(rule: str, paths: str, *, acknowledged: bool | None = None) -> float | None:
    golden = {
        "category": "recency/conflict",
        "recency_conflict_rule": rule,
        "gold_supports": [
            anchor("o.md", recency="older"),
            anchor("n.md", recency="newer"),
            anchor("n.md", "B"),
        ],
    }
    references = [{"rel_path": f"{path}.md"} for path in paths]
    result = {
        "answer": {"references": references},
        "judge": {"conflict": {"acknowledged": acknowledged}},
    }
    value: float | None = score(golden, result)["recency_conflict_ok"]
    return value


def test_the_recency_rules() -> None:
    assert [conflict("cite_newer", paths) for paths in ("n", "on", "o", "")] == [1.0, 1.0, 0.0, 0.0]
    assert [conflict("cite_both", paths) for paths in ("n", "on", "o")] == [0.0, 1.0, 0.0]
    assert conflict("acknowledge_both", "on") is None
    assert conflict("acknowledge_both", "on", acknowledged=True) == 1.0
    assert conflict("acknowledge_both", "on", acknowledged=False) == 0.0
    assert conflict("acknowledge_both", "n", acknowledged=True) == 0.0


def test_cite_newer_without_a_newer_note_is_not_applicable() -> None:
    golden = {
        "category": "recency/conflict",
        "recency_conflict_rule": "cite_newer",
        "gold_supports": [anchor("o.md")],
    }
    assert score(golden, {"answer": {}})["recency_conflict_ok"] is None


@pytest.mark.parametrize("odd", [None, "4", True, -1, 5.1, 6, [], {}, float("nan")])
def test_a_score_that_is_no_number_from_zero_to_five_is_not_applicable(odd: Any) -> None:
    assert score({}, {"judge": {"groundedness": {"score": odd}}})["judge_groundedness"] is None


def test_judge_scores_are_kept_on_their_scale_and_ignored_on_errors() -> None:
    judge = {"groundedness": {"score": 4}, "correctness": {"score": 0}}
    scores = score({}, {"judge": judge})
    assert (scores["judge_groundedness"], scores["judge_correctness"]) == (4.0, 0.0)
    assert score({}, {"judge": judge, "timed_out": True})["judge_correctness"] is None


def test_abstention_prefers_the_explicit_flag_and_mirrors_hallucination() -> None:
    golden = {"answerable": False}
    judge = {"abstention": {"abstained": True}}
    explicit = score(golden, {"answer": {"abstained": False}, "judge": judge})
    assert (explicit["abstention_accuracy"], explicit["hallucination_rate_unanswerable"]) == (0.0, 1.0)
    assert score({"expected_doc_ids": []}, {"judge": judge})["abstention_accuracy"] == 1.0
    assert score(golden, {"answer": {"text": "I do not know"}})["abstention_accuracy"] is None
    assert score(golden, {"answer": {"abstained": True}, "error": "x"})["abstention_accuracy"] is None
    assert score({}, {"answer": {"abstained": True}})["abstention_accuracy"] is None


@pytest.mark.parametrize(
    ("result", "error", "timeout", "empty"),
    [
        ({"answer": {"text": "fine"}}, 0.0, 0.0, 0.0),
        ({"error": "500"}, 1.0, 0.0, 0.0),
        ({"timed_out": True, "error": "slow"}, 1.0, 1.0, 0.0),
        ({"answer": {"text": "\u3000\n"}}, 1.0, 0.0, 1.0),
        ({"answer": {"text": "\u200b"}}, 0.0, 0.0, 0.0),
        ({"answer": {"text": " ", "abstained": True}}, 1.0, 0.0, 1.0),
        ({"answer": None}, 0.0, 0.0, 0.0),
    ],
)
def test_failures_count_once(result: Row, error: float, timeout: float, empty: float) -> None:
    scores = score({}, result)
    assert (scores["error_rate"], scores["timeout_rate"], scores["empty_response_rate"]) == (
        error,
        timeout,
        empty,
    )


def cited(citations: Any, archives: list[Row], **readings: Any) -> float | None:
    result = {"answer": {"text": "t", "grounded": True, "citations": citations}}
    config = {"chunker_version": "v2"}
    value: float | None = score({}, result, config=config, archives=archives, **readings)["citation_coverage"]
    return value


def test_citations_resolve_against_every_archive_state() -> None:
    old = {"chunker_version": "v1", "lines": [{"chunk_id": "a", "doc_id": "d"}]}
    new = {"chunker_version": "v2", "lines": []}
    both = [{"citation": "a"}, {"citation": "b"}]
    assert cited([{"citation": "a"}], [old, new]) == 1.0
    assert cited([{"citation": "a"}], [old, new], citation_scope="run_version") == 0.0
    assert cited(both, [old, new]) == 0.0
    assert cited([{"citation": None}], [old]) == cited([{"citation": ""}], [old]) == 0.0
    assert cited([{"citation": "a"}], [new]) == 0.0
    assert cited([{"citation": "a"}], []) is None
    assert cited([], [old]) == cited(None, [old]) == 0.0
    assert cited([], [old], empty_citations="vacuous") == 1.0


def test_only_grounded_answers_without_error_have_citation_coverage() -> None:
    archives = [{"chunker_version": "v", "lines": []}]
    for answer in ({"grounded": False}, {}):
        assert score({}, {"answer": answer}, archives=archives)["citation_coverage"] is None
    failed = {"answer": {"grounded": True}, "error": "x"}
    assert score({}, failed, archives=archives)["citation_coverage"] is None


def test_demanded_and_forbidden_strings_are_exact() -> None:
    golden = {"must_contain": ["Stra\u00dfe", "1"], "forbidden": ["no"]}
    assert score(golden, {"answer": {"text": "Stra\u00dfe 1"}})["groundedness"] == 1.0
    assert score(golden, {"answer": {"text": "STRASSE 1"}})["groundedness"] == 0.0
    assert score(golden, {"answer": {"text": "STRASSE 1"}}, string_match="casefold")["groundedness"] == 1.0
    assert score(golden, {"answer": {"text": "Stra\u00dfe 1 not"}})["groundedness"] == 0.0
    assert score(golden, {"answer": {"text": "Stra\u00dfe 1"}, "error": "x"})["groundedness"] is None
    assert score({"must_contain": []}, {"answer": {"text": "x"}})["groundedness"] is None
    assert score({}, {"answer": {"text": "x"}}, unlabelled_groundedness="include")["groundedness"] == 1.0


def test_refusal_is_grounded_false_on_queries_labelled_with_no_document() -> None:
    golden: Row = {"expected_doc_ids": []}
    assert score(golden, {"answer": {"grounded": False}})["refusal_correctness"] == 1.0
    assert score(golden, {"answer": {"abstained": True}})["refusal_correctness"] == 0.0
    assert score(golden, {})["refusal_correctness"] is None
    assert score(golden, {"answer": {"grounded": False}, "error": "x"})["refusal_correctness"] is None
    assert score(golden, {}, refusal_no_answer="zero")["refusal_correctness"] == 0.0
    assert score({"expected_doc_ids": None}, {"answer": {"grounded": False}})["refusal_correctness"] is None
