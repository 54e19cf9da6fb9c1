"""Numbers and shapes that the requirements state word for word."""

from __future__ import annotations

import math

import pytest

from tests.situations.desk import Desk

SHIPS = (
    "aggregates.extraction_summary",
    "aggregates.latency_summary",
    "aggregates.run_metrics",
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
