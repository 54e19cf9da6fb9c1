"""A suite evaluated from its golden set to stored numbers, stopped and continued, and judged again."""

from __future__ import annotations

import json
import threading
from functools import partial

import pytest

from eval_pipeline.errors import InvalidConfig, UsageError
from eval_pipeline.evaluating.known import known_answers
from eval_pipeline.planning.evaluate import Wish, plan_evaluation, read_setup
from eval_pipeline.planning.paid_calls import find_calls, prune_calls
from eval_pipeline.planning.plan import find_plan
from eval_pipeline.planning.rejudge import load_rejudged, plan_rejudging, rejudge
from eval_pipeline.planning.status import find_status
from eval_pipeline.report.pages.collect import pair_page
from eval_pipeline.upkeep.forget import find_request, forget
from tests.bundle_files import ask, compute, load, settings_in, write_run
from tests.evaluating.asking import KEY
from tests.evaluating.faulty_server import Say, refusal, serving
from tests.evaluating.suites import (
    N,
    asked_at,
    configure,
    evaluated,
    kb,
    project_in,
    rows_of,
    take_golden_set,
)
from tests.few_definitions import OF_EVERY_KIND

SHIPS = OF_EVERY_KIND

JUDGE = "/chat/completions"
OWN_PROMPT = """---
version: mine
schema: {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}
---
Is it so? {query} {answer} {context}
"""


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", KEY)


@pytest.fixture
def folder(tmp_path):
    take_golden_set(tmp_path)
    return tmp_path


def judged_again(folder, run_ids, **options):
    project = project_in(folder, on=9)
    found = rejudge(project, run_ids, stop=threading.Event(), **options)
    load_rejudged(project, found)
    return found


def write_prompt(folder, text=OWN_PROMPT):
    place = folder / "prompts" / "judge" / "groundedness.md"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, "utf-8")


def test_a_suite_becomes_a_run_with_answers_judgements_and_numbers(folder):
    with serving(kb) as server:
        configure(folder, server.url)
        (found,) = evaluated(folder)
        assert (asked_at(server.seen, "/ask"), asked_at(server.seen, JUDGE)) == (N, N)
    assert (found.state, found.target_calls, found.judge_calls, found.failed) == ("complete", N, N, 0)
    assert found.usd == pytest.approx(N * (100 * 2 + 20 * 8) / 1e6)
    compute(settings_in(folder))
    rows = ask(
        settings_in(folder),
        "select value from per_query_metrics where run_id = ? and metric = 'judge_groundedness' order by query_id",
        found.run_id,
    )
    told = [
        json.loads(json.loads(one["raw"])["choices"][0]["message"]["content"])["score"]
        for one in rows_of(found.bundle)
    ]
    assert [value for (value,) in rows] == told
    ((chunker, model),) = ask(settings_in(folder), "select chunker_version, judge_model from raw.runs")
    assert (chunker, model) == ("c1", "made-up-1")


def test_tonight_the_target_is_asked_again_and_the_same_answer_has_the_same_judgement(folder):
    with serving(kb) as server:
        configure(folder, server.url)
        evaluated(folder, on=2)
        (second,) = evaluated(folder, on=3)
        assert (asked_at(server.seen, "/ask"), asked_at(server.seen, JUDGE)) == (2 * N, N)
    assert (second.target_calls, second.judge_calls, second.cached, second.usd) == (N, 0, N, 0.0)


@pytest.mark.slow
def test_a_page_of_two_nights_gives_the_reasons_of_the_judgements_that_score(folder):
    def worse_tonight(seen):
        say = kb(seen)
        if seen.path.endswith("/ask") and asked_at(server.seen, "/ask") > N:
            say.document |= {"answer": "Nobody knows.", "sources": []}
        return say

    with serving(worse_tonight) as server:
        configure(folder, server.url, asks=["correctness"])
        (first,), (second,) = evaluated(folder, on=2), evaluated(folder, on=3)
    compute(settings_in(folder))
    page = partial(pair_page, project_in(folder, on=4), first.run_id, second.run_id)
    assert "correctness: made up" in page()
    assert "made up" not in page(with_text=False)


def test_what_stops_is_kept_stands_for_no_night_and_is_continued_by_the_same_command(folder):
    def until_the_money_is_gone(seen):
        is_paid = seen.path.endswith("/ask") or asked_at(server.seen, JUDGE) <= 3 or is_filled.is_set()
        return kb(seen) if is_paid else refusal(429, code="insufficient_quota")

    is_filled = threading.Event()
    with serving(until_the_money_is_gone) as server:
        configure(folder, server.url, judge="concurrency = 1")
        (stopped,) = evaluated(folder)
        assert (stopped.state, stopped.judge_calls) == ("incomplete", 3)
        assert "quota" in (stopped.stopped or "")
        settings = settings_in(folder)
        assert ask(settings, "select is_complete from run_nights") == [(False,)]
        goes_on = f"eval-pipeline evaluate nightly --run-id {stopped.run_id}"
        assert find_status(project_in(folder)).unfinished == {stopped.run_id: goes_on}
        is_filled.set()
        (whole,) = evaluated(folder, on=3)
        assert (whole.run_id, whole.state, whole.judge_calls) == (stopped.run_id, "complete", N)
        assert asked_at(server.seen, "/ask") == N
    assert ask(settings, "select is_complete, n_results from run_nights") == [(True, N)]
    assert find_status(project_in(folder)).unfinished == {}
    assert [row["query_id"] for row in rows_of(whole.bundle)] == [f"q{i}" for i in range(N)]


def test_a_run_that_was_whole_and_never_loaded_is_loaded_and_asks_nobody(folder):
    with serving(kb) as server:
        configure(folder, server.url)
        (first,) = evaluated(folder, loads=False)
        asked = len(server.seen)
        (again,) = evaluated(folder, on=4)
        assert (again, len(server.seen)) == (first, asked)
        (third,) = evaluated(folder, on=5)
        assert third.run_id != first.run_id


def test_a_budget_is_never_passed_and_a_larger_one_goes_on(folder):
    with serving(kb) as server:
        # Until it is known how many tokens a byte makes, a call is taken for far more than it costs.
        configure(folder, server.url, judge="concurrency = 1")
        (poor,) = evaluated(folder, budget_usd=0.005)
        assert poor.state == "incomplete"
        assert "budget" in (poor.stopped or "")
        assert poor.usd <= 0.005
        (rich,) = evaluated(folder, budget_usd=2.0)
        assert (rich.run_id, rich.state) == (poor.run_id, "complete")


def test_repeats_are_replicates_and_spot_check_and_canary_lie_in_the_same_bundle(folder):
    suite = 'repeats = 2\nspot_check = {judge = "second", n = 2}\ncanary = {n = 3, alarm = 0.2}'
    with serving(kb) as server:
        configure(folder, server.url, suite=suite, second=True)
        one, two = evaluated(folder, on=2)
        third, _ = evaluated(folder, on=3)
    assert two.run_id == f"{one.run_id}.e2"
    settings = settings_in(folder)
    assert ask(settings, "select replicate_of from raw.runs where run_id = ?", two.run_id) == [(one.run_id,)]
    purposes = [row["purpose"] for row in rows_of(third.bundle)]
    assert {name: purposes.count(name) for name in set(purposes)} == {"main": N, "spot_check": 2, "canary": 3}
    canary = [row for row in rows_of(third.bundle) if row["purpose"] == "canary"]
    assert not any(row["from_cache"] for row in canary)


def test_a_dry_run_says_the_calls_that_are_then_made_and_leaves_nothing(folder):
    with serving(kb) as server:
        configure(folder, server.url, suite="limit = 5")
        wish = Wish("nightly", limit=4)
        project = project_in(folder)
        planned = plan_evaluation(project, read_setup(project, wish), wish)
        assert (planned.target_calls, planned.judge_calls, planned.usd) == (4, 4, None)
        assert not server.seen
        assert not project.settings.calls.exists()
        (found,) = evaluated(folder, limit=4)
        assert (found.target_calls, found.judge_calls) == (4, 4)


def test_nothing_is_asked_where_the_set_up_lacks_something(folder, monkeypatch):
    with serving(kb) as server:
        configure(folder, server.url)
        monkeypatch.delenv("JUDGE_KEY")
        with pytest.raises(InvalidConfig, match="JUDGE_KEY"):
            evaluated(folder)
        monkeypatch.setenv("JUDGE_KEY", KEY)
        write_run(folder / "other", "r1", [{"query_id": "q1"}])
        load(settings_in(folder), folder / "other")
        with pytest.raises(UsageError, match="was not evaluated here"):
            evaluated(folder, run_id="r1")
        assert not server.seen


def test_a_prompt_that_changes_costs_exactly_the_planned_calls_and_another_parser_none(folder):
    with serving(kb) as server:
        configure(folder, server.url)
        (found,) = evaluated(folder)
        compute(settings_in(folder))
        project = project_in(folder)
        assert (find_plan(project).judge_calls, find_status(project).judge_calls) == (0, 0)
        assert plan_rejudging(project, [found.run_id]).calls == 0
        write_prompt(folder)
        before = len(server.seen)
        plan = find_plan(project_in(folder))
        assert (plan.judge_calls, plan.judged_runs) == (N, [found.run_id])
        assert plan.usd == pytest.approx(found.usd)
        assert find_status(project_in(folder)).judge_calls == N
        assert len(server.seen) == before
        again = judged_again(folder, plan.judged_runs)
        assert (len(server.seen) - before, again.runs[0].judge_calls) == (N, N)
        assert find_plan(project_in(folder)).judge_calls == 0
    settings = settings_in(folder)
    versions = ask(settings, "select distinct prompt_version from raw.judgements")
    assert [one.partition("+")[0] for (one,) in versions] == ["mine"]
    # What the run was is as it was: only its judgements were delivered.
    assert ask(settings, "select count(*) from ledger.deliveries where part = 'run'") == [(1,)]
    assert ask(settings, "select evaluation_state from raw.runs") == [("complete",)]


def test_a_season_that_is_raised_asks_all_anew_and_keeps_what_was_said(folder):
    with serving(kb) as server:
        configure(folder, server.url, judge='season = "2026-q3"')
        (found,) = evaluated(folder)
        configure(folder, server.url, judge='season = "2026-q4"')
        assert find_plan(project_in(folder)).judge_calls == N
        judged_again(folder, [found.run_id])
        assert asked_at(server.seen, JUDGE) == 2 * N
    seasons = ask(
        settings_in(folder), "select season, count(*) from raw.judgements group by all order by all"
    )
    assert seasons == [("2026-q3", N), ("2026-q4", N)]


def test_judgements_that_a_delivery_holds_are_not_paid_again_when_the_calls_are_lost(folder):
    with serving(kb) as server:
        configure(folder, server.url)
        (found,) = evaluated(folder)
        (folder / "calls.sqlite").unlink()
        asked = len(server.seen)
        assert plan_rejudging(project_in(folder), [found.run_id]).calls == 0
        assert judged_again(folder, [found.run_id]).runs[0].judge_calls == 0
        assert len(server.seen) == asked


def test_judging_that_stops_replaces_nothing(folder):
    with serving(
        lambda seen: refusal(401) if is_locked.is_set() and JUDGE in seen.path else kb(seen)
    ) as server:
        is_locked = threading.Event()
        configure(folder, server.url)
        (found,) = evaluated(folder)
        is_locked.set()
        write_prompt(folder)
        stopped = judged_again(folder, [found.run_id])
        assert (stopped.complete, stopped.runs[0].state) == ([], "incomplete")
    rows = ask(settings_in(folder), "select prompt_version, count(*) from raw.judgements group by all")
    assert [(version.startswith("mine"), n) for version, n in rows] == [(False, N)]


def test_runs_of_no_suite_are_judged_by_whom_is_named(folder):
    with serving(kb) as server:
        configure(folder, server.url, second=True)
        (found,) = evaluated(folder)
        judged_again(folder, [found.run_id], judge="second")
    judges = ask(settings_in(folder), "select judge, count(*) from raw.judgements group by all order by all")
    assert judges == [("grounded", N), ("second", N)]


def test_only_answers_that_a_delivery_holds_are_pruned(folder):
    def odd_on_the_third(seen):
        is_odd = seen.path.endswith("/ask") and asked_at(server.seen, "/ask") == 2 * N + 3
        return Say({"text": "no result"}) if is_odd else kb(seen)

    with serving(odd_on_the_third) as server:
        configure(folder, server.url)
        (first,) = evaluated(folder, on=2)
        evaluated(folder, on=3, loads=False)
        evaluated(folder, on=3)
        # One reply is no result, and could be read by another mapping.
        evaluated(folder, on=4)
        write_prompt(folder)
        evaluated(folder, on=5, loads=False)
        project = project_in(folder, on=60)
        assert prune_calls(project, 365) == 0
        assert prune_calls(project, 30) == N + 2 * N
        totals, _ = find_calls(project, None)
        assert {one.party: one.answered for one in totals} == {"judge grounded": N, "target kb": N + N}
        # A night that is whole is left as it is, and judged by what a delivery holds.
        asked = len(server.seen)
        evaluated(folder, on=61, run_id=first.run_id, loads=False)
        assert judged_again(folder, [first.run_id]).runs[0].judge_calls == 0
        assert len(server.seen) == asked


@pytest.mark.parametrize("text", [False, True])
def test_forgetting_a_run_forgets_what_it_paid_but_what_another_is_judged_by(folder, text):
    def tonight(seen):
        say = kb(seen)
        if seen.path.endswith("/ask") and asked_at(server.seen, "/ask") in (1, 2):
            say.document["answer"] = "A secret of the first night."
        return say

    with serving(tonight) as server:
        configure(folder, server.url)
        (first,) = evaluated(folder, on=2)
        (second,) = evaluated(folder, on=3)
    project = project_in(folder, on=4)
    request = find_request(project, first.run_id, kind="run", text=text, history=False)
    would = forget(project, request, dry_run=True)
    gone = forget(project, request, compacts=False)
    # Its own answers of the target, and the two judgements of answers that the second night did not give.
    assert would.calls == gone.calls == N + 2
    assert b"secret of the first" not in b"".join(
        path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "e.duckdb"
    )
    totals, _ = find_calls(project, None)
    assert sum(one.answered for one in totals) == N + N
    assert not (project.settings.evaluations / first.run_id).exists()
    assert (project.settings.evaluations / second.run_id).exists()


def test_a_run_that_was_only_begun_can_be_forgotten_too(folder):
    with serving(lambda seen: kb(seen) if seen.path.endswith("/ask") else refusal(401)) as server:
        configure(folder, server.url)
        (begun,) = evaluated(folder, loads=False)
        project = project_in(folder, on=4)
        request = find_request(project, begun.run_id, kind=None, text=False, history=False)
        assert forget(project, request, compacts=False).calls == N
        assert find_calls(project, None)[0] == []
        # Nobody goes on with it.
        (another,) = evaluated(folder, on=5, loads=False)
        assert another.run_id != begun.run_id


def test_forty_answers_are_known_for_every_shipped_ask():
    assert len(known_answers()) == 40
    assert {one.ask for one in known_answers()} == {"groundedness", "correctness", "abstention", "conflict"}
