"""Metrics whose input no hit or answer of a run carries, and labels and citations that mean something else."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

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


def load_files(desk: Desk, *words: str) -> str:
    """Load files of other tools and compute without Dagster; returns what the command prints."""
    output = desk.must("load", *words, "--dataset", "kb")
    (desk.folder / "bundle" / "datasets").mkdir(parents=True, exist_ok=True)
    desk.load()
    return output.text


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


# A run in the form of LangSmith's files, whose hits name a chunk and its document.
def experiment_row(query: str, *hits: tuple[str, str]) -> dict[str, object]:
    documents = [{"id": chunk, "doc_id": doc} for chunk, doc in hits]
    return {
        "inputs.question": query,
        "outputs.answer": "yes",
        "outputs.retrieved": documents,
        "example_id": query,
        "execution_time": 1.0,
        "id": f"run of {query}",
    }


@pytest.fixture
def with_documents(desk: Desk) -> Desk:
    rows = [
        experiment_row("q1", ("g-1", "guide"), ("t-1", "tips")),
        experiment_row("q2", ("t-2", "tips")),
    ]
    desk.lines("night.jsonl", rows)
    return desk


def test_labels_that_are_chunk_ids_expect_no_documents(with_documents: Desk) -> None:
    # q1 finds its chunk; none of the labels is a document, so document recall is unknown and not 0.
    with_documents.text("chunks.qrels", "q1 0 g-1 1\nq2 0 g-2 1\n")
    load_files(with_documents, "night.jsonl", "chunks.qrels", "--run-id", "n")
    assert with_documents.value("n", "hit@5") == 0.5
    assert with_documents.value("n", "recall@5_doc") is None


def test_labels_that_are_document_ids_expect_no_chunks(with_documents: Desk) -> None:
    # q1 finds guide and q2 does not; no chunk is called guide, so chunk metrics are unknown and not 0.
    with_documents.text("documents.qrels", "q1 0 guide 1\nq2 0 guide 2\n")
    printed = load_files(with_documents, "night.jsonl", "documents.qrels", "--run-id", "n")
    assert with_documents.value("n", "recall@5_doc") == 0.5
    assert with_documents.value("n", "hit@5") is None
    assert with_documents.value("n", "ndcg@5") is None
    assert "expected ids are documents of the hits" in printed


def test_labels_delivered_after_the_run_are_of_the_kind_of_its_hits(with_documents: Desk) -> None:
    with_documents.must("load", "night.jsonl", "--dataset", "kb", "--run-id", "n")
    with_documents.text("documents.qrels", "q1 0 guide 1\nq2 0 guide 1\n")
    load_files(with_documents, "documents.qrels")
    assert with_documents.value("n", "recall@5_doc") == 0.5
    assert with_documents.value("n", "hit@5") is None


PROMPTFOO_ROW = {
    "promptIdx": 0,
    "testIdx": 0,
    "success": True,
    "provider": {"id": "p"},
    "vars": {"question": "How many days?", "query_id": "q1"},
    "testCase": {"vars": {"question": "How many days?"}},
    "response": {"output": "30", "metadata": {"retrieved": ["leave.md#1", "it/vpn.md#0"]}},
    "gradingResult": None,
}


def test_the_document_of_a_hit_is_found_by_one_rule_in_files_of_every_form(desk: Desk) -> None:
    # leave.md is expected beside de/urlaub.md, and a chunk of leave.md is retrieved: half of the documents.
    desk.golden(
        [{"query_id": "q1", "expected_chunk_ids": ["leave.md#0"]} | DOCUMENTS],
        dataset="kb",
    )
    desk.load()
    desk.lines("a.jsonl", [PROMPTFOO_ROW])
    desk.text("b.run", "q1 Q0 leave.md#1 1 2.0 t\nq1 Q0 it/vpn.md#0 2 1.0 t\n")
    desk.text("c.csv", "query_id,chunk_id,rank\nq1,leave.md#1,1\nq1,it/vpn.md#0,2\nq1,plain,3\n")
    for file in ("a.jsonl", "b.run", "c.csv"):
        printed = load_files(desk, file, "--run-id", file[0])
        assert desk.value(file[0], "recall@5_doc") == 0.5
        assert "the part of the chunk id before the last '#'" in printed


DOCUMENTS = {"expected_doc_ids": ["leave.md", "de/urlaub.md"]}


def knowledge_base(desk: Desk, *citations: list[dict[str, object]]) -> None:
    """A knowledge base's database: one run whose answers cite with objects, and the chunks of its index."""
    with closing(sqlite3.connect(desk.folder / "kb.sqlite")) as con, con:
        con.execute(
            "create table eval_runs (run_id, suite, config_snapshot_json, aggregate_json, commit_hash, created_at)"
        )
        con.execute("create table eval_query_results (run_id, query_id, result_json)")
        con.execute(
            "insert into eval_runs values ('first', 'kb', ?, null, 'abc', '2026-11-01T02:00:00Z')",
            [json.dumps({"chunker_version": "md@1"})],
        )
        for number, cited in enumerate(citations, start=1):
            hit = {"rank": 1, "chunk_id": "8f3a", "doc_id": "77c2", "doc_path": "notes/leave.md"}
            answer = {"answer": "30 days", "grounded": True, "citations": cited}
            row = {"query_id": f"q{number}", "hits_top_k": [hit], "answer": answer, "elapsed_ms": 5}
            con.execute(
                "insert into eval_query_results values ('first', ?, ?)", [f"q{number}", json.dumps(row)]
            )
        con.execute(
            "create table chunks (chunk_id, doc_id, heading_path_json, source_spans_json, chunker_version)"
        )
        con.execute("insert into chunks values ('8f3a', '77c2', '[]', '[]', 'md@1')")


LEAVE = {"kind": "line", "path": "notes/leave.md", "start": 12, "end": 20}
GONE = {"kind": "line", "path": "notes/gone.md", "start": 1, "end": 2}


def test_citations_of_a_knowledge_base_are_found_by_the_path_of_their_document(desk: Desk) -> None:
    # The document of q1 is in the index; one of the two that q2 cites is not; q3 cites with a marker around it.
    knowledge_base(desk, [LEAVE], [LEAVE, GONE], [{"marker": "[1]", "citation": LEAVE}])
    load_files(desk, "kb.sqlite")
    assert desk.per_query("first", "citation_coverage") == {"q1": 1.0, "q2": 0.0, "q3": 1.0}


def test_unrecognized_citations_are_undefined_and_counted(desk: Desk) -> None:
    # Nothing in q1's citation says what is cited; q2 has one that is found beside two that are not recognized.
    unknown = {"kind": "web", "url": "https://example.com"}
    knowledge_base(desk, [unknown], [LEAVE, unknown, {"page": 3}])
    load_files(desk, "kb.sqlite")
    assert set(desk.per_query("first", "citation_coverage").values()) <= {None}
    assert desk.value("first", "citation_coverage") is None
    findings = desk.must("query", "select finding from lint where run_id = 'first'", "--json").json
    assert "3 citations of 2 queries" in findings[0]["finding"]


def test_the_aggregate_to_write_back_has_no_zero_for_unrecognized_citations(desk: Desk) -> None:
    knowledge_base(desk, [{"kind": "web", "url": "https://example.com"}])
    load_files(desk, "kb.sqlite")
    (row,) = desk.must("query", "select aggregate_json from runs", "--json").json
    assert json.loads(row["aggregate_json"])["citation_coverage"] is None
