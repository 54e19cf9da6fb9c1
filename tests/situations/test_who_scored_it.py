"""Scores and the judges, raters and programs that gave them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.situations.conftest import new_desk
from tests.situations.desk import Desk

SHIPS = (
    *(
        "facts.chunk_ranks",
        "facts.found_chunks",
        "facts.outcomes",
        "metrics.hit_at_k",
        "metrics.reciprocal_rank",
    ),
    *("metrics.scores", "metrics.judge_scores", "metrics.abstention", "metrics.latency"),
    *(
        "facts.spot_checks",
        "aggregates.judge_summary",
        "aggregates.latency_summary",
        "aggregates.run_metrics",
    ),
)
N = 40
OLD_JUDGE = {"model": "old-judge", "version": "2025-01-01", "temperature": 0, "prompt_version": "p1"}


def result(number: int, **fields: Any) -> dict[str, Any]:
    hits = [{"chunk_id": f"c{number}", "doc_id": "d", "text": f"It is {number}."}]
    return {"query_id": f"q{number}", "hits_top_k": hits, "answer": {"text": f"It is {number}."}, **fields}


def write_golden(desk: Desk, *, n: int = N, **fields: Any) -> None:
    desk.golden(
        {"query_id": f"q{i}", "query": f"What is {i}?", "expected_chunk_ids": [f"c{i}"], **fields}
        for i in range(n)
    )


def faithfulness(value: float, **scorer: str) -> dict[str, Any]:
    return {"faithfulness": {"value": value, **scorer}}


@pytest.fixture(scope="module")
def evaluators(shared_desk: Desk) -> Desk:
    """Two runs with the same answers; another version of the evaluator scores the second one 0.27 higher."""
    write_golden(shared_desk)
    for run_id, version, higher in (("monday", "1", 0.0), ("tuesday", "2", 0.27)):
        scorer = {"source": "judge", "model": "ragas-judge", "version": version}
        rows = [result(i, scores=faithfulness(0.3 + 0.01 * i + higher, **scorer)) for i in range(N)]
        shared_desk.run(run_id, rows, created_at=f"2026-09-0{version}T02:00:00Z")
    shared_desk.load()
    return shared_desk


def test_scores_of_another_evaluator_version_are_neither_better_nor_worse(evaluators: Desk) -> None:
    found = evaluators.must("compare", "monday", "tuesday", "--format", "json").json
    tested = found["significance"]["scores.faithfulness"]
    assert tested["delta"] == pytest.approx(0.27)
    assert (tested.get("verdict"), tested["p_value"]) == (None, None)
    assert "Better" not in evaluators.must("compare", "monday", "tuesday").text


def test_what_could_mislead_names_the_other_evaluator_version(evaluators: Desk) -> None:
    found = evaluators.must("compare", "monday", "tuesday", "--format", "json").json
    assert any("scores.faithfulness" in entry and "differ" in entry for entry in found["trust"])
    assert any("scores.faithfulness" in entry and "'1' and '2'" in entry for entry in found["warnings"])


def test_explain_does_not_call_another_evaluator_version_the_system(evaluators: Desk) -> None:
    found = evaluators.must("explain", "scores.faithfulness", "monday", "tuesday", "--json").json
    assert found["system"] is None
    assert found["scorer"] == pytest.approx(0.27) == found["total"]
    assert {entry["term"] for entry in found["contributors"]} == {"scorer"}


def test_a_gate_rule_on_scores_of_another_evaluator_version_is_inconclusive(evaluators: Desk) -> None:
    rules = evaluators.text(
        "gate.toml",
        '[[gate.rules]]\nmetric = "scores.faithfulness"\nmargin = 0.5\n[[gate.rules]]\nmetric = "hit@5"\nat_least = 0.9\n',
    )
    out = evaluators("gate", "tuesday", "--baseline", "monday", "--config", rules, "--json")
    assert out.code == 4, out.stderr
    found = out.json
    verdicts = {rule["metric"]: rule for rule in found["rules"]}
    assert verdicts["scores.faithfulness"]["verdict"] == "inconclusive"
    assert "version '1' and '2'" in verdicts["scores.faithfulness"]["reason"]
    assert verdicts["hit@5"]["verdict"] == "pass"


def test_diff_shows_the_other_evaluator_version(evaluators: Desk) -> None:
    differs = evaluators.must("diff", "monday", "tuesday", "--json").json["differs"]
    assert ["1", "2"] in differs.values()
    assert not any("alike" in evaluators.must("diff", "monday", "tuesday").text for _ in differs)


def test_the_configuration_of_a_run_names_the_evaluator_of_its_scores(evaluators: Desk) -> None:
    assert "ragas-judge" in evaluators.must("runs", "tuesday").text


def test_a_mean_never_mixes_human_scores_and_scores_of_a_judge(desk: Desk) -> None:
    write_golden(desk, n=4)
    judged = [result(i, scores={"style": {"value": 0.2, "source": "judge"}}) for i in range(3)]
    desk.run("monday", [*judged, result(3, scores={"style": {"value": 1.0, "source": "human"}})])
    desk.load()
    assert desk.value("monday", "scores.style") == pytest.approx(0.2)
    assert desk.value("monday", "scores.style.human") == pytest.approx(1.0)
    assert "scores.style.human" in desk.must("show", "monday").text


def judgement(number: int, ask: str = "groundedness", **fields: Any) -> dict[str, Any]:
    raw = json.dumps({"abstained": True} if ask == "abstention" else {"score": 1})
    scorer = {
        "judge": "new",
        "model": "new-judge",
        "version": "2026-01-01",
        "prompt_version": "p2",
        "season": "s2",
    }
    return {"query_id": f"q{number}", "ask": ask, "raw": raw, "temperature": 0, **scorer, **fields}


@pytest.fixture(scope="module")
def rejudged(tmp_path_factory: pytest.TempPathFactory, empty_store: Any) -> Desk:
    """A run whose old judge gave 5 to all 10 answers, and whose new judge judged 6 of them."""
    desk = new_desk(tmp_path_factory.mktemp("rejudged") / "desk", empty_store)
    write_golden(desk, n=10, answerable=True)
    rows = [result(i, judge={"groundedness": {"score": 5}}) for i in range(10)]
    for run_id in ("before", "monday"):
        folder = desk.run(run_id, rows, config={"judge": OLD_JUDGE}).relative_to(desk.folder)
    desk.lines(str(folder / "judgements.jsonl"), [judgement(i) for i in range(6)])
    desk.load()
    return desk


def test_the_mean_of_a_rejudged_run_has_no_scores_of_the_old_judge(rejudged: Desk) -> None:
    values = rejudged.per_query("monday", "judge_groundedness")
    assert {query for query, value in values.items() if value is not None} == {f"q{i}" for i in range(6)}
    assert rejudged.value("monday", "judge_groundedness") == 1.0


def test_show_counts_only_the_judgements_of_a_rejudged_run(rejudged: Desk) -> None:
    found = rejudged.must("show", "monday", "--json").json
    # Full scores without a citation are the old judge's.
    assert (found["judge_coverage"]["groundedness_n"], found["judge_coverage"]["uncited_fives"]) == (6, 0)


def test_every_output_of_a_rejudged_run_names_the_judge_that_scores_it(rejudged: Desk) -> None:
    rejudged.must("export", "monday", "--to", "exported")
    rejudged.must("report", "monday", "--output", "monday.html")
    outputs = {
        "runs": rejudged.must("runs", "monday").text,
        "show": rejudged.must("show", "monday").text,
        "config.json": (rejudged.folder / "exported" / "config.json").read_text("utf-8"),
        "page": (rejudged.folder / "monday.html").read_text("utf-8"),
    }
    assert [name for name, text in outputs.items() if "new-judge" not in text or "old-judge" in text] == []
    block = {"judge": "new", "model": "new-judge", "version": "2026-01-01", "prompt_version": "p2"}
    block |= {"season": "s2", "temperature": 0.0, "n": 6}
    assert rejudged.must("show", "monday", "--json").json["judges"] == {"groundedness": block}


def test_diff_shows_that_a_run_was_rejudged(rejudged: Desk) -> None:
    differs = rejudged.must("diff", "before", "monday", "--json").json["differs"]
    assert differs.get("config.judge.model") == ["old-judge", "new-judge"]


def test_an_abstention_that_only_the_old_judge_saw_does_not_count_in_a_rejudged_run(desk: Desk) -> None:
    desk.golden({"query_id": f"q{i}", "expected_chunk_ids": [], "answerable": False} for i in range(2))
    rows = [result(i, judge={"abstention": {"abstained": False}}) for i in range(2)]
    folder = desk.run("monday", rows).relative_to(desk.folder)
    desk.lines(str(folder / "judgements.jsonl"), [judgement(0, "abstention")])
    desk.load()
    assert desk.per_query("monday", "abstention_accuracy") == {"q0": 1.0, "q1": None}
    assert desk.value("monday", "abstention_accuracy") == 1.0


def test_a_spot_check_counts_questions_and_not_pairs_of_verdicts(desk: Desk) -> None:
    write_golden(desk, n=4)
    folder = desk.run("monday", [result(i) for i in range(4)]).relative_to(desk.folder)
    asks = [(i, ask) for i in range(4) for ask in ("groundedness", "correctness")]
    second = {"judge": "second", "purpose": "spot_check"}
    rows = [judgement(i, ask) for i, ask in asks] + [judgement(i, ask, **second) for i, ask in asks]
    desk.lines(str(folder / "judgements.jsonl"), rows)
    desk.load()
    found = desk.must("show", "monday", "--json").json["judge_reliability"]
    assert found["spot_check_n"] == 4
    assert found["spot_check_pairs"] == 8


SYSTEM = """
import time

def answer(row):
    time.sleep(0.02)
    hit = {"chunk_id": "c" + row["query_id"][1:], "doc_id": "d", "text": row["query"]}
    return {"hits_top_k": [hit], "answer": {"text": "Number " + row["query_id"][1:]}}

def judge(request):
    time.sleep(0.01)
    return {"score": 1 if "STRICT" in request["prompt"] else 4}
"""
CONFIG = """
[targets.kb]
kind = "python"
call = "system:answer"

[judges.mine]
kind = "python"
call = "system:judge"
version = "1"
asks = ["groundedness", "correctness"]

[suites.nightly]
dataset = "kb"
target = "kb"
judges = ["mine"]
"""
SECOND_PROMPT = """---
version: strict
{ask}schema: {{"type": "object", "properties": {{"score": {{"type": "integer"}}}}, "required": ["score"]}}
---
STRICT {{query}} {{answer}} {{context}}
"""


def write_suite(desk: Desk, *, config: str = "", ask: str = "") -> None:
    write_golden(desk, n=3)
    desk.load()
    desk.text("system.py", SYSTEM)
    desk.text("prompts/judge/groundedness-b.md", SECOND_PROMPT.format(ask=ask))
    desk.text("eval-pipeline.toml", CONFIG + config)


def evaluated(desk: Desk) -> None:
    desk.must("evaluate", "nightly", "--run-id", "monday", "--no-load")
    desk.load("data/evaluations/monday")


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory: pytest.TempPathFactory, empty_store: Any) -> Desk:
    desk = new_desk(tmp_path_factory.mktemp("evaluated") / "desk", empty_store)
    write_suite(desk, config='spot_check = {prompt = "groundedness-b", n = 3}\n', ask="ask: groundedness\n")
    evaluated(desk)
    return desk


def test_a_spot_check_by_a_second_prompt_counts(evaluation: Desk) -> None:
    found = evaluation.must("show", "monday", "--json").json["judge_reliability"]
    # The first prompt gives 4 and the second one 1: more than one point apart.
    assert (found["spot_check_n"], found["disagreement_rate"]) == (3, 1.0)
    assert evaluation.value("monday", "judge_groundedness") == 4.0


def test_the_time_for_judging_is_stored_in_an_evaluated_run(evaluation: Desk) -> None:
    bundle = evaluation.folder / "data" / "evaluations" / "monday" / "runs" / "monday"
    judged = [json.loads(line) for line in (bundle / "judgements.jsonl").read_text("utf-8").splitlines()]
    expected = dict.fromkeys(("q0", "q1", "q2"), 0.0)
    for row in judged:
        if row["purpose"] == "main":
            expected[row["query_id"]] += row["latency_ms"]
    judging = evaluation.must("show", "monday", "--json").json["performance"]["latency_breakdown_ms"]["judge"]
    assert judging["n"] == 3
    assert judging["mean"] == pytest.approx(sum(expected.values()) / 3, abs=0.01)


def test_the_time_of_an_evaluated_suite_is_measured_and_no_sum_of_its_queries(evaluation: Desk) -> None:
    found = evaluation.must("show", "monday", "--json").json["performance"]
    query = found["latency_ms"]
    assert found["total_suite_ms"] != pytest.approx(query["n"] * query["mean"], abs=0.01)
    # The judgements of a question come after its answer.
    assert found["total_suite_ms"] > query["p50"] + found["latency_breakdown_ms"]["judge"]["p50"] / 2


def test_a_spot_check_by_a_prompt_without_an_ask_is_refused_before_any_call(desk: Desk) -> None:
    write_suite(desk, config='spot_check = {prompt = "groundedness-b", n = 3}\n')
    assert desk("evaluate", "nightly", "--run-id", "monday", "--no-load").code != 0
    assert not (desk.folder / "data" / "calls.sqlite").exists()


def test_scores_of_the_old_judge_that_still_count_are_named_beside_the_new_judge(desk: Desk) -> None:
    write_golden(desk, n=4)
    delivered = {"groundedness": {"score": 5}, "correctness": {"score": 3}}
    rows = [result(i, judge=delivered) for i in range(4)]
    folder = desk.run("monday", rows, config={"judge": OLD_JUDGE}).relative_to(desk.folder)
    desk.lines(str(folder / "judgements.jsonl"), [judgement(0)])
    desk.load()
    configuration = desk.must("runs", "monday").text
    assert {"new-judge", "old-judge"} <= set(configuration.split())
    judges = desk.must("show", "monday", "--json").json["judges"]
    assert {ask: (judge["model"], judge["n"]) for ask, judge in judges.items()} == {
        "correctness": ("old-judge", 4),
        "groundedness": ("new-judge", 1),
    }
