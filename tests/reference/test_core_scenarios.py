"""Statements about the core evaluation that hold for a whole run, from the bundle to the public views."""

from __future__ import annotations

from typing import Any

import pytest

from eval_pipeline.settings import Settings
from eval_pipeline.showing.show import show_run
from tests.bundle_files import Row, ask, compute, derived_tables, load, settings_in, write_golden, write_run
from tests.projects import project_of

GOLD = {"rel_path": "notes/dome.md", "heading_path": "Dome > Shutter"}
FORMULAS = ("abstention", "hallucination", "failures", "anchor_any", "anchor_all", "hit_at_k")
COMPUTED = [f"aggregates.run_metrics:metrics.{name}" for name in FORMULAS]


def found_at(heading: str | list[str]) -> Row:
    return {"chunk_id": "c", "doc_id": "d", "rel_path": "notes/dome.md", "heading_path": heading}


LABELS: list[Row] = [
    {"query_id": "deeper", "gold_supports": [GOLD], "difficulty": "easy", "tags": ["code", "health"]},
    {"query_id": "reformatted", "gold_supports": [GOLD], "difficulty": "easy", "vault": "work"},
    {"query_id": "parent", "gold_supports": [GOLD], "category": "factual"},
    {
        "query_id": "half",
        "multi_hop": True,
        "gold_supports": [GOLD, {"rel_path": "notes/mirror.md", "heading_path": ""}],
        "required_support_groups": [[0, 1]],
    },
    *({"query_id": name, "answerable": False} for name in ("declined", "made-up", "unknown", "crashed")),
    {"query_id": "late"},
    {"query_id": "blank"},
]
RESULTS: list[Row] = [
    {"query_id": "deeper", "hits_top_k": [found_at(["Dome", "Shutter", "Grease"])]},
    {"query_id": "reformatted", "hits_top_k": [found_at("#  Dome>##Shutter  ")]},
    {"query_id": "parent", "hits_top_k": [found_at("Dome")]},
    {"query_id": "half", "hits_top_k": [found_at("Dome > Shutter")]},
    {"query_id": "declined", "hits_top_k": [], "answer": {"text": "I do not know.", "abstained": True}},
    {"query_id": "made-up", "hits_top_k": [], "answer": {"text": "Green.", "abstained": False}},
    {"query_id": "unknown", "hits_top_k": [], "answer": {"text": "Perhaps."}},
    {"query_id": "crashed", "hits_top_k": [], "error": "broken pipe"},
    {"query_id": "late", "hits_top_k": [], "error": "too slow", "timed_out": True},
    {"query_id": "blank", "hits_top_k": [], "answer": {"text": " \n"}},
]
JUDGED = {
    "groundedness": {"score": 3, "supported_claims": ["It shuts."], "unsupported_claims": ["It is green."]},
    "correctness": {"score": 4, "reasoning": "nearly"},
    "input": {"question": "What shuts?", "answer": "It shuts. It is green.", "context": ["Dome text"]},
}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("core")
    write_golden(folder / "bundle", LABELS)
    results = [{**row, "judge": JUDGED} if row["query_id"] == "half" else row for row in RESULTS]
    write_run(folder / "bundle", "run-1", results)
    settings = settings_in(folder)
    assert load(settings, folder / "bundle").problems == []
    compute(settings, definitions=COMPUTED)
    return settings


@pytest.fixture(scope="module")
def values(settings: Settings) -> dict[tuple[str, str], float | None]:
    return {
        (query, metric): value
        for query, metric, value in ask(settings, "select query_id, metric, value from per_query_metrics")
    }


@pytest.fixture(scope="module")
def document(settings: Settings) -> dict[str, Any]:
    return show_run(project_of(settings), "run-1")


def test_a_match_survives_deeper_chunking_and_other_formatting_and_needs_the_whole_gold_heading(
    values: dict[tuple[str, str], float | None],
) -> None:
    assert [values[name, "recall_any@1"] for name in ("deeper", "reformatted", "parent")] == [1, 1, 0]


def test_a_half_retrieved_multi_hop_has_any_and_not_all(
    values: dict[tuple[str, str], float | None],
) -> None:
    assert (values["half", "recall_any@10"], values["half", "recall_all@10"]) == (1, 0)
    assert values["deeper", "recall_all@10"] is None


def test_abstention_and_hallucination_are_each_others_inverse_and_undefined_together(
    values: dict[tuple[str, str], float | None],
) -> None:
    both = {
        name: (values[name, "abstention_accuracy"], values[name, "hallucination_rate_unanswerable"])
        for name in ("declined", "made-up", "unknown", "crashed", "deeper")
    }
    assert (both["declined"], both["made-up"]) == ((1, 0), (0, 1))
    assert {both[name] for name in ("unknown", "crashed", "deeper")} == {(None, None)}


def test_abstention_and_hallucination_of_a_run_add_up_to_one(document: dict[str, Any]) -> None:
    metrics = document["metrics"]
    assert (
        metrics["abstention_accuracy"] == metrics["hallucination_rate_unanswerable"] == {"value": 0.5, "n": 2}
    )


def test_a_case_is_one_error_however_it_failed_and_the_rates_are_over_all_results(
    document: dict[str, Any], values: dict[tuple[str, str], float | None]
) -> None:
    failed = {name for name in ("crashed", "late", "blank") if values[name, "error_rate"]}
    assert failed == {"crashed", "late", "blank"}
    assert document["metrics"]["error_rate"] == {"value": 0.3, "n": len(RESULTS)}
    assert document["metrics"]["timeout_rate"] == {"value": 0.1, "n": len(RESULTS)}
    assert document["metrics"]["empty_response_rate"] == {"value": 0.1, "n": len(RESULTS)}


def test_every_slice_has_its_own_denominator_and_unlabelled_queries_a_place(document: dict[str, Any]) -> None:
    slices = document["slices"]
    assert slices["difficulty"]["easy"]["metrics"]["recall_any@1"] == {"value": 1, "n": 2}
    assert slices["category"]["(none)"]["metrics"]["recall_any@1"] == {"value": 1, "n": 3}
    assert slices["vault"]["work"]["n_queries"] == 1
    assert {name: slices["tag"][name]["n_queries"] for name in ("code", "health")} == {"code": 1, "health": 1}
    assert {name: entry["n_queries"] for name, entry in slices["answerable"].items()} == {
        "answerable": 6,
        "unanswerable": 4,
    }


def test_what_the_judge_said_and_what_it_was_given_is_stored_to_be_asked_again(settings: Settings) -> None:
    (row,) = ask(
        settings,
        "select r.supported_claims, r.unsupported_claims, r.judge_groundedness, r.judge_correctness, why.text, t.text "
        "from raw.results r join raw.texts t on t.text_key = r.judge_input_key "
        "join raw.texts why on why.text_key = r.judge_reasoning_key",
    )
    assert row[:5] == (["It shuts."], ["It is green."], 3, 4, "nearly")
    for given in ("What shuts?", "It shuts. It is green.", "Dome text"):
        assert given in row[5]


def test_computing_again_from_what_is_stored_gives_the_same_numbers(settings: Settings) -> None:
    before = derived_tables(settings)
    compute(settings, reasons=None, force=True, definitions=COMPUTED, on=3)
    assert derived_tables(settings) == before
