"""The system under test: what it is sent, and what becomes of what it says or does not say."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from eval_pipeline.evaluating.answers import plan_target
from tests.evaluating.asking import a_target, answered, open_calls
from tests.evaluating.faulty_server import Say, refusal, serving

ROOT = Path(__file__).resolve().parents[2]
ANSWER = {
    "text": "/answer",
    "abstained": "/refused",
    "hits": {"each": "/sources", "chunk_id": "/id", "doc_id": "/meta/file", "text": "/body"},
}


def rows(n: int) -> list[dict]:
    return [{"query_id": f"q{number}", "query": f"What is {number}?", "tags": ["a"]} for number in range(n)]


def replied(tmp_path, document, **entries):
    with serving(lambda seen: Say(document)) as server:
        target = a_target(url=server.url, answer=ANSWER, **entries)
        return answered(tmp_path, target, rows(1))[1][0], server.seen[0].body


def test_a_reply_becomes_a_result_by_where_its_parts_stand(tmp_path):
    sources = [{"id": 7, "meta": {"file": "a.md"}, "body": "text"}, {"id": "x"}]
    row, sent = replied(tmp_path, {"answer": "It is 0.", "refused": False, "sources": sources})
    assert sent == {"question": "What is 0?"}
    assert row["query_id"] == "q0"
    assert row["answer"] == {"text": "It is 0.", "abstained": False}
    assert row["hits_top_k"] == [
        {"chunk_id": "7", "doc_id": "a.md", "text": "text"},
        {"chunk_id": "x", "doc_id": "x"},
    ]
    assert row["latency_ms"]["total"] > 0


def test_what_a_reply_does_not_say_stays_unknown(tmp_path):
    """A reply without a list of sources is no retrieval that found nothing."""
    row, _ = replied(tmp_path, {"answer": "It is 0."})
    assert "hits_top_k" not in row
    assert row["answer"] == {"text": "It is 0."}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"text": "x"}, "/answer: is not in the reply"),
        ({"answer": 5}, "expected text"),
        ({"answer": "x", "sources": 5}, "/sources: is no list"),
        ({"answer": "x", "sources": [{"body": "no id"}]}, "chunk_id"),
        ([1], "/answer: is not in the reply"),
    ],
)
def test_a_reply_that_is_no_result_is_the_targets_failure(tmp_path, document, words):
    row, _ = replied(tmp_path, document)
    assert words in row["error"]
    assert "answer" not in row


def test_twenty_replies_in_a_row_that_are_no_result_stop_it_and_are_read_by_a_mended_mapping(tmp_path):
    with serving(lambda seen: Say({"text": "It is so."})) as server:
        wrong = a_target(url=server.url, identity="kb", answer=ANSWER, concurrency=2)
        counts, _ = answered(tmp_path, wrong, rows(40))
        assert counts.stopped.kind == "failures"
        assert "the last one: the reply is no result: /answer: is not in the reply" in counts.stopped.text
        asked = len(server.seen)
        assert 20 <= asked <= 22
        mended = a_target(url=server.url, identity="kb", answer=ANSWER | {"text": "/text"})
        counts, found = answered(tmp_path, mended, rows(40))
        assert (counts.stopped, counts.asked, len(server.seen)) == (None, 40 - asked, 40)
    assert [row["answer"]["text"] for row in found] == ["It is so."] * 40


def test_fields_of_the_golden_row_keep_their_type_and_are_never_looked_at_twice(tmp_path):
    row = {"query_id": "q0", "query": "{tags} and {{", "tags": ["a", "b"]}
    body = {"q": "{query}", "tags": "{tags}", "both": "{query_id}: {tags} {{x}}", "k": 5}
    with serving(lambda seen: Say({"answer": "x"})) as server:
        answered(tmp_path, a_target(url=server.url, body=body, answer=ANSWER), [row])
        assert server.seen[0].body == {
            "q": "{tags} and {{",
            "tags": ["a", "b"],
            "both": 'q0: ["a", "b"] {x}',
            "k": 5,
        }


def test_a_target_that_fails_is_a_row_that_says_so(tmp_path):
    def behave(seen):
        if "What is 1?" in str(seen.body):
            return refusal(500, "no index")
        return Say({"answer": "x"}, how="hang" if "What is 2?" in str(seen.body) else "whole")

    with serving(behave) as server:
        target = a_target(url=server.url, answer=ANSWER, attempts=2, timeout_s=0.3)
        counts, found = answered(tmp_path, target, rows(4))
    assert found[1] == {"query_id": "q1", "error": "it answers 500: no index", "timed_out": False}
    assert found[2] == {"query_id": "q2", "error": "timed out: no answer within 0.3 s", "timed_out": True}
    assert len(counts.failed) == 2


def test_last_nights_answer_is_not_tonights(tmp_path):
    with serving(lambda seen: Say({"answer": "x"})) as server:
        target = a_target(url=server.url, answer=ANSWER)
        for run_id, asked in (("night-1", 3), ("night-1", 3), ("night-2", 6)):
            with open_calls(tmp_path) as store:
                planned = plan_target(store, target, rows(3), run_id=run_id)
            assert len(server.seen) + planned == asked
            answered(tmp_path, target, rows(3), run_id=run_id)
            assert len(server.seen) == asked


def test_a_function_in_python_may_raise_die_and_hang(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    call = "tests.evaluating.made_up_targets:ask"
    target = a_target(kind="python", call=call, workers=2, timeout_s=4, attempts=1)
    began = time.monotonic()
    _, found = answered(tmp_path, target, rows(8))
    assert time.monotonic() - began < 40
    assert found[0]["answer"] == {"text": "It is 0.", "abstained": False}
    assert found[3]["error"] == "it answers 500: ValueError: three is not known"
    assert found[4]["error"].startswith("the process ended with 7")
    assert found[5] == {"query_id": "q5", "error": "timed out: no answer within 4 s", "timed_out": True}
    assert found[6]["error"].startswith("the reply is no result")
    assert found[7]["answer"]["text"] == "It is 7."


def test_a_command_is_matched_by_id_whatever_else_it_writes(tmp_path):
    target = a_target(
        kind="command",
        argv=[sys.executable, str(ROOT / "tests/evaluating/made_up_targets.py")],
        workers=2,
    )
    _, found = answered(tmp_path, target, rows(6))
    assert [row["answer"]["text"] for row in found] == [f"Said What is {n}?" for n in range(6)]


def test_a_command_that_is_not_there_is_said(tmp_path):
    _, found = answered(tmp_path, a_target(kind="command", argv=["./no-such-program"]), rows(1))
    assert found[0]["error"] == "./no-such-program cannot be started: No such file or directory"
