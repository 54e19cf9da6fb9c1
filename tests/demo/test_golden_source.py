from __future__ import annotations

import json
import math

import pytest
import yaml

from bench.demo.build import GOLDEN_HEADER
from bench.demo.chunkers import BY_HEADING, BY_WINDOW, by_heading, by_window
from bench.demo.corpus import CORPUS_FOLDER, Document, read_corpus
from bench.demo.golden import GOLDEN_FILE, GoldenSourceError, read_questions
from eval_pipeline.demo import BUNDLE_FOLDER
from eval_pipeline.demo.chunks import Chunk
from eval_pipeline.demo.retriever import RetrieverSettings, build_index, search


def corpus_text(doc_id: str) -> str:
    (path,) = CORPUS_FOLDER.glob(f"{doc_id}.*")
    return path.read_text(encoding="utf-8")


# ------------------------------------------------------------------ the golden set


def test_the_golden_set_says_what_an_empty_list_of_documents_means(golden):
    text = (BUNDLE_FOLDER / "datasets/handbook/queries.yaml").read_text(encoding="utf-8")
    assert text.startswith(GOLDEN_HEADER)
    assert "expected_doc_ids: []" in GOLDEN_HEADER and "refuse" in GOLDEN_HEADER
    assert any("expected_doc_ids" not in row for row in golden)
    for row in golden:
        if row.get("expected_doc_ids") == []:
            assert row["answerable"] is False and "expected_chunk_ids" not in row


def test_spans_of_the_golden_set_quote_the_corpus_exactly(golden):
    source = {entry["query_id"]: entry for entry in yaml.safe_load(GOLDEN_FILE.read_text(encoding="utf-8"))}
    checked = 0
    for row in golden:
        quoted = [
            corpus_text(span["doc_id"])[span["start"] : span["end"]]
            for span in row.get("ground_truth_spans", [])
        ]
        passages = source[row["query_id"]].get("passages", [])
        assert quoted == [passage["quote"] for passage in passages if not passage.get("support_only")]
        checked += len(quoted)
    assert len(golden) >= 60 and checked >= 60


def test_some_spans_come_out_wrong_when_counted_in_utf_16(golden):
    spans = [span for row in golden for span in row.get("ground_truth_spans", [])]
    moved = [
        span for span in spans if max(corpus_text(span["doc_id"])[: span["start"]], default="") > "\uffff"
    ]
    assert moved


def test_archived_chunks_quote_the_corpus_exactly(archives):
    assert sorted(archives) == [BY_HEADING, BY_WINDOW]
    for archive in archives.values():
        for chunk in archive.values():
            pieces = [
                corpus_text(chunk["doc_id"])[span["start"] : span["end"]] for span in chunk["source_spans"]
            ]
            assert chunk["text"] == "\n".join(pieces)


def test_expected_chunks_are_those_that_hold_a_quotation(golden, archives):
    for row in golden:
        for span in row.get("ground_truth_spans", []):
            quote = corpus_text(span["doc_id"])[span["start"] : span["end"]]
            holding = {
                chunk["chunk_id"]
                for chunk in archives[BY_HEADING].values()
                if chunk["doc_id"] == span["doc_id"] and quote in chunk["text"]
            }
            assert holding and holding <= set(row["expected_chunk_ids"])
        assert len(row.get("expected_chunk_ids", [])) <= len(row.get("ground_truth_spans", []))


def test_frozen_spans_are_those_of_the_archive(golden, archives):
    frozen = [item for row in golden for item in row.get("expected_chunk_spans", {}).items()]
    assert len(frozen) >= 3
    assert all(archives[BY_HEADING][chunk_id]["source_spans"] == spans for chunk_id, spans in frozen)


def test_headings_of_supports_lead_to_an_expected_chunk_however_they_are_written(golden, archives):
    def segments(heading):
        text = heading if isinstance(heading, str) else " > ".join(heading)
        parts = [" ".join(part.split()).lstrip("#").strip() for part in text.split(">")]
        return [part for part in parts if part]

    for row in golden:
        expected = [archives[BY_HEADING][chunk_id] for chunk_id in row.get("expected_chunk_ids", [])]
        reached = [
            (chunk["chunk_id"], index)
            for chunk in expected
            for index, support in enumerate(row["gold_supports"])
            if support["rel_path"] == chunk["rel_path"]
            and segments(chunk["heading_path"])[: len(segments(support["heading_path"]))]
            == segments(support["heading_path"])
        ]
        assert {chunk_id for chunk_id, _ in reached} == set(row.get("expected_chunk_ids", []))
        snippets = [text for support in row.get("gold_supports", []) for text in support.get("snippets", [])]
        assert all(any(text in chunk["text"] for chunk in expected) for text in snippets)


def test_every_label_of_the_contract_occurs(golden):
    labels = (
        "query_id query lang group expected_chunk_ids expected_doc_ids expected_chunk_spans must_contain forbidden "
        "answerable gold_supports required_support_groups multi_hop recency_conflict_rule ground_truth_spans "
        "category difficulty tags vault vaults folders reference"
    )
    assert {label for row in golden for label in row} == set(labels.split())
    supports = [support for row in golden for support in row.get("gold_supports", [])]
    assert {key for support in supports for key in support} == {
        "rel_path",
        "heading_path",
        "snippets",
        "recency",
    }
    assert {support.get("recency") for support in supports} == {"newer", "older", None}
    assert {type(support["heading_path"]) for support in supports} == {str, list}
    categories = {"factual", "reasoning", "multi_hop", "recency/conflict", "general", "adversarial"}
    assert {row["category"] for row in golden} == categories
    assert {row["difficulty"] for row in golden} == {"easy", "medium", "hard"}
    rules = {row.get("recency_conflict_rule") for row in golden}
    assert rules == {"cite_newer", "cite_both", "acknowledge_both", None}
    assert {row["answerable"] for row in golden if "answerable" in row} == {True, False}
    assert {row["lang"] for row in golden} >= {"en", "de", "fr", "it", "ar", "ja", "el"}
    assert all(None not in row.values() for row in golden)


def test_support_groups_point_at_supports_and_paraphrases_expect_the_same(golden):
    groups: dict[str, set[str]] = {}
    for row in golden:
        for group in row.get("required_support_groups", []):
            assert group and max(group) < len(row["gold_supports"])
        if "group" in row:
            groups.setdefault(row["group"], set()).add(json.dumps(row["expected_chunk_ids"]))
    assert len(groups) >= 5
    assert all(len(expected) == 1 for expected in groups.values())


def test_a_quotation_that_is_not_in_its_document_is_refused(tmp_path):
    file = tmp_path / "golden.yaml"
    entry = {"query_id": "q", "query": "?", "category": "factual", "difficulty": "easy", "tags": []}
    entry["passages"] = [{"doc": "work/it/backups", "quote": "kept for a thousand years"}]
    file.write_text(yaml.safe_dump([entry]), encoding="utf-8")
    with pytest.raises(GoldenSourceError, match=r"q: .*occurs 0 times in work/it/backups"):
        read_questions(read_corpus(), file)


# ------------------------------------------------------------------ chunkers and retriever


def test_headings_in_a_code_block_start_no_chunk_and_headings_without_text_give_none():
    text = "# Title\n\n## Empty\n\n## Full\n\nSome words.\n\n```\n# a comment\n```\n"
    document = Document("d", "d.md", "markdown", text)
    (chunk,) = by_heading(document)
    assert chunk.heading_path == "Title > Full"
    assert chunk.text == text[text.index("## Full") :].rstrip()


def test_a_window_that_crosses_a_heading_has_two_spans():
    text = "# A\n\none two three.\n\n# B\n\nfour five six.\n"
    windows = by_window(Document("d", "d.md", "markdown", text), size=4, step=2)
    assert [chunk.text for chunk in windows] == ["one two three.\nfour", "three.\nfour five six."]
    assert [chunk.heading_path for chunk in windows] == ["A", "A"]
    assert [len(chunk.source_spans) for chunk in windows] == [2, 2]


def plain_chunk(chunk_id: str, text: str) -> Chunk:
    return Chunk(chunk_id, chunk_id, f"{chunk_id}.md", "", (), len(text.split()), text)


def test_scores_are_those_of_okapi_bm25():
    chunks = [plain_chunk("a", "dome wind wind"), plain_chunk("b", "dome"), plain_chunk("c", "mirror soap")]
    (hit,) = search(build_index(chunks, RetrieverSettings(k1=1.2, b=0.75)), "wind", top_k=5)
    inverse_frequency = math.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    saturated = 2 * (1.2 + 1) / (2 + 1.2 * (1 - 0.75 + 0.75 * 3 / 2))
    assert hit.score == pytest.approx(inverse_frequency * saturated, abs=5e-5)


def test_equal_scores_are_ordered_by_chunk_id():
    chunks = [plain_chunk(name, "same words") for name in ("c", "a", "b")]
    hits = search(build_index(chunks, RetrieverSettings(1.2, 0.75)), "words", top_k=2)
    assert [hit.chunk.chunk_id for hit in hits] == ["a", "b"]
