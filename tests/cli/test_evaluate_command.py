"""Evaluating as somebody types it: what is said, with which exit code, and how it ends when somebody has enough."""

from __future__ import annotations

import contextlib
import json
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from eval_pipeline.cli.asking import line_of
from eval_pipeline.evaluating.executor import Progress
from eval_pipeline.evaluating.run_bundle import hold_suite
from eval_pipeline.formulas.polars.facts import judgements
from tests.bundle_files import write_golden
from tests.called import call, environment_in
from tests.documents.described import assert_is_as_described
from tests.evaluating.asking import KEY
from tests.evaluating.faulty_server import Say, completion, refusal, serving
from tests.evaluating.suites import N, asked_at, configure, kb, rows_of
from tests.few_definitions import OF_EVERY_KIND
from tests.without_dagster import without_dagster

SHIPS = OF_EVERY_KIND

DOCUMENT = (
    *("format", "run_id", "state", "stopped", "bundle", "target_calls", "judge_calls", "cached", "failed"),
    *("uncertain", "usd", "waited_s"),
)


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", KEY)


@pytest.fixture
def folder(tmp_path):
    write_golden(
        tmp_path / "labels",
        [
            {
                "query_id": f"q{i}",
                "query": f"What is {i}?",
                "expected_chunk_ids": [f"c{i}"],
                "answerable": True,
            }
            for i in range(N)
        ],
    )
    assert call(["load", "labels"], tmp_path)[0] == 0
    return tmp_path


def evaluate(folder, *words):
    """Exit code, the document, and what is said beside it."""
    code, out, said = call(["evaluate", "nightly", "--json", *words], folder, apart=True)
    kind = "evaluate --dry-run" if "--dry-run" in words else "evaluate"
    return code, as_described(kind, out) if out else {}, said


def always_three(seen):
    return kb(seen) if seen.path.endswith("/ask") else completion({"score": 3})


def as_described(kind, out):
    """The document, which is what the reference says of it."""
    document = json.loads(out)
    assert_is_as_described(kind, document)
    return document


def test_a_suite_is_asked_loaded_computed_and_judged_by_the_gate(folder):
    with serving(kb) as server, without_dagster():
        configure(folder, server.url)
        code, planned, _ = evaluate(folder, "--dry-run")
        assert (code, planned["target_calls"], planned["judge_calls"]) == (0, N, N)
        code, document, said = evaluate(folder)
        assert (code, tuple(document)[: len(DOCUMENT)]) == (0, DOCUMENT), said
        assert document["state"] == "complete"
        assert document["computed"]["runs"] == [document["run_id"]]
        code, shown, _ = call(["show", document["run_id"], "--json"], folder, apart=True)
        assert json.loads(shown)["run_id"] == document["run_id"]
        # Held against another run, the verdict is said.
        (folder / "eval-pipeline.toml").open("a").write(f'[baselines]\nnightly = "{document["run_id"]}"\n')
        code, out, _ = call(["evaluate", "nightly", "--run-id", "second"], folder, apart=True)
        assert code == 0
        assert f"second against {document['run_id']}" in out
        code, out, _ = call(["calls", "--json"], folder, apart=True)
        paid = {one["party"]: one["answered"] for one in as_described("calls", out)["calls"]}
        assert paid == {"judge grounded": N, "target kb": 2 * N}
    everything = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert KEY.encode() not in everything


def test_what_is_not_finished_leaves_with_6_and_names_the_command_that_goes_on(folder):
    with serving(lambda seen: kb(seen) if seen.path.endswith("/ask") else refusal(401)) as server:
        configure(folder, server.url)
        code, document, said = evaluate(folder, "--no-load", "--limit", "3", "--budget", "2")
        assert (code, document["state"], document["target_calls"]) == (6, "incomplete", 3)
        assert "401" in document["stopped"]
        assert "`eval-pipeline evaluate nightly --limit 3 --budget 2 --no-load` goes on from there" in said
        assert KEY not in said
        assert call(["load", document["bundle"]], folder)[0] == 0
        said = call(["status"], folder, apart=True)[2]
        goes_on = f"`eval-pipeline evaluate nightly --limit 3 --run-id {document['run_id']}` goes on"
        assert goes_on in " ".join(said.split()) and "incomplete" not in said


def test_replies_that_are_no_result_count_as_failed_and_a_run_that_is_whole_says_that_nobody_was_asked(
    folder,
):
    with serving(kb) as server:
        configure(folder, server.url)
        settings = folder / "eval-pipeline.toml"
        settings.write_text(
            settings.read_text("utf-8").replace('text = "/answer"', 'text = "/text"'), "utf-8"
        )
        words = ["evaluate", "nightly", "--run-id", "odd", "--no-load"]
        code, out, said = call(words, folder, apart=True)
        assert (code, f"{N} failed" in out, "asked before" in said) == (0, True, False), out + said
        assert f"{N} of odd came to nothing" in said
        assert "nobody was asked now" in call(words, folder, apart=True)[2]


@pytest.mark.parametrize(
    ("words", "code", "wanted"),
    [
        (["evaluate", "nigthly"], 2, "did you mean nightly?"),
        (["evaluate", "x"], 2, "there is: nightly ([suites.NAME] in eval-pipeline.toml says what it is)"),
        (["evaluate", "nightly", "--new", "--run-id", "x"], 2, "--new names the run itself"),
        (["rejudge"], 2, "name the runs, or a suite with --suite"),
        (["rejudge", "--suite", "nightly"], 2, "has no runs"),
        (["judges", "groundd", "--try"], 2, "did you mean grounded?"),
        (["calls", "--prune", "3", "--failed"], 2, "--prune goes by itself"),
    ],
)
def test_what_cannot_be_meant_is_said_before_anybody_is_asked(folder, words, code, wanted):
    configure(folder, "http://127.0.0.1:9/v1")
    found, _, said = call(words, folder, apart=True)
    assert (found, wanted in said) == (code, True), said


def test_a_suite_that_is_running_is_refused(folder):
    configure(folder, "http://127.0.0.1:9/v1")
    with hold_suite(folder / "data" / "evaluations", "nightly"):
        code, _, said = evaluate(folder)
    assert (code, "is running already" in said) == (5, True), said


def test_a_missing_variable_is_named_by_every_command_that_looks_at_judges(folder, monkeypatch):
    configure(folder, "http://127.0.0.1:9/v1")
    monkeypatch.delenv("JUDGE_KEY")
    code, _, said = evaluate(folder)
    assert (code, "JUDGE_KEY" in said) == (2, True), said
    code, out, _ = call(["judges", "--json"], folder, apart=True)
    assert (code, as_described("judges", out)["judges"][0]["missing"]) == (0, ["JUDGE_KEY"])
    code, out, _ = call(["doctor", "--json"], folder, apart=True)
    assert any("JUDGE_KEY" in one["what"] for one in json.loads(out)["findings"])


def test_a_judge_is_tried_with_one_request_and_held_against_forty_answers(folder):
    with serving(kb) as server:
        configure(folder, server.url)
        code, out, _ = call(["judges", "--try"], folder, apart=True)
        assert (code, len(server.seen)) == (0, 1)
        assert '"choices"' in out and "100 tokens in, 20 out" in out
        as_described("judges --try", call(["judges", "--try", "--json"], folder, apart=True)[1])
        before = len(server.seen)
        code, out, _ = call(["judges", "grounded", "--check", "--json"], folder, apart=True)
        found = as_described("judges --check", out)
        assert (code, found["judge"], found["asks"][0]["ask"]) == (0, "grounded", "groundedness")
        n = found["asks"][0]["n"]
        assert (len(server.seen) - before, found["asked"], found["cached"]) == (n, n, 0)
        assert found["usd"] == pytest.approx(n * (100 * 2 + 20 * 8) / 1e6)
        # What is kept is not asked again, and what it cost then is not what this cost.
        kept = n - 2
        with contextlib.closing(
            sqlite3.connect(folder / "data" / "calls.sqlite", isolation_level=None)
        ) as con:
            con.execute(
                "delete from calls where rowid in (select rowid from calls order by rowid desc limit 2)"
            )
        code, out, _ = call(["judges", "grounded", "--check"], folder, apart=True)
        assert (code, f"{kept} kept, 2 asked now: 0.00072 USD." in out) == (0, True), out


def test_judges_that_cannot_be_asked_leave_a_whole_run_that_says_how_it_gets_its_scores(folder):
    is_down = threading.Event()
    is_down.set()

    def behave(seen):
        is_refused = is_down.is_set() and not seen.path.endswith("/ask")
        return refusal(422, f"not {seen.number % 2}") if is_refused else kb(seen)

    with serving(behave) as server, without_dagster():
        configure(folder, server.url)
        code, out, said = call(["evaluate", "nightly", "--run-id", "one", "--no-load"], folder, apart=True)
        assert call(["load", "data/evaluations/one"], folder)[0] == 0
        assert (code, f"{N} failed" in out) == (0, True), out + said
        assert f"{N} of {N} judge calls of one failed" in said and "`eval-pipeline rejudge one`" in said
        # A line for each reason, however many calls had it.
        code, out, said = call(["calls", "--failed", "--run", "@latest"], folder, apart=True)
        assert (code, out.count("judge grounded"), out.count(": not 0"), out.count(": not 1")) == (
            0,
            2,
            1,
            1,
        ), out
        code, _, said = call(["calls", "--run", "oen"], folder, apart=True)
        assert (code, "did you mean one?" in said) == (2, True), said
        is_down.clear()
        # A call may cost more than that, and it is said how much; with more it goes on.
        code, out, said = call(["rejudge", "one", "--budget", "0.000001", "--json"], folder, apart=True)
        assert (code, as_described("rejudge", out)["state"]) == (6, "incomplete"), said
        assert "the next call could cost 0.01" in said and "rejudge one --budget 1e-06` goes on" in said
        code, out, _ = call(["rejudge", "one", "--budget", "1", "--json"], folder, apart=True)
        assert (code, as_described("rejudge", out)["judge_calls"]) == (0, N)


def test_what_has_no_texts_is_judged_by_nobody_and_that_is_said(folder):
    with serving(kb) as server, without_dagster():
        configure(folder, server.url)
        settings = folder / "eval-pipeline.toml"
        settings.write_text(settings.read_text("utf-8").replace(', text = "/body"', ""), "utf-8")
        skipped = f"{N} judgements skipped ({N} no context)"
        code, out, said = call(["evaluate", "nightly", "--run-id", "bare", "--no-load"], folder, apart=True)
        assert (code, skipped in said) == (0, True), out + said
        assert call(["load", "data/evaluations/bare"], folder)[0] == 0
        assert skipped in call(["rejudge", "bare", "--dry-run"], folder, apart=True)[2]
        out = call(["rejudge", "bare", "--dry-run", "--json"], folder, apart=True)[1]
        assert as_described("rejudge --dry-run", out)["skipped"] == {"no context": N}
        code, _, said = call(["rejudge", "bare"], folder, apart=True)
        assert (code, skipped in said) == (0, True), said
        assert asked_at(server.seen, "/completions") == 0


def test_a_price_says_what_judging_costs_at_most_before_anybody_was_asked(folder):
    configure(folder, "http://127.0.0.1:9/v1")
    code, planned, _ = evaluate(folder, "--dry-run")
    assert (code, planned["usd"]) == (0, None)
    # 8,000 bytes and the prompt as tokens at 2 USD, a thousand tokens of answer at 8 USD a million.
    assert N * 0.024 < planned["most_usd"] < N * 0.03
    out = call(["evaluate", "nightly", "--dry-run"], folder, apart=True)[1]
    assert "0 cached: at most 0.17 USD." in out and "longer than 8,000 bytes" in out
    out = call(["evaluate", "nightly", "--dry-run", "--budget", "0.05"], folder, apart=True)[1]
    assert "at most 0.05 USD.\nThat is the budget." in out


@pytest.mark.slow
def test_a_changed_prompt_is_asked_by_apply_with_judge_and_by_nothing_else(folder):
    prompt = folder / "prompts" / "judge" / "groundedness.md"
    with serving(kb) as server, without_dagster():
        configure(folder, server.url)
        evaluate(folder)
        before = asked_at(server.seen, "/completions")
        prompt.parent.mkdir(parents=True)
        prompt.write_text(
            '---\nversion: mine\nschema: {"type": "object", "properties": {"score": {"type": "integer"}}}\n---\n'
            "Is it so? {answer} {context}\n"
        )
        code, out, _ = call(["plan", "--json"], folder, apart=True)
        plan = json.loads(out)
        assert (code, plan["judge_calls"], plan["usd"] > 0) == (0, N, True)
        for words in (["apply"], ["status"], ["run", "--all"]):
            assert call(words, folder)[0] == 0
        assert asked_at(server.seen, "/completions") == before
        code, out, _ = call(["apply", "--judge", "--json"], folder, apart=True)
        assert (code, json.loads(out)["judge_calls"]) == (0, N)
        assert asked_at(server.seen, "/completions") == before + N
        assert json.loads(out)["cells"] > 0
        assert json.loads(call(["plan", "--json"], folder, apart=True)[1])["judge_calls"] == 0


@pytest.mark.slow
def test_another_way_to_read_answers_in_a_folder_of_ones_own_asks_nobody(folder):
    with serving(always_three) as server, without_dagster():
        configure(folder, server.url)
        evaluate(folder)
        parser = folder / "sql" / "facts" / "judgements.py"
        parser.parent.mkdir(parents=True)
        read = Path(judgements.__file__).read_text("utf-8")
        parser.write_text(
            read.replace("version=3,", 'version=4, replaces="judgements",').replace(
                "        found.score,\n", "        2.5 if found.score == 3 else found.score,\n"
            ),
            "utf-8",
        )
        code, out, said = call(["plan", "--json"], folder, apart=True)
        assert code == 0, said
        plan = json.loads(out)
        assert plan["judge_calls"] == 0 and "facts.judgements" in {one["name"] for one in plan["assets"]}
        code, out, said = call(["apply", "--judge"], folder, apart=True)
        assert code == 0, out + said
        shown = json.loads(call(["show", "@latest", "--json"], folder, apart=True)[1])
        assert shown["metrics"]["judge_groundedness"]["value"] == 2.5
        assert asked_at(server.seen, "/completions") == N


def started(folder, *words, suite="nightly"):
    return subprocess.Popen(
        [sys.executable, "-m", "eval_pipeline", "evaluate", suite, "--no-load", "--json", *words],
        cwd=folder,
        env=environment_in(folder) | {"JUDGE_KEY": KEY},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until(condition, process, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition() and process.poll() is None:
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


def test_ctrl_c_gives_the_terminal_back_and_the_same_command_goes_on(folder):
    is_slow = threading.Event()
    is_slow.set()

    def behave(seen):
        say = kb(seen)
        if is_slow.is_set() and not seen.path.endswith("/ask") and asked_at(server.seen, "/completions") > 2:
            say.how = "hang"
        return say

    with serving(behave) as server:
        configure(folder, server.url, judge="concurrency = 2")
        process = started(folder)
        wait_until(lambda: asked_at(server.seen, "/completions") > 3, process)
        began = time.process_time(), time.monotonic()
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=30)
        assert process.returncode == 6, said
        document = json.loads(out)
        assert (document["state"], document["stopped"], document["judge_calls"]) == (
            "incomplete",
            "interrupted",
            2,
        )
        # Two seconds on a machine that has nothing else to do.
        assert time.monotonic() - began[1] < 10
        is_slow.clear()
        whole = json.loads(started(folder).communicate(timeout=60)[0])
        assert (whole["run_id"], whole["state"]) == (document["run_id"], "complete")
        assert (whole["judge_calls"], whole["uncertain"]) == (N, 2)


def test_whoever_interrupts_twice_has_the_terminal_back_at_once(folder):
    def behave(seen):
        say = kb(seen)
        say.how = "whole" if seen.path.endswith("/ask") else "hang"
        return say

    with serving(behave) as server:
        configure(folder, server.url)
        process = started(folder)
        wait_until(lambda: asked_at(server.seen, "/completions") > 0, process)
        # Two of the same kind could arrive as one.
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
        assert (process.returncode, "Traceback" in said) == (130, False), said


def test_two_suites_at_once_ask_for_a_judgement_that_both_need_once(folder):
    def behave(seen):
        say = kb(seen)
        # Long enough for the other one to need it as well.
        say.after = 0.0 if seen.path.endswith("/ask") else 1.0
        return say

    with serving(behave) as server:
        configure(folder, server.url)
        settings = folder / "eval-pipeline.toml"
        nightly = settings.read_text("utf-8")
        settings.write_text(nightly + nightly.partition("[suites.nightly]")[2].join(["[suites.weekly]", ""]))
        processes = [started(folder, suite=name) for name in ("nightly", "weekly")]
        said = [process.communicate(timeout=60) for process in processes]
        assert [process.returncode for process in processes] == [0, 0], said
        assert (asked_at(server.seen, "/ask"), asked_at(server.seen, "/completions")) == (2 * N, N)
    found = [json.loads(out) for out, _ in said]
    assert sum(one["judge_calls"] for one in found) == sum(one["cached"] for one in found) == N


def test_the_line_says_what_is_done_waited_for_and_spent():
    import datetime as dt

    progress = Progress(40, 12, 3, 8, 1, 65.0, 0.0123, 80.0)
    line = line_of("judging", progress, dt.datetime(2026, 9, 1, 2, 12))
    assert line == (
        "judging 12 of 40 · 3 cached · 8 in flight · waiting until 02:13:05 · 1 failed · 0.012 USD · 1:20 left"
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_command_killed_by_the_dozen_makes_the_same_bundle(folder, seed):
    """40 kills in all, each somewhere in asking, judging or writing."""
    import random

    drawn = random.Random(seed)

    def slow(seen):
        say = kb(seen)
        return Say(say.document, after=0.02)

    with serving(slow) as server:
        configure(folder, server.url, judge="concurrency = 4")
        kills = 0
        while kills < 10:
            process = started(folder, "--run-id", f"night-{kills // 5}")
            before = len(server.seen)
            wanted = before + drawn.randrange(0, 4)
            wait_until(lambda so_many=wanted: len(server.seen) > so_many, process)
            process.kill()
            process.communicate()
            kills += 1
        for number in (0, 1):
            process = started(folder, "--run-id", f"night-{number}")
            out, said = process.communicate(timeout=60)
            assert process.returncode == 0, said
            assert json.loads(out)["uncertain"] <= 8 * 5
        # At most so many twice as were under way when it was killed.
        assert asked_at(server.seen, "/ask") <= 2 * N + 8 * kills
    bundles = [folder / "data" / "evaluations" / f"night-{number}" for number in (0, 1)]
    rows = [rows_of(str(bundle)) for bundle in bundles]
    assert [row["query_id"] for row in rows[0]] == [row["query_id"] for row in rows[1]]
    assert [row["raw"] for row in rows[0]] == [row["raw"] for row in rows[1]]
