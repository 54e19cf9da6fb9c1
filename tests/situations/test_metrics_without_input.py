"""Metrics whose input no hit or answer of a run carries, and labels and citations that mean something else."""

from __future__ import annotations

import pytest

from tests.situations.desk import Desk

SHIPS = (
    "aggregates.run_metrics",
    "metrics.citation_coverage",
    "metrics.hit_at_k",
    "metrics.hit_at_k_span",
    "metrics.ndcg",
    "metrics.recall_at_k_doc",
    "metrics.refusal_correctness",
    "metrics.span_overlap",
)


@pytest.fixture(scope="module")
def bare(shared_desk: Desk) -> Desk:
    """A TREC run and its qrels; and a run of bare ids without spans, whose answers do not mention grounds."""
    shared_desk.text("night.run", "q1 Q0 a1 1 2.0 t\nq1 Q0 a2 2 1.0 t\nq2 Q0 b9 1 1.0 t\n")
    shared_desk.text("night.qrels", "q1 0 a1 1\nq2 0 b1 1\n")
    shared_desk.must("load", "night.run", "night.qrels", "--dataset", "trec")
    span = {"doc_id": "guide.md", "start": 0, "end": 10}
    shared_desk.golden(
        [
            {"query_id": "q1", "expected_chunk_ids": ["g1"], "expected_doc_ids": ["guide.md"]}
            | {"ground_truth_spans": [span]},
            {"query_id": "q2", "expected_doc_ids": []},
        ]
    )
    answer = {"text": "I do not know"}
    shared_desk.run(
        "bare", [{"query_id": "q1", "hits_top_k": ["g1", "g2"]}, {"query_id": "q2", "answer": answer}]
    )
    shared_desk.run("failed", [{"query_id": "q1", "hits_top_k": [], "error": "no connection"}])
    shared_desk.run(
        "some",
        [
            {"query_id": "q1", "hits_top_k": [{"chunk_id": "g2", "doc_id": "guide.md"}]},
            {"query_id": "q2", "answer": answer | {"grounded": False}},
            {"query_id": "q3", "hits_top_k": [{"chunk_id": "h", "doc_id": "h.md"} | SPANS]},
        ],
    )
    shared_desk.load()
    return shared_desk


SPANS = {"source_spans": [{"start": 0, "end": 5}]}


def reasons(desk: Desk, run_id: str) -> dict[str, str]:
    return dict(desk.must("show", run_id, "--json").json["undefined"])


def test_a_run_of_bare_ids_has_no_document_recall(bare: Desk) -> None:
    # The first hit is the expected chunk. No hit names guide.md, so document recall is unknown and not 0.
    assert bare.value("bare", "hit@1") == 1.0
    assert bare.value("bare", "recall@5_doc") is None
    assert "no hit names a document" in reasons(bare, "bare")["recall@5_doc"]


def test_document_recall_of_a_trec_run_is_not_chunk_recall_under_another_name(bare: Desk) -> None:
    # One of two queries finds its id; that is hit@5, and the file names no documents.
    assert bare.value("night", "hit@5") == 0.5
    assert bare.value("night", "recall@5_doc") is None


def test_hits_without_spans_have_no_span_metrics(bare: Desk) -> None:
    assert bare.value("bare", "span_iou") is None
    assert bare.value("bare", "hit@5_span") is None
    assert reasons(bare, "bare")["span_iou"] == "no hit has spans"


def test_refusals_are_unknown_if_no_answer_says_whether_it_is_grounded(bare: Desk) -> None:
    assert bare.value("bare", "refusal_correctness") is None
    assert reasons(bare, "bare")["refusal_correctness"] == "no answer says whether it is grounded"


def test_fields_that_some_hits_and_answers_carry_still_count_for_the_others(bare: Desk) -> None:
    # The only hit of q1 has no span, a hit of q3 has one; the document is found, and q2 is refused.
    assert bare.value("some", "span_iou") == 0.0
    assert bare.value("some", "recall@5_doc") == 1.0
    assert bare.value("some", "refusal_correctness") == 1.0


def test_a_run_in_which_everything_failed_keeps_its_zeros(bare: Desk) -> None:
    assert bare.value("failed", "recall@5_doc") == 0.0
    assert bare.value("failed", "span_iou") == 0.0
