"""Reading ahead changes nothing but the time: order, errors and memory are those of reading one piece after another."""

from __future__ import annotations

import random
import threading

import pytest

from eval_pipeline.bundle.files import BLOCK_BYTES, read_ahead
from eval_pipeline.bundle.results import read_results
from tests.bundle_files import write_lines


def read_all(pieces, read, *, budget=100):
    return list(read_ahead(pieces, read, weigh=lambda piece: 10, budget=budget))


def test_pieces_come_back_in_the_order_they_were_given():
    first_is_slow = threading.Event()

    def read(piece):
        if piece == 0:
            assert first_is_slow.wait(timeout=10)
        else:
            first_is_slow.set()
        return piece * 2

    assert read_all(range(20), read) == [piece * 2 for piece in range(20)]


def test_an_error_is_raised_where_its_piece_is_due():
    def read(piece):
        if piece == 3:
            raise ValueError("the fourth")
        return piece

    seen = []
    with pytest.raises(ValueError, match="the fourth"):
        for found in read_ahead(range(10), read, weigh=lambda piece: 10, budget=100):
            seen.append(found)
    assert seen == [0, 1, 2]


def test_no_more_than_the_budget_is_taken_beforehand():
    taken = []

    def pieces():
        for piece in range(50):
            taken.append(piece)
            yield piece

    reading = read_ahead(pieces(), str, weigh=lambda piece: 10, budget=40)
    for number in range(50):
        assert next(reading) == str(number)
        assert len(taken) <= number + 6


def test_a_piece_heavier_than_the_budget_is_read_alone():
    assert read_all(["heavy", "light"], len, budget=5) == [5, 5]


def test_a_caller_who_stops_leaves_no_thread_behind():
    before = threading.active_count()
    reading = read_ahead(range(1000), str, weigh=lambda piece: 1, budget=10)
    next(reading)
    reading.close()
    assert threading.active_count() == before


def rows_of(path):
    blocks = list(read_results(path, run_id="run-1"))
    assert [problem for block in blocks for problem in block.problems] == []
    lines = [number for block in blocks for number in block.results["row_no"].to_pylist()]
    ids = [query_id for block in blocks for query_id in block.results["query_id"].to_pylist()]
    return blocks, lines, ids


def test_a_file_of_several_blocks_is_read_in_order(tmp_path):
    filler = "x" * 2_000
    count = 2 * BLOCK_BYTES // 2_000
    rows = [{"query_id": f"q{number}", "answer": {"text": filler}} for number in range(count)]
    blocks, lines, ids = rows_of(write_lines(tmp_path / "results.jsonl", rows))
    assert len(blocks) >= 2
    assert lines == list(range(1, count + 1))
    assert ids == [row["query_id"] for row in rows]


@pytest.mark.parametrize("field, value", [("text", "said"), ("rel_path", "a.md"), ("token_count", 7.0)])
def test_a_field_that_only_a_later_hit_carries_is_read(tmp_path, field, value):
    plain = {"chunk_id": "c", "doc_id": "d"}
    rows = [{"query_id": f"q{number}", "hits_top_k": [plain]} for number in range(30)]
    odd = random.Random(3).randrange(1, 30)
    rows[odd]["hits_top_k"] = [plain, {**plain, field: value}]
    blocks, _, _ = rows_of(write_lines(tmp_path / "results.jsonl", rows))
    found = [hit[field] for block in blocks for hit in block.hits.to_pylist()]
    assert found.count(value) == 1
    assert found.index(value) == odd + 1


def test_spans_that_only_a_later_hit_carries_are_read(tmp_path):
    plain = {"chunk_id": "c", "doc_id": "d"}
    spanned = {**plain, "source_spans": [{"start": 1, "end": 5}]}
    rows = [{"query_id": "q1", "hits_top_k": [plain]}, {"query_id": "q2", "hits_top_k": [plain, spanned]}]
    blocks, _, _ = rows_of(write_lines(tmp_path / "results.jsonl", rows))
    spans = [span for block in blocks for span in block.hit_spans.to_pylist()]
    assert spans == [{"result": 1, "rank": 2, "span_no": 1, "doc_id": "d", "start": 1, "end": 5}]
