"""Numbers and shapes that the requirements state word for word."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

import eval_pipeline
from eval_pipeline import metrics
from tests.situations.desk import Desk

SHIPS = (
    "aggregates.extraction_summary",
    "aggregates.latency_summary",
    "aggregates.run_metrics",
    "aggregates.slice_performance",
    "facts.found_chunks",
    "metrics.answer_strings",
    "metrics.attribution",
    "metrics.citation_coverage",
    "metrics.extraction",
    "metrics.hit_at_k",
    "metrics.judge_scores",
    "metrics.judge_usage",
    "metrics.latency",
    "metrics.recall_at_k_doc",
    "metrics.reciprocal_rank",
    "metrics.refusal_correctness",
)


def answered(query_id: str, **answer: object) -> dict[str, object]:
    return {"query_id": query_id, "hits_top_k": ["a"], "answer": {"text": "30 days", **answer}}


def test_one_line_gives_the_literal_wording_of_three_metrics(desk: Desk) -> None:
    desk.inventory("c1", [{"chunk_id": "a", "doc_id": "d"}])
    desk.golden(
        [
            {"query_id": "cites", "must_contain": ["30"]},
            {"query_id": "cites nothing", "must_contain": ["31"]},
            {"query_id": "demands nothing"},
            {"query_id": "refused", "expected_doc_ids": []},
            {"query_id": "failed", "expected_doc_ids": []},
            {"query_id": "without an answer", "expected_doc_ids": []},
        ]
    )
    desk.run(
        "night",
        [
            answered("cites", grounded=True, citations=[{"citation": "a"}]),
            answered("cites nothing", grounded=True),
            answered("demands nothing", grounded=True, citations=[{"citation": "gone"}]),
            answered("refused", grounded=False),
            {"query_id": "failed", "error": "no connection"},
            {"query_id": "without an answer", "hits_top_k": ["a"]},
        ],
    )
    desk.text("eval-pipeline.toml", "[variants]\nliteral = true\n")
    desk.load()
    # "Every citation" holds for two of three grounded answers: one cites a chunk, one cites nothing.
    assert desk.value("night", "citation_coverage") == round(2 / 3, 4)
    # Of four answers only the one that lacks "31" fails; two have no text to contain.
    assert desk.value("night", "groundedness") == 3 / 4
    # One of three queries that should be refused was refused.
    assert desk.value("night", "refusal_correctness") == round(1 / 3, 4)


def test_attribution_counts_any_matching_reference_of_every_answerable_question(desk: Desk) -> None:
    support = {"gold_supports": [{"rel_path": "a.md"}]}
    desk.golden([{"query_id": name, **support} for name in ("abstains", "silent", "right", "wrong")])
    matching = {"references": [{"rel_path": "a.md"}]}
    desk.run(
        "night",
        [
            answered("abstains", abstained=True, **matching),
            {"query_id": "silent", "hits_top_k": ["a"]},
            answered("right", **matching),
            answered("wrong", references=[{"rel_path": "b.md"}]),
        ],
    )
    desk.run("retrieval", [{"query_id": "right", "hits_top_k": ["a"]}])
    desk.load()
    assert desk.per_query("night", "attribution_hit_rate") == {
        "abstains": 1.0,
        "silent": 0.0,
        "right": 1.0,
        "wrong": 0.0,
    }
    assert desk.value("retrieval", "attribution_hit_rate") is None


def test_a_five_without_any_citation_counts_as_four(desk: Desk) -> None:
    desk.golden([{"query_id": name} for name in ("cited", "uncited", "abstains", "three")])
    judged = {"judge": {"groundedness": {"score": 5}}}
    desk.run(
        "night",
        [
            answered("cited", citations=[{"citation": "a"}]) | judged,
            answered("uncited") | judged,
            answered("abstains", abstained=True) | judged,
            answered("three") | {"judge": {"groundedness": {"score": 3}}},
        ],
    )
    desk.load()
    assert desk.per_query("night", "judge_groundedness") == {
        "cited": 5.0,
        "uncited": 4.0,
        "abstains": 5.0,
        "three": 3.0,
    }
    assert desk.value("night", "judge_groundedness") == (5 + 4 + 5 + 3) / 4


CAMEL_CASE = (
    *("chunkRecall", "chunkPrecision", "chunkF1", "mergeOverlappingSpans"),
    *("spanRecall", "spanPrecision", "spanIoU", "calculateOverlap"),
)


def test_the_names_of_the_requirements_are_public() -> None:
    assert set(CAMEL_CASE) <= set(dir(metrics))
    assert set(CAMEL_CASE) <= set(metrics.__all__)


def test_the_ground_truth_is_taken_by_the_name_of_the_requirements() -> None:
    # One of two expected chunks is retrieved; half of one hundred characters are covered.
    assert metrics.chunk_recall.calculate(["a"], groundTruth=["a", "b"]) == 0.5
    truth, found = metrics.CharacterSpan("d", 0, 100), metrics.CharacterSpan("d", 0, 50)
    assert metrics.span_recall.calculate([found], groundTruth=[truth]) == 0.5
    with pytest.raises(TypeError, match="groundTruth"):
        metrics.chunk_recall.calculate(["a"])


@pytest.fixture(scope="module")
def pair(shared_desk: Desk) -> Desk:
    """Two runs of two questions; the second run finds one chunk more, at the first rank."""
    shared_desk.golden(
        [
            {"query_id": "q1", "expected_chunk_ids": ["a"], "tags": ["hr"], "category": "factual"},
            {"query_id": "q2", "expected_chunk_ids": ["b"], "tags": ["it"], "category": "factual"},
        ]
    )
    times = {"total": 300, "retrieval": 40, "generation": 200, "folder_selection": 10, "judge": 50}
    tokens = {"judge": {"tokens": {"prompt": 1000, "completion": 500}}}
    slow = {"latency_ms": {"total": 500}, "judge": {"tokens": {"prompt": 2000, "completion": 0}}}
    config = {"judge_price_per_1k": {"prompt": 0.01, "completion": 0.02}}
    cases = [
        {"case_id": "large", "ground_truth": dict.fromkeys("abcdefgh", 1), "extracted": {"a": 1}},
        {"case_id": "small", "ground_truth": {"a": 1, "b": 2}, "extracted": {"a": 1, "b": 2}},
    ]
    for run_id, first, created in (("a", "b", "2026-09-01"), ("b", "a", "2026-09-02")):
        results = [
            {"query_id": "q1", "hits_top_k": [first], "latency_ms": times, **tokens},
            {"query_id": "q2", "hits_top_k": ["b"], **slow},
        ]
        folder = shared_desk.run(
            run_id, results, suite="nightly", created_at=f"{created}T02:00:00Z", config=config
        )
        text = "".join(json.dumps(case) + "\n" for case in cases)
        (folder / "extractions.jsonl").write_text(text, "utf-8")
    shared_desk.load()
    return shared_desk


def test_deltas_are_also_read_by_the_keys_of_aggregate_json(pair: Desk) -> None:
    deltas = eval_pipeline.compare_runs("a", "b", db=pair.folder / "data" / "eval.duckdb")["deltas"]
    (row,) = pair.must("query", "select aggregate_json from runs where run_id = 'b'", "--json").json
    # The first run finds one of two chunks, the second run both.
    assert json.loads(row["aggregate_json"])["hit_at_k"]["1"] == 1.0
    assert deltas["hit_at_k"] == {"1": 0.5, "3": 0.5, "5": 0.5, "10": 0.5}
    assert deltas["hit@1"] == deltas["mrr"] == 0.5
    assert deltas["recall_at_k_doc"]["1"] is None


def test_an_undefined_number_is_stored_as_null(desk: Desk) -> None:
    desk.run("night", [{"query_id": "q", "hits_top_k": ["a"]}])
    desk.load()
    db = desk.folder / "data" / "eval.duckdb"
    aggregate = eval_pipeline.compute_aggregate("night", db=db)
    eval_pipeline.store_aggregate("night", {**aggregate, "citation_coverage": float("nan")}, db=db)
    (row,) = desk.must("query", "select aggregate_json from runs", "--json").json
    assert json.loads(row["aggregate_json"])["citation_coverage"] is None


def test_latency_and_judge_cost_are_shown_by_tag_and_category(pair: Desk) -> None:
    slices = pair.must("show", "a", "--json").json["slices"]
    hr, factual = slices["tag"]["hr"]["performance"], slices["category"]["factual"]["performance"]
    assert (hr["n"], hr["p50_ms"], hr["p95_ms"]) == (1, 300, 300)
    # 1,000 tokens read for 0.01 and 500 written for 0.02 per 1,000.
    assert (hr["judge_tokens"], hr["judge_cost"]) == (1500, 0.02)
    # 300 and 500 ms: the median lies in the middle, the 95th percentile at 95 % of the way.
    assert (factual["p50_ms"], factual["p95_ms"]) == (400, 490)
    assert factual["judge_cost"] == 0.04


def test_the_five_times_of_a_test_are_shown_per_query(pair: Desk) -> None:
    times = {
        "latency_total_ms": 300,
        "latency_folder_selection_ms": 10,
        "latency_retrieval_ms": 40,
        "latency_generation_ms": 200,
        "latency_judge_ms": 50,
    }
    lines = [json.loads(line) for line in pair.must("show", "a", "--per-query").stdout.splitlines()]
    (first,) = [line["metrics"] for line in lines if line["query_id"] == "q1"]
    assert {key: first.get(key) for key in times} == times
    assert {key: pair.per_query("a", key).get("q1") for key in times} == times


@pytest.fixture(scope="module")
def site(pair: Desk) -> dict[str, str]:
    """The pages of the site by their title."""
    pair.must("report", "--site", "site")
    texts = [path.read_text("utf-8") for path in (pair.folder / "site").rglob("*.html")]
    return {
        text.partition("<title>")[2].partition("</title>")[0]: text.replace("<wbr>", "") for text in texts
    }


def test_the_page_of_a_question_shows_its_times(site: dict[str, str]) -> None:
    (page,) = [text for title, text in site.items() if title.startswith("q1 ")]
    assert "latency_generation_ms" in page
    for value in ("300.0000", "200.0000", "50.0000", "40.0000", "10.0000"):
        assert f">{value}<" in page


def test_the_page_of_a_suite_shows_macro_and_micro_f1(site: dict[str, str]) -> None:
    # One of eight fields and two of two are right: the mean of the F1s, and the F1 of the pooled counts.
    (page,) = [text for title, text in site.items() if title.startswith("nightly")]
    macro = (2 * (1 / 8) / (1 + 1 / 8) + 1) / 2
    micro = 2 * (3 / 10) / (1 + 3 / 10)
    assert f"{macro:.4f}" in page and "extraction.macro_f1" in page
    assert f"{micro:.4f}" in page and "extraction.micro_f1" in page


SCALES = {
    "groundedness": (
        "5: All claims directly supported by context AND all major claims have citations",
        "4: Most claims supported with citations, minor unsupported details",
        "3: Some claims supported, some unsupported, or missing citations",
        "2: Major claims unsupported or missing citations",
        "1: Answer contradicts context",
        "0: Answer has no relation to context",
    ),
    "correctness": (
        "5: Answer is fully correct and complete",
        "4: Answer is mostly correct with minor issues",
        "3: Answer is partially correct",
        "2: Answer has significant errors",
        "1: Answer is mostly incorrect",
        "0: Answer is completely wrong",
    ),
}


@pytest.mark.parametrize("ask", SCALES)
def test_judges_read_the_full_scale(ask: str) -> None:
    prompt = files("eval_pipeline.evaluating").joinpath("prompts", f"{ask}.md").read_text("utf-8")
    assert "\n".join(SCALES[ask]) in prompt
