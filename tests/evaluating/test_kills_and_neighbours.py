"""Processes that die in the middle, and processes that ask the same at the same time: nothing is lost, nothing paid twice."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from eval_pipeline.evaluating.run_bundle import is_complete, unfinished_run
from tests.evaluating.asking import a_judge, items, judged, open_calls
from tests.evaluating.faulty_server import FaultyServer, Say, Seen, completion, judge, refusal, serving

ROOT = Path(__file__).resolve().parents[2]
MAY_DIFFER = ("latency_ms", "attempts", "from_cache")


def start(folder: Path, server: FaultyServer, n: int, concurrency: int, run_id: str = "night-1"):
    return subprocess.Popen(
        [
            sys.executable,
            *("-m", "tests.evaluating.asking_process"),
            *(str(folder), server.url, str(n), str(concurrency), run_id),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until(condition, process=None, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition() and (process is None or process.poll() is None):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)


def judgements(folder: Path, run_id: str = "night-1") -> list[dict]:
    path = folder / "evaluations" / run_id / "runs" / run_id / "judgements.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [{name: value for name, value in row.items() if name not in MAY_DIFFER} for row in rows]


def killed_run(
    folder: Path, server: FaultyServer, n: int, concurrency: int, at: list[int]
) -> tuple[dict, int]:
    """Killed whenever so many requests have arrived, then left alone; what the last one says, and the kills."""
    kills = 0
    for arrived in at:
        process = start(folder, server, n, concurrency)
        wait_until(lambda so_many=arrived: len(server.seen) >= so_many, process)
        process.kill()
        kills += process.wait() < 0
        process.communicate()
        # What was under way is worked on to its end.
        wait_until(lambda: server.in_flight == 0)
    last = start(folder, server, n, concurrency)
    out, err = last.communicate(timeout=120)
    assert last.returncode == 0, err
    return json.loads(out), kills


@pytest.mark.slow
def test_a_process_that_is_killed_loses_nothing_and_pays_twice_only_what_was_under_way(tmp_path):
    with serving(latency=0.05) as server:
        said, kills = killed_run(tmp_path / "killed", server, 40, 4, [10, 25])
        assert kills == 2
        assert server.twice <= 4 * kills
        assert server.twice <= said["uncertain"] <= 4 * kills
        assert len(server.answered) == 40
    with serving() as server:
        start(tmp_path / "whole", server, 40, 4).communicate(timeout=60)
    assert judgements(tmp_path / "killed") == judgements(tmp_path / "whole")
    assert is_complete(tmp_path / "killed" / "evaluations", "night-1")
    assert unfinished_run(tmp_path / "killed" / "evaluations", "nightly") is None
    with open_calls(tmp_path / "killed") as store:
        assert [one.open_claims for one in store.totals()] == [0]
    # Nobody who died has left a file behind.
    assert [*(tmp_path / "killed" / "calls.sqlite.owners").iterdir()] == []


def test_ctrl_c_ends_it_at_once_and_leaves_an_unfinished_run(tmp_path):
    slow = completion({"score": 3})
    slow.after = 60
    with serving(lambda seen: slow if seen.number > 6 else judge(seen)) as server:
        process = start(tmp_path, server, 40, 4)
        wait_until(lambda: len(server.seen) > 8, process)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        # A second for answers under way, and what a busy machine adds to it.
        assert time.monotonic() - began < 4
        assert (process.returncode, json.loads(out)["asked"]) == (0, 7), err
    assert len(judgements(tmp_path)) == 7
    assert not is_complete(tmp_path / "evaluations", "night-1")
    found = unfinished_run(tmp_path / "evaluations", "nightly")
    assert found["run_id"] == "night-1"
    assert unfinished_run(tmp_path / "evaluations", "weekly") is None


def test_two_that_need_the_same_judgement_ask_for_it_once(tmp_path):
    """Each in a thread with a connection of its own, as processes have them."""
    found: dict[str, tuple] = {}

    def ask(run_id: str, server: FaultyServer) -> None:
        found[run_id] = judged(tmp_path, a_judge(server.url, concurrency=4), items(30), run_id=run_id)

    with serving(latency=0.02) as server:
        threads = [threading.Thread(target=ask, args=(f"night-{n}", server)) for n in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert (len(server.seen), server.twice) == (30, 0)
    counts = [counts for counts, _ in found.values()]
    assert sum(one.asked for one in counts) == 30
    assert [len(rows) for _, rows in found.values()] == [30, 30]
    first, second = ([row["raw"] for row in rows] for _, rows in found.values())
    assert first == second


def test_all_who_open_a_new_store_of_calls_at_once_have_it(tmp_path):
    opened: list[str] = []

    def open_together(folder: Path, together: threading.Barrier) -> None:
        together.wait()
        with open_calls(folder):
            opened.append(folder.name)

    for number in range(10):
        together = threading.Barrier(8)
        folder = tmp_path / str(number)
        threads = [threading.Thread(target=open_together, args=(folder, together)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert len(opened) == 80


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_killed_by_the_dozen_with_faults_in_between(tmp_path, seed):
    """40 kills in all."""

    def behave(seen: Seen) -> Say:
        drawn = random.Random(f"{seed}/{seen.number}").random()
        if drawn < 0.02:
            return refusal(429, Retry_After="0.1")
        return refusal(500) if drawn < 0.07 else judge(seen)

    n, concurrency = 300, 16
    at = sorted(random.Random(seed).sample(range(20, 290), 5))
    with serving(behave, latency=0.05) as server:
        said, kills = killed_run(tmp_path / "killed", server, n, concurrency, at)
        assert server.twice <= concurrency * kills
        assert said["uncertain"] <= concurrency * kills
        assert len(server.answered) == n
    with serving() as server:
        start(tmp_path / "whole", server, n, concurrency).communicate(timeout=60)
    assert judgements(tmp_path / "killed") == judgements(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(4))
def test_three_processes_ask_nothing_twice(tmp_path, round_):
    with serving(latency=0.05) as server:
        processes = [start(tmp_path, server, 300, 8, f"night-{n}") for n in range(3)]
        outs = [process.communicate(timeout=120) for process in processes]
        assert [process.returncode for process in processes] == [0, 0, 0], outs
        assert (server.twice, len(server.seen)) == (0, 300)
    said = [json.loads(out) for out, _ in outs]
    assert sum(one["asked"] for one in said) == 300
    assert (
        judgements(tmp_path, "night-0") == judgements(tmp_path, "night-1") == judgements(tmp_path, "night-2")
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_every_fault_together_and_each_item_has_its_own_answer(tmp_path, seed):
    hows = ["whole", "cut", "reset", "wrong length", "hang", "drip"]

    def behave(seen: Seen) -> Say:
        drawn = random.Random(f"{seed}/{seen.number}")
        if drawn.random() < 0.1:
            return refusal(drawn.choice([429, 500, 503]), Retry_After="0.05")
        number = seen.body["messages"][0]["content"].partition("What is ")[2].partition("?")[0]
        say = completion({"score": int(number) % 6})
        say.how = drawn.choices(hows, [80, 5, 5, 4, 2, 4])[0]
        return say

    with serving(behave, latency=0.01) as server:
        counts, rows = judged(tmp_path, a_judge(server.url, timeout_s=0.5, attempts=8), items(200))
    assert (counts.stopped, len(rows)) == (None, 200)
    for row in rows:
        if row["status"] == "ok":
            said = json.loads(json.loads(row["raw"])["choices"][0]["message"]["content"])
            assert said == {"score": int(row["query_id"][1:]) % 6}
    assert sum(row["status"] == "ok" for row in rows) >= 198
