"""One bad number, echoed key, edited store or wrong path does no harm."""

from __future__ import annotations

import pytest

from eval_pipeline.settings import shipped_sql
from tests.evaluating.faulty_server import Say, Seen, completion, serving
from tests.situations.desk import Desk

SHIPS = ("metrics.scores", "metrics.hit_at_k", "aggregates.run_metrics")


def row(query_id: str, **more: object) -> dict[str, object]:
    return {"query_id": query_id, "hits_top_k": [{"chunk_id": query_id, "doc_id": "d"}], **more}


def test_a_large_score_does_not_stop_the_metrics_of_any_run(desk: Desk):
    large = 1e300
    desk.golden([{"query_id": q, "query": q, "expected_chunk_ids": ["q1"]} for q in ("q1", "q2")])
    desk.run("odd", [row("q1", scores={"x": large, "y": 1}), row("q2", scores={"x": 2 * large, "y": 0})])
    desk.run("plain", [row("q1", scores={"x": 1, "y": 1}), row("q2", scores={"x": 0, "y": 1})])
    desk.load()

    assert desk.value("odd", "scores.x") == pytest.approx(1.5 * large)
    assert desk.value("odd", "scores.y") == 0.5
    assert desk.value("odd", "hit@1") == 0.5
    assert desk.value("plain", "scores.x") == 0.5


def test_an_aggregate_that_fails_is_reported_and_stops_no_other(desk: Desk):
    """The sum of one metric fails in the engine, as it did for every number above 1.4e14."""
    text = (shipped_sql() / "aggregates" / "run_metrics.sql").read_text("utf-8")
    column = '    per_slice."n $key",\n'
    n = 'per_slice."n $key"'
    failing = f"""    case {n} when 2 then cast(error('out of range') as bigint) else {n} end as "n $key",\n"""
    assert column in text
    desk.text("own/aggregates/run_metrics.sql", f"-- replaces: run_metrics\n{text.replace(column, failing)}")
    desk.golden([{"query_id": q, "query": q, "expected_chunk_ids": ["q1"]} for q in ("q1", "q2")])
    desk.run("monday", [row("q1", scores={"x": 1}), row("q2")])
    desk.environment["EVAL_PIPELINE_SQL"] = str(desk.folder / "own")
    desk.load()
    assert desk.value("monday", "scores.x") == 1
    assert desk.value("monday", "hit@1") is None
    assert "hit_at_k failed: run monday" in (shown := desk.must("show", "monday").text)
    assert "out of range" in shown


ANSWER = {"answer": "Yes.", "sources": [{"id": "c1", "body": "Yes, that is so."}]}


def suite_toml(url: str, *, target: str = "", judge: str = "", suite: str = "") -> str:
    return f"""
[targets.kb]
{target or f'url = "{url}/ask"'}
answer = {{text = "/answer", hits = {{each = "/sources", chunk_id = "/id", text = "/body"}}}}
attempts = 1
identity = "kb"
[judges.grader]
base_url = "{url}"
api_key = "${{JUDGE_KEY}}"
model = "model-1"
asks = ["correctness"]
price_per_1m = {{prompt = 2.0, completion = 8.0}}
attempts = 1
identity = "grader"
{judge}
[suites.nightly]
dataset = "kb"
target = "kb"
judges = ["grader"]
{suite}
"""


def with_suite(desk: Desk, toml: str, n: int = 4, **environment: str) -> None:
    """A project with a golden set of n questions and a suite."""
    desk.golden([{"query_id": f"q{i}", "query": f"Question {i}?", "answerable": True} for i in range(n)])
    desk.load()
    desk.text("eval-pipeline.toml", toml)
    desk.environment.update({"JUDGE_KEY": "judge-key-1234", **environment})


@pytest.mark.parametrize("without", ["answers", "usage"])
def test_the_budget_counts_calls_without_a_known_cost_in_the_next_command_too(desk: Desk, without: str):
    def behave(seen: Seen) -> Say:
        if seen.path.endswith("/ask"):
            return Say(ANSWER)
        return Say(how="reset") if without == "answers" else completion({"score": 5}, usage={})

    with serving(behave) as server:
        # A call costs at most 0.008 USD for its 1,000 tokens of answer, and less than 0.01 for its question.
        with_suite(desk, suite_toml(server.url, suite="budget_usd = 0.02\nlimit = 4", judge="concurrency = 1"))
        counts = []
        for _ in range(2):
            assert desk("evaluate", "nightly", "--no-load", "--run-id", "monday").code == 6
            counts.append(sum(not seen.path.endswith("/ask") for seen in server.seen))
    assert 1 <= counts[0] <= 2
    assert counts == [counts[0]] * 2


def test_ids_and_times_in_a_ragas_file_are_not_scores(desk: Desk):
    header = "user_input,response,retrieved_contexts,faithfulness,conversation_id,timestamp_ms,serial\n"
    rows = [f"Question {n}?,Answer,\"['text {n}']\",0.5,{n},{1770000000000 + n},{2**53 + 2 + n}" for n in range(3)]
    desk.text("ragas.csv", header + "\n".join(rows) + "\n")
    shown = desk.must("load", "ragas.csv", "--run-id", "monday", "--dataset", "kb").text
    assert "taken for a score: 1 column: faithfulness" in shown
    assert "not used: conversation_id (3 rows), timestamp_ms (3 rows), serial (3 rows)" in shown
