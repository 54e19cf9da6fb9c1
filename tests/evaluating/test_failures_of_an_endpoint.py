"""A judge that fails in every way: nothing is lost, nothing is paid for nothing, and no failure becomes a number."""

from __future__ import annotations

import datetime as dt
import json
import threading
import time
from email.utils import format_datetime

import pytest

from eval_pipeline.evaluating.judges import judge_config
from eval_pipeline.evaluating.judging import sent_to
from eval_pipeline.evaluating.prompt_files import read_prompt
from eval_pipeline.settings import utc_now
from tests.evaluating.asking import KEY, a_judge, items, judged, open_calls, questions
from tests.evaluating.faulty_server import Say, Seen, completion, judge, refusal, serving


def once(fault: Say):
    """The first time an item is asked this happens, afterwards all is well."""
    return lambda seen: fault if seen.n == 0 else judge(seen)


@pytest.mark.parametrize(
    "fault",
    [
        refusal(500),
        refusal(408),
        Say({}, how="cut"),
        Say({}, how="reset"),
        Say({}, how="wrong length"),
        Say(b"{not json"),
        Say(b"\xff\xfe"),
        Say([1, 2]),
        Say({"error": {"message": "overloaded"}}),
    ],
    ids=["500", "408", "cut", "reset", "wrong length", "broken", "no text", "no object", "error under 200"],
)
def test_what_may_be_better_next_time_is_asked_again(tmp_path, fault):
    with serving(once(fault)) as server:
        counts, rows = judged(tmp_path, a_judge(server.url), items(3))
        assert [(row["status"], row["attempts"]) for row in rows] == [("ok", 2)] * 3
        assert (counts.failed, counts.stopped, len(server.seen)) == ({}, None, 6)


@pytest.mark.parametrize("how", ["hang", "drip"])
def test_the_time_of_the_whole_call_is_what_counts(tmp_path, how):
    """A byte now and then keeps a connection alive for ever, and an evaluation waiting."""
    slow = completion({"score": 3})
    slow.how = how
    with serving(lambda seen: slow) as server:
        began = time.monotonic()
        _, rows = judged(tmp_path, a_judge(server.url, timeout_s=0.3, attempts=2), items(2))
        assert time.monotonic() - began < 5
    assert [row["status"] for row in rows] == ["error"] * 2
    assert rows[0]["reason"] == "timed out: no answer within 0.3 s"
    assert rows[0]["raw"] is None


def test_an_answer_that_is_too_large_is_not_held(tmp_path):
    with serving(lambda seen: Say({}, how="huge")) as server:
        _, rows = judged(tmp_path, a_judge(server.url, attempts=1, most_bytes=100_000), items(1))
    assert rows[0]["reason"] == "the answer is larger than 100,000 bytes"


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_request_that_is_wrong_is_not_repeated(tmp_path, status):
    with serving(lambda seen: refusal(status, "this is too long")) as server:
        counts, rows = judged(tmp_path, a_judge(server.url), items(3))
        assert len(server.seen) == 3
    assert {row["reason"] for row in rows} == {f"it answers {status}: this is too long"}
    assert counts.stopped is None


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (refusal(401, f"wrong key {KEY}"), "refused"),
        (refusal(403), "refused"),
        (refusal(404), "refused"),
        (refusal(429, code="insufficient_quota"), "quota"),
    ],
)
def test_what_will_not_get_better_stops_everything_at_once(tmp_path, fault, kind):
    with serving(lambda seen: fault, latency=0.02) as server:
        counts, rows = judged(tmp_path, a_judge(server.url, concurrency=4), items(40))
        assert len(server.seen) <= 4
    assert counts.stopped.kind == kind
    assert KEY not in counts.stopped.text
    assert rows == []
    # Nothing was lost, and nothing has to be thrown away: the same command continues.
    with serving() as server:
        counts, rows = judged(tmp_path, a_judge(server.url, identity="http://127.0.0.1"), items(40))
        assert (len(rows), counts.stopped) == (40, None)


def test_twenty_items_in_a_row_that_failed_are_no_chance(tmp_path):
    with serving(lambda seen: refusal(500)) as server:
        counts, _ = judged(tmp_path, a_judge(server.url, attempts=2, concurrency=2), items(100))
        assert 40 <= len(server.seen) <= 46
    assert counts.stopped.kind == "failures"
    assert counts.stopped.text.startswith("20 calls in a row came to nothing, the last one: it answers 500")


@pytest.mark.parametrize("form", ["seconds", "date", "reset"])
def test_nobody_is_asked_before_the_endpoint_said(tmp_path, form):
    """One call was refused, and all of them wait; being asked to wait is no failure, and uses up no attempt."""
    refused_at: list[float] = []

    def behave(seen: Seen) -> Say:
        if seen.number == 0:
            refused_at.append(time.monotonic())
            later = utc_now().replace(tzinfo=dt.UTC, microsecond=0) + dt.timedelta(seconds=3)
            named = {
                "seconds": {"Retry-After": "2"},
                "date": {"Retry-After": format_datetime(later, usegmt=True)},
                "reset": {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "2s"},
            }
            return Say({"error": {"message": "slow down"}}, 429, named[form])
        say = judge(seen)
        # The others that are under way end while it waits, and would make room for more.
        say.after = 0.5 if seen.number < 4 else 0.0
        return say

    with serving(behave) as server:
        counts, rows = judged(tmp_path, a_judge(server.url, concurrency=4, attempts=1), items(12))
        early = [one.number for one in server.seen[4:] if one.at < refused_at[0] + 1.9]
    assert [row["status"] for row in rows] == ["ok"] * 12
    assert early == []
    assert counts.waited_s > 1


def test_whoever_is_told_to_come_back_tomorrow_does(tmp_path):
    with serving(lambda seen: refusal(429, Retry_After="86400")) as server:
        counts, rows = judged(tmp_path, a_judge(server.url, concurrency=2), items(20))
        assert len(server.seen) <= 2
    assert counts.stopped.kind == "wait"
    assert "come back after" in counts.stopped.text
    assert rows == []


def test_what_an_endpoint_does_not_take_is_left_out_and_said(tmp_path):
    """Structured output, temperature and the name of a limit differ between endpoints that call themselves compatible."""

    def behave(seen: Seen) -> Say:
        body = seen.body
        if (body.get("response_format") or {}).get("type") == "json_schema":
            return refusal(400, "response_format json_schema is not supported")
        if "temperature" in body:
            return refusal(400, "temperature does not support 0 with this model")
        if "max_tokens" in body:
            return refusal(400, "use max_completion_tokens instead")
        return judge(seen)

    with serving(behave) as server:
        of = items(30)
        asked = a_judge(server.url, concurrency=2)
        _, rows = judged(tmp_path, asked, of)
        assert [row["status"] for row in rows] == ["ok"] * 30
        assert len(server.seen) <= 30 + 2 * 3
        body = server.seen[-1].body
        with open_calls(tmp_path) as store:
            sent = sent_to(store, questions(asked, of), "grounded")
            said = judge_config(asked, [read_prompt("groundedness", None)], sent)
    assert (said["temperature"], said["structured"]) == (None, "json_object")
    assert body["response_format"] == {"type": "json_object"}
    assert "temperature" not in body
    assert body["max_completion_tokens"] == 1000
    # The judgement is known by what was meant, so that the next night knows it again without asking.
    assert {row["request"] for row in rows} == {one.call().request for one in questions(asked, of)}


def test_an_answer_nobody_can_read_is_asked_for_once_more_and_both_stay(tmp_path):
    def behave(seen: Seen) -> Say:
        if "What is 1?" in str(seen.body):
            return completion('{"score": 4, "supp', ended="length")
        return completion("I would say four" if "What is 2?" in str(seen.body) else {"score": 5})

    with serving(behave) as server:
        _, rows = judged(tmp_path, a_judge(server.url), items(4))
        assert sorted(seen.body["max_tokens"] for seen in server.seen) == [1000] * 5 + [2000]
    assert [(row["query_id"], row["repeat"]) for row in rows] == [
        *(("q0", 0), ("q1", 0), ("q1", 1), ("q2", 0), ("q2", 1), ("q3", 0)),
    ]
    assert len({row["request"] for row in rows}) == 6


def test_hostile_answers_change_no_other_item(tmp_path):
    hostile = {
        0: completion('{"score": 5} {"query_id": "q3", "score": 0}'),
        1: completion('{"score": ' + "[" * 100_000),
        2: completion("\x1b]0;owned\x07{'score': 5}"),
    }

    def behave(seen: Seen) -> Say:
        for number, say in hostile.items():
            if f"What is {number}?" in str(seen.body):
                return say
        return completion({"score": 4})

    with serving(behave) as server:
        _, rows = judged(tmp_path, a_judge(server.url), items(6))
    by_id = {row["query_id"]: json.loads(row["raw"])["choices"][0]["message"]["content"] for row in rows}
    assert [by_id[f"q{number}"] for number in (3, 4, 5)] == ['{"score": 4}'] * 3


def test_a_key_is_in_no_file_also_when_the_endpoint_shows_it_back(tmp_path):
    def behave(seen: Seen) -> Say:
        shown = seen.headers["authorization"]
        return completion({"score": 1, "reasoning": shown}) if seen.number else refusal(400, f"bad {shown}")

    with serving(behave) as server:
        counts, rows = judged(tmp_path, a_judge(server.url, structured="plain"), items(4))
        assert all(seen.headers["authorization"] == f"Bearer {KEY}" for seen in server.seen)
    assert sorted(row["status"] for row in rows) == ["error", "ok", "ok", "ok"]
    held = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not [data for data in held if KEY.encode() in data]
    assert KEY not in json.dumps([rows, str(counts)])


@pytest.mark.parametrize("usage", [{"prompt_tokens": -5, "completion_tokens": "many"}, "none", {}])
def test_counts_that_are_none_are_not_believed(tmp_path, usage):
    price = {"prompt": 2.0, "completion": 8.0}
    with serving(lambda seen: completion({"score": 2}, usage=usage)) as server:
        _, rows = judged(tmp_path, a_judge(server.url, price_per_1m=price), items(1))
    assert (rows[0]["usage"], rows[0]["usd"]) == ({"prompt": None, "completion": None}, None)


def test_a_budget_is_never_passed(tmp_path):
    """And the night after the limit was raised goes on where it stood."""
    price = {"prompt": 1000.0, "completion": 1000.0}

    def behave(seen: Seen) -> Say:
        size = len(json.dumps(seen.body))
        return completion({"score": 2}, usage={"prompt_tokens": size // 4, "completion_tokens": 50})

    with serving(behave, latency=0.005) as server:
        asked = a_judge(server.url, price_per_1m=price, max_tokens=50)
        counts, rows = judged(tmp_path, asked, items(200), budget_usd=60.0)
        spent = sum(row["usd"] for row in rows)
        assert counts.stopped.kind == "budget"
        assert 45 < spent <= 60
        before = len(server.seen)
        counts, rows = judged(tmp_path, asked, items(200), budget_usd=500.0)
        assert (counts.stopped, len(rows)) == (None, 200)
        assert before + counts.asked == 200


def test_an_interruption_gives_the_terminal_back_at_once(tmp_path):
    stop = threading.Event()
    slow = completion({"score": 3})
    slow.after = 30
    stopped_at: list[float] = []

    def behave(seen: Seen) -> Say:
        if seen.number == 8:
            stopped_at.append(time.monotonic())
            stop.set()
        return slow if seen.number > 5 else judge(seen)

    with serving(behave) as server:
        asked = a_judge(server.url, timeout_s=100, concurrency=4)
        counts, rows = judged(tmp_path, asked, items(40), stop=stop)
        assert time.monotonic() - stopped_at[0] < 4
    assert counts.stopped.kind == "interrupted"
    assert len(rows) == 6


def test_progress_says_where_it_stands(tmp_path):
    told = []
    with serving(latency=0.02) as server:
        judged(tmp_path, a_judge(server.url, concurrency=2), items(20), progress=told.append)
        judged(tmp_path, a_judge(server.url, concurrency=2), items(25), progress=told.append)
    assert told[-1].total == 25
    assert (told[-1].done, told[-1].cached, told[-1].in_flight, told[-1].failed) == (25, 20, 0, 0)
