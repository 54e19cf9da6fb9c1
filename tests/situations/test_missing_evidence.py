"""Scores, cases and labels that are missing must not read like evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.bundle_files import Row
from tests.situations.conftest import new_desk
from tests.situations.desk import Desk

SHIPS = (
    *("facts.chunk_ranks", "facts.found_chunks", "facts.outcomes", "facts.judgements", "facts.verdicts"),
    *("facts.extraction_outcomes", "metrics.failures", "metrics.hit_at_k", "metrics.judge_scores"),
    *(
        "metrics.reciprocal_rank",
        "metrics.refusal_correctness",
        "metrics.scores",
        "aggregates.extraction_summary",
    ),
    *("aggregates.judge_summary", "aggregates.run_metrics"),
)
N = 200
CORRECT = range(100)
# The judge of the candidate returns nothing for 80 of the 100 correct answers.
LOST = range(20, 100)
PASS, FAIL, INCONCLUSIVE = 0, 1, 4


def judged_answers(lost: range = range(0), *, correct: range = CORRECT) -> list[Row]:
    """Answers with a score of 5 for the correct ones and of 4 for the others, without the lost scores."""
    return [
        answer(number) | ({} if number in lost else correctness(5 if number in correct else 4))
        for number in range(N)
    ]


def answer(number: int) -> Row:
    hit = {"chunk_id": f"c{number}", "doc_id": f"d{number}"}
    return {"query_id": f"q{number:03}", "hits_top_k": [hit], "answer": {"text": f"answer {number}"}}


def correctness(score: int) -> Row:
    return {"judge": {"correctness": {"score": score}}}


def golden(n: int = N) -> list[Row]:
    return [{"query_id": f"q{number:03}", "expected_chunk_ids": [f"c{number}"]} for number in range(n)]


JUDGE = {"judge": {"model": "m", "version": "1", "temperature": 0, "prompt_version": "p"}}
RUN = {"suite": "nightly", "config": {"chunker_version": "v1", **JUDGE}}
RUNS = {
    "all": judged_answers(),
    "part": judged_answers(LOST),
    "part-2": judged_answers(LOST),
    "few": judged_answers(range(3, 6)),
    "worse": judged_answers(range(150, 155), correct=range(0)),
}


@pytest.fixture(scope="module")
def desk_of_judges(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Desk:
    """Runs of one system, whose judge scored all answers, a part of them, or nearly all."""
    desk = new_desk(tmp_path_factory.mktemp("judges") / "desk", empty_store)
    desk.golden(golden())
    for number, (run_id, results) in enumerate(RUNS.items(), start=1):
        desk.run(run_id, results, created_at=f"2026-09-{number:02}T02:00:00Z", **RUN)
    desk.load()
    return desk


def rule_of(document: Any, metric: str) -> Any:
    (rule,) = [rule for rule in document["rules"] if rule["metric"] == metric and rule["kind"] != "drift"]
    return rule


def written_rule(desk: Desk, tmp_path: Path, text: str) -> Path:
    """Write a configuration beside the store, for `--config`."""
    path = tmp_path / "gate.toml"
    path.write_text(f"[gate]\ndrift_nights = 0\n{text}", "utf-8")
    return path


def test_a_gate_does_not_pass_when_the_judge_scored_only_a_part(desk_of_judges: Desk) -> None:
    output = desk_of_judges("gate", "part", "--baseline", "all", "--json")
    rule = rule_of(output.json, "judge_correctness")
    # 120 answers are scored in both runs, and they agree: 20 with 5 and 100 with 4.
    assert rule["baseline"] == rule["candidate"] == pytest.approx((20 * 5 + 100 * 4) / 120, abs=1e-4)
    assert (output.code, rule["verdict"]) == (INCONCLUSIVE, "inconclusive")
    assert "scored 120 of 200" in rule["reason"]
    assert "scored 120 of 200" in desk_of_judges("gate", "part", "--baseline", "all").text


def test_answers_that_neither_run_scored_do_not_cancel_out(desk_of_judges: Desk) -> None:
    output = desk_of_judges("gate", "part-2", "--baseline", "part", "--json")
    rule = rule_of(output.json, "judge_correctness")
    assert (output.code, rule["verdict"]) == (INCONCLUSIVE, "inconclusive")
    assert "scored 120 of 200" in rule["reason"]


def test_a_few_missing_scores_that_decide_nothing_do_not_hold_up_a_gate(desk_of_judges: Desk) -> None:
    output = desk_of_judges("gate", "few", "--baseline", "all", "--json")
    # Three scores of 0 in place of three of 5 lose 15/200 = 0.075 of the margin of 0.2.
    assert (output.code, rule_of(output.json, "judge_correctness")["verdict"]) == (PASS, "pass")


def test_a_gate_fails_when_the_best_scores_for_the_missing_ones_fail_too(desk_of_judges: Desk) -> None:
    output = desk_of_judges("gate", "worse", "--baseline", "all", "--json")
    # Worse by 100/200 = 0.5. Five missing scores of 5 in place of 4 would make it 95/200.
    assert (output.code, rule_of(output.json, "judge_correctness")["verdict"]) == (FAIL, "fail")


def test_a_target_is_not_met_by_the_scored_answers_alone(desk_of_judges: Desk, tmp_path: Path) -> None:
    rules = '[[gate.rules]]\nmetric = "judge_correctness"\nat_least = 4\n'
    config = written_rule(desk_of_judges, tmp_path, rules)
    output = desk_of_judges("gate", "part", "--baseline", "all", "--config", config, "--json")
    rule = rule_of(output.json, "judge_correctness")
    # With 0 for the 80 missing scores the mean is (20 * 5 + 100 * 4) / 200 = 2.5.
    assert (output.code, rule["verdict"]) == (INCONCLUSIVE, "inconclusive")
    assert "scored 120 of 200" in rule["reason"]


def test_a_gate_does_not_skip_a_judge_that_scored_too_few_answers(desk: Desk) -> None:
    desk.golden(golden())
    for day, run_id in enumerate(("before", "after"), start=1):
        desk.run(run_id, judged_answers(range(20, N)), created_at=f"2026-09-{day:02}T02:00:00Z", **RUN)
    desk.load()
    output = desk("gate", "after", "--baseline", "before", "--json")
    assert output.code == INCONCLUSIVE
    assert "20 of 200" in rule_of(output.json, "judge_correctness")["reason"]


def test_a_score_without_a_known_range_does_not_pass_when_a_part_is_missing(
    desk: Desk, tmp_path: Path
) -> None:
    desk.golden(golden())
    for day, (run_id, lost) in enumerate((("before", range(0)), ("after", LOST)), start=1):
        results = [
            answer(number) | ({} if number in lost else {"scores": {"points": 7 + number % 3}})
            for number in range(N)
        ]
        desk.run(run_id, results, created_at=f"2026-09-{day:02}T02:00:00Z", **RUN)
    desk.load()
    config = written_rule(desk, tmp_path, '[[gate.rules]]\nmetric = "scores.points"\nmargin = 1\n')
    output = desk("gate", "after", "--baseline", "before", "--config", config, "--json")
    rule = rule_of(output.json, "scores.points")
    assert (output.code, rule["verdict"]) == (INCONCLUSIVE, "inconclusive")
    assert "scored 120 of 200" in rule["reason"] and "range" in rule["reason"]


def test_a_comparison_prints_the_range_that_missing_scores_leave_open(desk_of_judges: Desk) -> None:
    output = desk_of_judges.must("compare", "all", "part")
    # 80 scores of 5 are unknown in the candidate: with 0 for all of them 80 * -5 / 200, with 5 nothing changes.
    assert "judge_correctness: scored 120 of 200 in part" in output.text
    assert "between -2.0000 and +0.0000" in output.text.replace("−", "-")
    found = desk_of_judges.must("compare", "all", "part", "--json").json["coverage"]["judge_correctness"]
    assert (found["a"], found["b"]) == ({"scored": 200, "needed": 200}, {"scored": 120, "needed": 200})
    assert (found["change_low"], found["change_high"]) == (-2, 0)


def test_a_comparison_calls_nothing_better_that_missing_scores_could_undo(desk: Desk) -> None:
    desk.golden(golden())
    before = [answer(number) | correctness(2 if number < 100 else 4) for number in range(N)]
    after = [answer(number) | ({} if number < 100 else correctness(5)) for number in range(N)]
    for day, (run_id, results) in enumerate((("before", before), ("after", after)), start=1):
        desk.run(run_id, results, created_at=f"2026-09-{day:02}T02:00:00Z", **RUN)
    desk.load()
    document = desk.must("compare", "before", "after", "--json").json
    assert document["significance"]["judge_correctness"]["verdict"] == "not shown"
    # 100 answers rise by 1. The others had 2 and may have 0 or 5 now.
    found = document["coverage"]["judge_correctness"]
    assert found["change_low"] == pytest.approx((100 * 1 + 100 * -2) / 200)
    assert found["change_high"] == pytest.approx((100 * 1 + 100 * 3) / 200)


def test_show_tells_how_many_answers_were_scored(desk_of_judges: Desk) -> None:
    assert "judge_correctness 4.1667 120 of 200" in desk_of_judges.must("show", "part").text
    assert "197 of 200" not in desk_of_judges.must("show", "few").text
    document = desk_of_judges.must("show", "few", "--json").json
    assert document["score_coverage"]["judge_correctness"] == {"scored": 197, "needed": 200}


def extract(desk: Desk, run_id: str, cases: list[str], *, day: int, **run: Any) -> None:
    """Write a run of extraction cases without any error."""
    fields = {"name": "x", "year": 2026}
    rows = [{"case_id": case, "ground_truth": fields, "extracted": fields} for case in cases]
    folder = desk.run(run_id, [], dataset="forms", created_at=f"2026-09-{day:02}T02:00:00Z", **run)
    (folder / "results.jsonl").unlink()
    desk.lines(f"bundle/runs/{run_id}/extractions.jsonl", rows)


FIVE_CASES = ["e1", "e2", "e3", "e4", "e5"]


def test_a_target_is_undecided_when_a_case_of_earlier_runs_is_missing(desk: Desk) -> None:
    extract(desk, "five", FIVE_CASES, day=1, suite="forms")
    extract(desk, "four", FIVE_CASES[:4], day=2, suite="forms")
    desk.load()
    assert desk.must("show", "four", "--json").json["extraction"]["target_met"] is None
    shown = desk.must("show", "four").text
    assert "target 0.90 undecided" in shown and "cases.jsonl" in shown and "extraction_cases" in shown
    output = desk("gate", "four", "--baseline", "five")
    assert output.code == INCONCLUSIVE
    assert "1 of 5 cases of earlier runs is missing: e5" in output.text and "cases.jsonl" in output.text
    desk.text("eval-pipeline.toml", "[datasets.forms]\nextraction_cases = 4\n")
    assert desk.must("show", "four", "--json").json["extraction"]["target_met"] is True
    assert desk("gate", "four", "--baseline", "five").code == PASS


def test_a_gate_expects_the_cases_of_a_baseline_of_another_suite(desk: Desk) -> None:
    extract(desk, "five", FIVE_CASES, day=1, suite="forms")
    extract(desk, "four", FIVE_CASES[:4], day=2, suite="forms-of-a-branch")
    desk.load()
    output = desk("gate", "four", "--baseline", "five")
    assert output.code == INCONCLUSIVE and "1 of 5 cases of earlier runs is missing: e5" in output.text


def write_files(desk: Desk, n: int = 60, *, failed: int = 0) -> None:
    """Two files without labels that differ in every hit; the first queries of the new one may have failed."""
    for name in ("old", "new"):
        rows: list[Row] = [
            {"query_id": f"q{number}", "retrieved": [f"{name}-{number}"], "response": f"{name} {number}"}
            | {"gold_refs": [f"old-{number}"]}
            | ({"error": "late", "response": None} if name == "new" and number < failed else {})
            for number in range(n)
        ]
        desk.lines(f"{name}.jsonl", rows)


def test_files_without_labels_have_nothing_to_judge_retrieval_by(desk: Desk) -> None:
    write_files(desk)
    output = desk.must("compare", "old.jsonl", "new.jsonl")
    assert "No difference shown" not in output.text
    headline = output.stdout.splitlines()[1:3]
    assert " ".join(headline).startswith("Nothing to judge retrieval by: no labels found (`gold_refs` looks")
    assert "`gold_refs` looks like them: rename or map it" in output.text


def test_a_gate_on_files_without_labels_does_not_pass(desk: Desk) -> None:
    write_files(desk)
    output = desk("gate", "new.jsonl", "--baseline", "old.jsonl")
    assert output.code == INCONCLUSIVE
    assert "nothing to judge retrieval by: no labels found (`gold_refs` looks like them" in output.text


def test_a_gate_on_files_without_labels_fails_when_errors_rise(desk: Desk) -> None:
    write_files(desk, failed=30)
    assert desk("gate", "new.jsonl", "--baseline", "old.jsonl").code == FAIL


def test_stored_runs_without_a_golden_set_pass_by_written_rules_alone(desk: Desk, tmp_path: Path) -> None:
    for day, run_id in enumerate(("before", "after"), start=1):
        rows = [{"query_id": f"q{number:03}", **found(run_id, number)} for number in range(60)]
        desk.run(run_id, rows, created_at=f"2026-09-{day:02}T02:00:00Z", **RUN)
    desk.load()
    output = desk("gate", "after", "--baseline", "before")
    assert output.code == INCONCLUSIVE and "no labels found" in output.text
    assert "No difference shown" not in desk.must("compare", "before", "after").text
    config = written_rule(desk, tmp_path, '[[gate.rules]]\nmetric = "error_rate"\nmargin = 0.1\n')
    assert desk("gate", "after", "--baseline", "before", "--config", config).code == PASS


def found(name: str, number: int) -> Row:
    hit = {"chunk_id": f"{name}-{number}", "doc_id": f"d{number}"}
    return {"hits_top_k": [hit], "answer": {"text": name}}


def test_a_gate_reports_what_labels_know_of_the_ids_and_which_labels_are_stale(desk: Desk) -> None:
    desk.golden(golden(60))
    # The inventory of the chunker lacks 20 of the 60 expected chunks.
    chunks = [{"chunk_id": f"c{number}", "doc_id": f"d{number}"} for number in range(40)]
    desk.inventory("v1", chunks)
    other = {"chunk_id": "x", "doc_id": "dx"}
    for day, run_id in enumerate(("before", "after"), start=1):
        rows = [answer(number) for number in range(60)]
        rows[0] = {"query_id": "q000", "hits_top_k": [other], "answer": {"text": "a"}}
        bad = {"query_id": "q001", "hits_top_k": 7}
        desk.run(run_id, [*rows, *([bad] if run_id == "after" else [])], **RUN, night=f"2026-09-{day:02}")
    desk.load()
    output = desk("gate", "after", "--baseline", "before")
    ids = "after: 59 of 60 retrieved ids are named by a label of kb"
    stale = "stale labels: 20 expected ids not in the run's inventory (chunker 'v1')"
    rejected = "in quarantine for after: 1 row"
    notes = desk("gate", "after", "--baseline", "before", "--json").json["notes"]
    for sentence in (ids, stale, rejected):
        assert sentence in output.text
        assert any(note.startswith(sentence) for note in notes), notes


def refusals(grounded: bool | None) -> list[Row]:
    """Answers to 40 unanswerable questions of 200; None: without a word on whether they are grounded."""
    rows = [answer(number) for number in range(N)]
    if grounded is not None:
        for number, row in enumerate(rows):
            row["answer"]["grounded"] = grounded or number >= 40
    return rows


def failed(number: int) -> Row:
    return {"query_id": f"q{number:03}", "error": "no connection", "hits_top_k": []}


def empty(number: int) -> Row:
    return {"query_id": f"q{number:03}", "hits_top_k": []}


@pytest.fixture(scope="module")
def desk_of_gaps(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Desk:
    """Runs that stopped refusing, stopped reporting, failed, or delivered nothing."""
    desk = new_desk(tmp_path_factory.mktemp("gaps") / "desk", empty_store)
    labels = [{**row, "expected_doc_ids": [f"d{number}"]} for number, row in enumerate(golden())]
    desk.golden(
        [{**row, "expected_chunk_ids": [], "expected_doc_ids": []} for row in labels[:40]] + labels[40:]
    )
    scored = [{**answer(number), "scores": {"style": number % 3}} for number in range(N)]
    # The scores of 80 of 200 answers are missing; the others fall from 3 to 2.
    worse = [answer(number) | ({} if number % 5 < 2 else correctness(2)) for number in range(N)]
    runs = {
        "refusing": refusals(False),
        "answering": refusals(True),
        "silent": refusals(None),
        "failed": [failed(number) for number in range(N)],
        "failed-2": [failed(number) for number in range(N)],
        "empty": [empty(number) for number in range(N)],
        "empty-2": [empty(number) for number in range(N)],
        "scored": scored,
        "unscored": [answer(number) for number in range(N)],
        "judged": [answer(number) | correctness(3) for number in range(N)],
        "judged-worse": worse,
    }
    for number, (run_id, results) in enumerate(runs.items(), start=1):
        desk.run(run_id, results, created_at=f"2026-09-{number:02}T02:00:00Z", **RUN)
    desk.load()
    return desk


def test_a_gate_fails_when_no_unanswerable_question_is_refused_any_more(desk_of_gaps: Desk) -> None:
    output = desk_of_gaps("gate", "answering", "--baseline", "refusing", "--json")
    rule = rule_of(output.json, "refusal_correctness")
    assert (output.code, rule["baseline"], rule["candidate"], rule["n"]) == (FAIL, 1.0, 0.0, 40)


def test_a_gate_does_not_pass_when_a_metric_is_no_longer_measured(desk_of_gaps: Desk) -> None:
    output = desk_of_gaps("gate", "silent", "--baseline", "refusing", "--json")
    rule = rule_of(output.json, "refusal_correctness")
    assert (output.code, rule["verdict"], rule["required"]) == (INCONCLUSIVE, "inconclusive", True)
    assert (
        "No longer measured: refusal_correctness" in desk_of_gaps.must("compare", "refusing", "silent").text
    )


def test_a_gate_does_not_pass_two_runs_in_which_every_query_failed(desk_of_gaps: Desk) -> None:
    output = desk_of_gaps("gate", "failed-2", "--baseline", "failed", "--json")
    assert output.code == INCONCLUSIVE
    assert "every query of failed-2 failed" in output.json["preconditions"][0]


def test_a_gate_does_not_pass_two_runs_that_delivered_nothing(desk_of_gaps: Desk) -> None:
    output = desk_of_gaps("gate", "empty-2", "--baseline", "empty", "--json")
    assert output.code == INCONCLUSIVE
    assert "delivered no hit, no answer and no score" in output.json["preconditions"][0]


def test_a_collapse_that_missing_scores_could_undo_is_undecided(desk_of_gaps: Desk) -> None:
    text = desk_of_gaps.must("compare", "judged", "judged-worse").text
    assert "Undecided: judge_correctness 3.00 → 2.00 on the 120 scored, and 80 missing scores decide" in text
    assert "No significant change" not in text


def test_a_score_without_a_rule_does_not_vanish_in_silence(desk_of_gaps: Desk) -> None:
    output = desk_of_gaps("gate", "unscored", "--baseline", "scored", "--json")
    assert any(line.startswith("scores.style: no longer measured") for line in output.json["skipped"])
    assert "No longer measured: scores.style" in desk_of_gaps.must("compare", "scored", "unscored").text
