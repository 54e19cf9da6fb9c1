"""How fast somebody is asked, and the file in which every answer is kept."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
import zlib

import pytest

from eval_pipeline.errors import CallStoreError, RefusedError, UsageError
from eval_pipeline.evaluating.budget import Budget, Tokens
from eval_pipeline.evaluating.calls import Answered, CallStore
from eval_pipeline.evaluating.endpoint import Endpoint, said_wait
from eval_pipeline.evaluating.run_bundle import (
    COMPLETE,
    INCOMPLETE,
    Evaluation,
    begin_run,
    hold_suite,
    is_complete,
    run_folder,
    unfinished_run,
    write_run,
)
from eval_pipeline.evaluating.setup import Limits
from eval_pipeline.settings import utc_now
from tests.evaluating.asking import a_judge, items, judged, open_calls
from tests.evaluating.faulty_server import serving

NOON = dt.datetime(2026, 11, 1, 12)


def noon() -> dt.datetime:
    return NOON


class Seconds:
    """A clock that somebody turns."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def endpoint(**limits) -> tuple[Endpoint, Seconds]:
    seconds = Seconds()
    said = {"concurrency": 8, "timeout_s": 10.0, "attempts": 3} | limits
    return Endpoint(Limits(**said), clock=noon, now=seconds), seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "12"}, 12),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after": "Sun, 01 Nov 2026 12:00:30 GMT"}, 30),
        ({"retry-after": "Sun, 01 Nov 2026 11:00:00 GMT"}, 0),
        ({"x-ratelimit-reset-requests": "1m30s"}, 90),
        ({"x-ratelimit-reset-tokens": "120ms"}, 0.12),
        ({"anthropic-ratelimit-input-tokens-reset": "2026-11-01T12:00:05Z"}, 5),
        ({"x-ratelimit-reset": str(int(NOON.replace(tzinfo=dt.UTC).timestamp()) + 7)}, 7),
        ({"x-ratelimit-reset-requests": "9s", "x-ratelimit-remaining-requests": "3"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_every_way_to_say_when_is_understood(headers, seconds):
    found = said_wait(headers, noon)
    assert found == (None if seconds is None else pytest.approx(seconds))


def test_one_refusal_is_chance_and_a_second_one_in_its_pause_sets_the_pace():
    asked, seconds = endpoint()
    for _ in range(40):
        seconds.now += 0.05
        asked.answered()
    asked.asked_to_wait({"retry-after": "1"})
    assert asked.wait() == pytest.approx(1)
    seconds.now += 1
    asked.sent(0)
    assert asked.wait() == 0
    asked.asked_to_wait({"retry-after": "1"})
    asked.asked_to_wait({"retry-after": "1"})
    seconds.now += 1
    waits = []
    for _ in range(50):
        seconds.now += asked.wait()
        waits.append(seconds.now)
        asked.sent(0)
        asked.answered()
    pace = 40 / (waits[-1] - waits[9])
    # It answered 13 a second on the whole, and is asked a little faster every second.
    assert 10 < pace < 18
    assert pace > 9 / (waits[9] - waits[0] + 0.05) * 0.95


def test_what_is_allowed_in_a_minute_is_spread_over_it():
    asked, seconds = endpoint(requests_per_minute=120)
    began = seconds.now
    for _ in range(20):
        seconds.now += asked.wait()
        asked.sent(0)
    assert seconds.now - began == pytest.approx(19 * 0.5, abs=0.1)
    asked, seconds = endpoint(tokens_per_minute=60_000)
    asked.sent(3000)
    assert asked.wait() == pytest.approx(3, abs=0.1)


def test_an_endpoint_that_only_refuses_is_given_up_in_time():
    asked, seconds = endpoint(max_wait_s=60.0)
    for _ in range(10):
        asked.asked_to_wait({"retry-after": "10"})
        seconds.now += 10
    assert asked.stop.kind == "wait"


def test_money_is_put_aside_before_it_is_spent():
    budget = Budget(1.0, spent=0.2)
    assert budget.reserve(0.5)
    assert not budget.reserve(0.4)
    budget.settle(0.5, 0.1)
    assert budget.reserve(0.7)
    tokens = Tokens()
    assert tokens.bound(1000) == 1000
    for _ in range(20):
        tokens.saw(1000, 200)
    assert tokens.bound(1000) == pytest.approx(250)


A, B, C = ("a" * 64, "b" * 64, "c" * 64)


def keep(store: CallStore, request: str, *, run_id: str = "night-1", raw: str = '{"score": 1}') -> None:
    assert store.claim(request, party="judge x", run_id=run_id) == "mine"
    answer = Answered(200, b'{"secret": "question"}', raw, prompt_tokens=3, completion_tokens=2, usd=0.5)
    store.keep(request, answer, party="judge x", run_id=run_id)


def bytes_of(folder) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("calls.sqlite*") if path.is_file())


def test_an_answer_is_kept_until_it_is_forgotten_and_then_gone_from_the_file(tmp_path):
    with open_calls(tmp_path) as store:
        keep(store, A, raw="a very personal answer")
        keep(store, B)
        assert store.answered([A, B, C]) == {A, B}
        assert store.kept(A).raw == "a very personal answer"
        assert zlib.compress(b"a very personal answer") in bytes_of(tmp_path)
        assert store.forget([A, C]) == 1
        assert store.kept(A) is None
        assert store.kept(B).usd == 0.5
        assert zlib.compress(b"a very personal answer") not in bytes_of(tmp_path)


def test_what_came_to_nothing_is_said_and_asked_again(tmp_path):
    with open_calls(tmp_path) as store:
        store.claim(A, party="judge x", run_id="night-1")
        store.fail(A, "down", http_status=500, attempts=4, party="judge x", run_id="night-1")
        (found,) = store.failures("night-1")
        assert (found.request, found.reason, found.attempts) == (A, "down", 4)
        assert store.failures("night-2") == []
        keep(store, A)
        assert (store.failures(), store.failure(A)) == ([], None)
        (total,) = store.totals("night-1")
        assert (total.party, total.answered, total.usd, total.failed) == ("judge x", 1, 0.5, 0)


def test_only_old_answers_that_a_kept_delivery_holds_are_pruned(tmp_path):
    with CallStore(tmp_path / "calls.sqlite", clock=noon) as store:
        for request in (A, B):
            keep(store, request)
        assert store.prune(NOON, lambda requests: requests) == 0
        assert store.prune(NOON + dt.timedelta(days=1), lambda requests: [B, C]) == 1
        assert store.answered([A, B]) == {A}


def test_a_claim_dies_with_whoever_claimed_it(tmp_path):
    with open_calls(tmp_path) as living:
        assert living.claim(A, party="judge x", run_id="night-1") == "mine"
        with open_calls(tmp_path) as other:
            assert other.claim(A, party="judge x", run_id="night-2") == "others"
            other.claim(B, party="judge x", run_id="night-2")
        # The other has ended while it asked.
        assert living.claim(B, party="judge x", run_id="night-1") == "mine"
        keep(living, B)
        assert living.kept(B).uncertain == 1
        living.give_back(A)
        assert sum(one.uncertain for one in living.totals()) == 1


def test_a_file_that_is_none_of_ours_is_left_alone(tmp_path):
    path = tmp_path / "calls.sqlite"
    path.write_text("no database" * 100)
    with pytest.raises(CallStoreError, match="cannot be used as the store of calls"):
        CallStore(path, clock=utc_now)
    assert path.read_text().startswith("no database")
    path.unlink()
    con = sqlite3.connect(path)
    con.execute("pragma user_version = 99")
    con.close()
    with pytest.raises(CallStoreError, match="newer version"):
        CallStore(path, clock=utc_now)


def said(run_id: str, state: str) -> Evaluation:
    return Evaluation(run_id, state, None, "x", 0, 0, 0, 0, 0, 0.0, 0.0)


def test_the_newest_unfinished_run_of_a_suite_is_found(tmp_path):
    for run_id, suite, state in (("a", "s", INCOMPLETE), ("b", "s", COMPLETE), ("c", "t", INCOMPLETE)):
        document = {
            "run_id": run_id,
            "suite": suite,
            "dataset": "kb",
            "created_at": f"2026-11-0{ord(run_id) % 9}",
        }
        begin_run(tmp_path, document)
        write_run(tmp_path, document, results=[{"query_id": "q"}], judged=[], evaluation=said(run_id, state))
    assert unfinished_run(tmp_path, "s")["run_id"] == "a"
    assert is_complete(tmp_path, "b")
    assert sorted(path.name for path in (run_folder(tmp_path, "a") / "runs/a").iterdir()) == [
        "results.jsonl",
        "run.json",
    ]
    run = json.loads((tmp_path / "a/runs/a/run.json").read_text())
    assert (run["dataset"], run["evaluation"]["state"]) == ("kb", "incomplete")
    with pytest.raises(UsageError, match="run_id"):
        begin_run(tmp_path, {"run_id": "../x"})


def test_a_suite_runs_once_at_a_time(tmp_path):
    with (
        hold_suite(tmp_path, "nightly"),
        hold_suite(tmp_path, "weekly"),
        pytest.raises(RefusedError, match="is running already"),
        hold_suite(tmp_path, "nightly"),
    ):
        pass
    with hold_suite(tmp_path, "nightly"):
        pass


@pytest.mark.slow
def test_many_calls_do_not_grow_in_memory(tmp_path):
    """What is held does not depend on how many there are: three times as many need no more."""
    import resource

    def peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with serving() as server:
        judged(tmp_path, a_judge(server.url), items(300))
        before = peak()
        judged(tmp_path, a_judge(server.url), items(3000))
    assert peak() - before < 60_000
