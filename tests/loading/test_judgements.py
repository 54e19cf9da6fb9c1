"""What judges said is a delivery like any other: it replaces what it names, is parsed by a formula, and scores the run."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from eval_pipeline.comparing.compare import compare
from eval_pipeline.comparing.gate import gate
from eval_pipeline.computing.states import states_of_cells
from eval_pipeline.documents import as_json
from eval_pipeline.loading.context import LoadOptions
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.planning.named_runs import LATEST, find_named
from eval_pipeline.showing.show import show_run
from eval_pipeline.upkeep.forget import Request, forget
from eval_pipeline.upkeep.rebuild import rebuild
from tests.bundle_files import ask, compute, day, load, settings_in, write_golden, write_lines, write_run
from tests.few_definitions import OF_EVERY_KIND
from tests.projects import project_of

SHIPS = OF_EVERY_KIND

QUERIES = ("q1", "q2")
SECRET = "swordfish"


def judgement(query_id, score, *, of="groundedness", **more):
    said = json.dumps({"score": score, "supported_claims": [f"about {SECRET}"]})
    return {"query_id": query_id, "ask": of, "judge": "one", "raw": said, "model": "m", "version": "1"} | more


def write_bundle(folder, run_id, judgements, *, requests=(), **run):
    write_golden(folder, [{"query_id": one} for one in QUERIES])
    rows = [{"query_id": one, "answer": {"text": "a"}} for one in QUERIES]
    written = write_run(folder, run_id, rows, suite="nightly", **run)
    if judgements:
        write_lines(written / "judgements.jsonl", judgements)
    if requests:
        write_lines(written / "requests.jsonl", requests)
    return folder


def scores(settings, column="judge_groundedness"):
    return ask(
        settings,
        f"select run_id, query_id, {column} from metrics.judge_scores join raw.runs using (run_key) "
        "join raw.query_ids using (query_key) order by all",
    )


def stale(settings):
    """Run → the tables that are stale, as `plan` would list them."""
    with project_of(settings).read() as store, states_of_cells(store) as cells:
        rows = cells.rows("run_id, definition, reason", "reason is not null and source = ''")
    found = {}
    for run_id, definition, reason in rows:
        found.setdefault(run_id, {})[definition] = reason
    return found


@pytest.fixture
def world(tmp_path):
    """A run judged by one judge, one by two, one by none."""
    settings = settings_in(tmp_path)
    first = [judgement(one, 4) for one in QUERIES]
    second = [judgement(one, 2, judge="two", model="m2") for one in QUERIES]
    request = {"request": "h1", "body": {"messages": [f"about {SECRET}"]}}
    both = write_bundle(tmp_path / "both", "both", first, requests=[request], created_at="2026-09-02")
    more = write_bundle(tmp_path / "more", "both", second, created_at="2026-09-02")
    alone = write_bundle(tmp_path / "alone", "alone", first, created_at="2026-09-01")
    none = write_bundle(tmp_path / "none", "none", [], created_at="2026-08-31")
    load(settings, both, alone, none)
    load(settings, more, on=2)
    compute(settings, on=3)
    return SimpleNamespace(settings=settings, both=both, more=more, folder=tmp_path)


def test_a_delivery_takes_the_place_of_what_it_names_and_the_judge_delivered_last_scores(world):
    assert scores(world.settings) == [
        *(("alone", one, 4) for one in QUERIES),
        *(("both", one, 2) for one in QUERIES),
        *(("none", one, None) for one in QUERIES),
    ]
    again = write_bundle(world.folder / "again", "both", [judgement("q1", 1, judge="two")])
    assert load(world.settings, again, on=4).runs == ["both"]
    compute(world.settings, on=5)
    left = ask(world.settings, "select judge, count(*) from raw.judgements group by all order by all")
    assert left == [("one", 4), ("two", 1)]
    assert scores(world.settings)[2:4] == [("both", "q1", 1), ("both", "q2", None)]


def test_the_same_bytes_again_change_nothing_also_where_others_came_since(world):
    assert load(world.settings, world.both, on=6).runs == []
    assert load(world.settings, world.more, on=7).runs == []


def test_who_is_named_first_scores_and_only_runs_with_a_choice_become_stale(world):
    config = world.settings.config
    config.write_text('[suites.nightly]\njudges = ["one", "two"]\n', "utf-8")
    found = stale(world.settings)
    assert found.keys() == {"both"}
    assert found["both"]["facts.verdicts"] == "formula"
    assert "facts.judgements" not in found["both"]
    compute(world.settings, reasons=None, on=8)
    assert scores(world.settings)[2:4] == [("both", one, 4) for one in QUERIES]
    config.write_text('[suites.nightly]\njudges = ["one", "two", "three"]\n', "utf-8")
    assert stale(world.settings) == {}


def test_what_cannot_be_taken_is_in_quarantine_and_the_rest_scores(tmp_path):
    settings = settings_in(tmp_path)
    rows = [
        judgement("q1", 3),
        judgement("q1", 4),
        judgement("q2", 3, status="great"),
        {"query_id": "q2"},
        judgement("q2", 5, of="correctness", repeat=-1),
        judgement("elsewhere", 5),
    ]
    report = load(settings, write_bundle(tmp_path / "b", "r", rows))
    assert [(problem.line, problem.field) for problem in report.problems] == [
        (2, None),
        (3, "status"),
        (4, "ask"),
        (5, "repeat"),
    ]
    findings = [(one.rule, one.query_id) for one in report.warnings]
    assert ("judgement_of_unknown_query", "elsewhere") in findings
    compute(settings)
    assert scores(settings) == [("r", "q1", 3), ("r", "q2", None)]


def test_what_became_of_the_answers_is_counted_and_said_where_a_score_is_missing(tmp_path):
    settings = settings_in(tmp_path)
    rows = [
        *(judgement(one, 0, raw="I cannot say") for one in QUERIES),
        judgement("q1", 0, of="correctness", raw=None, status="skipped", reason="no context"),
        judgement("q2", 5, of="correctness", purpose="spot_check", judge="two"),
    ]
    load(settings, write_bundle(tmp_path / "b", "r", rows))
    compute(settings)
    shown = show_run(project_of(settings), "r")
    assert shown.judge_coverage.judgements == {
        "correctness": {"skipped (no context)": 1},
        "groundedness": {"unparsed": 2},
    }
    assert shown.undefined["judge_groundedness"] == "2 unparsed"
    assert shown.judge_reliability.spot_check_n == 0


@pytest.mark.slow
def test_left_out_texts_leave_the_verdicts_and_forgotten_ones_are_nowhere(world):
    settings = settings_in(world.folder / "textless")
    project = project_of(settings, now=day(1))
    load(settings)
    load_bundles([world.both], project, options=LoadOptions(no_text=True))
    compute(settings)
    assert scores(settings) == [("both", one, 4) for one in QUERIES]
    forget(project_of(world.settings, now=day(9)), Request("run", "both", text=True))
    for one in (settings, world.settings):
        texts = ask(
            one,
            "select raw_answer from raw.judgements join raw.runs using (run_key) where run_id = 'both' "
            "union all select text from raw.judge_requests join raw.texts on text_key = body_key",
        )
        assert SECRET not in repr(texts)
    kept = b"".join(path.read_bytes() for path in (world.folder / "e.duckdb.deliveries").rglob("*both*/*"))
    assert SECRET.encode() not in kept


@pytest.mark.slow
def test_a_store_made_anew_holds_what_several_deliveries_left(world):
    before = ask(world.settings, "select judge, raw_answer from raw.judgements order by all")
    rebuild(project_of(world.settings, now=day(9)))
    assert ask(world.settings, "select judge, raw_answer from raw.judgements order by all") == before
    compute(world.settings, on=10)
    assert scores(world.settings)[2:4] == [("both", one, 2) for one in QUERIES]


def test_other_judges_are_marked_in_a_comparison_by_what_they_were_asked(world):
    found = compare(project_of(world.settings), "alone", "both")
    assert any("for groundedness (model 'm' and 'm2'" in one for one in found.warnings)
    assert found.caveats["judge_groundedness"] == "judge configurations differ"


def test_judgements_beside_delivered_scores_are_another_kind_of_score_and_no_other_definition(world):
    rows = [
        {"query_id": one, "answer": {"text": "a"}, "judge": {"groundedness": {"score": 3}}} for one in QUERIES
    ]
    write_run(world.folder / "delivered", "delivered", rows, suite="nightly", created_at="2026-09-03")
    load(world.settings, world.folder / "delivered", on=4)
    compute(world.settings, on=5)
    project = project_of(world.settings)
    found = compare(project, "delivered", "alone")
    (said,) = [one for one in found.warnings if "judge_scores" in one]
    assert said.startswith("values made of different kinds of scores (judgements or delivered ones")
    assert said.endswith("computing them again changes nothing")
    assert {"same definitions", "scores of another kind"} <= set(found.trust)
    rule = 'metric = "judge_groundedness"\nmargin = 0.5\nminimum_n = 1\n'
    world.settings.config.write_text(
        f'[gate]\ndefaults = false\nevidence = "margin"\n[[gate.rules]]\n{rule}', "utf-8"
    )
    judged = gate(project_of(world.settings), "alone", "delivered")
    assert any("different kinds of scores" in one for one in judged.preconditions)


def test_twenty_second_judgements_say_how_far_two_judges_agree_beyond_chance(tmp_path):
    settings, queries = settings_in(tmp_path), [f"q{number}" for number in range(20)]
    write_golden(tmp_path, [{"query_id": one} for one in queries])
    written = write_run(tmp_path, "checked", [{"query_id": one, "answer": {"text": "a"}} for one in queries])
    first = [judgement(one, at % 6) for at, one in enumerate(queries)]
    second = [
        judgement(one, at % 6, judge="two", purpose="spot_check") for at, one in enumerate(queries[:19])
    ]
    write_lines(written / "judgements.jsonl", [*first, *second])
    load(settings, tmp_path)
    compute(settings)
    assert as_json(show_run(project_of(settings), "checked").judge_reliability) == {
        "disagreement_rate": 0,
        "spot_check_n": 19,
    }
    second.append(judgement(queries[19], 0, judge="two", purpose="spot_check"))
    write_lines(written / "judgements.jsonl", [*first, *second])
    load(settings, tmp_path, on=2)
    compute(settings, on=3)
    found = show_run(project_of(settings), "checked").judge_reliability
    assert (found.spot_check_n, found.kappa_high) == (20, 1)
    assert 0.8 < found.kappa < 1 and found.kappa_low < found.kappa


def test_a_canary_that_sings_otherwise_is_a_problem_of_the_judge(world):
    rows = [judgement(one, 0, purpose="canary", repeat=1) for one in QUERIES]
    load(world.settings, write_bundle(world.folder / "canary", "later", rows, created_at="2026-09-04"), on=4)
    compute(world.settings, on=5)
    shown = show_run(project_of(world.settings), "later")
    assert any("0 of the season's first 2 answers" in one for one in shown.judge_config_problems)
    found = compare(project_of(world.settings), "alone", "later")
    assert any("has changed within its season" in one for one in found.warnings)


def test_a_run_that_is_not_finished_is_no_baseline_and_no_candidate(world):
    folder = world.folder / "unfinished"
    write_bundle(folder, "unfinished", [], created_at="2026-09-05", evaluation={"state": "incomplete"})
    load(world.settings, folder, on=4)
    compute(world.settings, on=5)
    project = project_of(world.settings)
    assert find_named(project, [LATEST]) == ("both",)
    for pair in (("both", "unfinished"), ("unfinished", "both")):
        document = gate(project, pair[0], baseline=pair[1])
        assert document.verdict == "inconclusive"
        assert any("has not come to its end" in one for one in document.preconditions)


def test_an_evaluation_in_another_form_rejects_the_run(tmp_path):
    folder = write_bundle(tmp_path / "b", "r", [], evaluation={"state": "half"})
    report = load(settings_in(tmp_path), folder)
    assert report.rejected == ["r"]
    assert report.problems[0].field == "evaluation.state"
