"""Input that contains less than it seems: nothing that is stored is lost, and the message counts what is missing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from eval_pipeline.defs.jobs import make_jobs
from eval_pipeline.defs.resources import StoreResource
from eval_pipeline.defs.sensors import new_runs
from eval_pipeline.loading.inbox import take_in_runs, take_in_sources
from eval_pipeline.settings import load_settings
from tests.defs.ticks import NAMES, Watch, record
from tests.projects import open_writer, project_of
from tests.situations.desk import Desk

SHIPS = (
    "metrics.hit_at_k",
    "metrics.reciprocal_rank",
    "metrics.failures",
    "metrics.empty_results",
    "aggregates.run_metrics",
)


def labels(*numbers: int) -> list[dict[str, object]]:
    return [{"query_id": f"q{number}", "expected_chunk_ids": [f"c{number}"]} for number in numbers]


def results(*numbers: int) -> list[dict[str, object]]:
    return [
        {
            "query_id": f"q{number}",
            "hits_top_k": [{"chunk_id": f"c{number}", "doc_id": "d"}],
            "answer": {"text": "yes"},
        }
        for number in numbers
    ]


def golden_queries(desk: Desk, dataset: str = "kb") -> list[str]:
    """The queries of the golden set in force."""
    rows = desk.must(
        "query",
        "select query_id from labels.queries join ledger.golden_sets_in_force using (golden_key) "
        f"join raw.datasets using (dataset_key) join raw.query_ids using (query_key) where dataset_id = '{dataset}' "
        "order by 1",
        "--json",
    ).json
    return [row["query_id"] for row in rows]


def stored_results(desk: Desk, run_id: str) -> int:
    sql = f"select count(*) as n from raw.results join raw.runs using (run_key) where run_id = '{run_id}'"
    return int(desk.must("query", sql, "--json").json[0]["n"])


@pytest.fixture(scope="module")
def two_runs(shared_desk: Desk) -> Desk:
    """A golden set of 20 queries and two runs are in the store."""
    shared_desk.golden(labels(*range(20)))
    for run_id in ("mon", "tue"):
        shared_desk.run(run_id, results(*range(20)))
    shared_desk.must("load", "bundle")
    return shared_desk


@pytest.fixture
def stocked(two_runs: Desk, tmp_path: Path) -> Desk:
    return two_runs.copy(tmp_path / "stocked")


def test_a_golden_set_of_one_row_does_not_replace_a_golden_set_of_twenty(stocked: Desk) -> None:
    stocked.golden(labels(3), bundle="short")

    output = stocked("load", "short")

    assert len(golden_queries(stocked)) == 20
    assert output.code == 5
    assert "19 of the 20 queries" in output.text and "2 runs" in output.text
    assert "--replace-labels" in output.text


def test_a_dry_run_reports_that_a_golden_set_would_lose_queries(stocked: Desk) -> None:
    stocked.golden(labels(3), bundle="short")

    output = stocked("load", "short", "--dry-run")

    assert output.code == 5
    assert "19 of the 20 queries" in output.text and "2 runs" in output.text
    assert stocked.must("quarantine", "--json").json["rows"] == []


def test_a_smaller_golden_set_is_refused_until_replace_labels_accepts_it(stocked: Desk) -> None:
    stocked.golden(labels(3), bundle="short")
    stocked("load", "short")
    assert len(golden_queries(stocked)) == 20

    stocked.must("load", "short", "--replace-labels")

    assert golden_queries(stocked) == ["q3"]
    assert stocked.must("quarantine", "--json").json["rows"] == []


def test_a_golden_set_that_loses_a_tenth_is_loaded(stocked: Desk) -> None:
    stocked.golden([*labels(*range(18)), {"query_id": "new", "expected_chunk_ids": ["c1"]}], bundle="next")

    stocked.must("load", "next")

    assert len(golden_queries(stocked)) == 19


def test_a_golden_set_with_bad_rows_does_not_replace_a_good_one(stocked: Desk) -> None:
    bad = [{"query_id": f"q{number}", "expected_chunk_ids": "c"} for number in range(1, 20)]
    stocked.golden([*labels(0), *bad], bundle="broken")

    output = stocked("load", "broken")

    assert len(golden_queries(stocked)) == 20
    assert output.code == 5
    assert "19 of the 20 queries" in output.text and "19 rows cannot be read" in output.text


def test_a_golden_set_without_a_readable_row_does_not_replace_a_good_one(stocked: Desk) -> None:
    stocked.golden(
        [{"query_id": f"q{number}", "expected_chunk_ids": "c"} for number in range(20)], bundle="bad"
    )

    for options in ((), ("--replace-labels",)):
        stocked("load", "bad", *options)
        assert len(golden_queries(stocked)) == 20


def test_a_smaller_golden_set_in_the_inbox_is_quarantined_once(stocked: Desk) -> None:
    settings = load_settings({}, db=stocked.folder / "data" / "eval.duckdb")
    project = project_of(replace(settings, inbox=stocked.folder / "inbox"))
    stocked.golden(labels(3), bundle="inbox")
    take_in_sources(project)
    for run_id in ("wed", "thu"):
        stocked.run(run_id, results(*range(20)), bundle="inbox")
        take_in_runs(project, [run_id])

    assert len(golden_queries(stocked)) == 20
    assert stored_results(stocked, "thu") == 20
    rows = stocked.must("quarantine", "--json").json["rows"]
    assert [(row["dataset"], row["line"]) for row in rows] == [("kb", None)]


def test_rebuild_loads_a_smaller_golden_set_that_was_accepted(stocked: Desk) -> None:
    stocked.golden(labels(3), bundle="short")
    stocked("load", "short")
    assert len(golden_queries(stocked)) == 20
    stocked.must("load", "short", "--replace-labels")

    stocked.must("rebuild", "--yes")

    assert golden_queries(stocked) == ["q3"]
    assert stocked.must("quarantine", "--json").json["rows"] == []


def test_results_with_label_columns_do_not_replace_the_golden_set(stocked: Desk) -> None:
    rows = [
        {
            "query_id": f"q{number}",
            "query": f"Question {number}?",
            "retrieved": [f"c{number}", "c99"],
            "response": "yes",
            "expected_chunk_ids": [f"c{number}"],
        }
        for number in range(3)
    ]
    stocked.lines("night2.jsonl", rows)

    stocked.must("load", "night2.jsonl", "--dataset", "kb")

    assert len(golden_queries(stocked)) == 20
    assert stored_results(stocked, "night2") == 3


def test_answers_beside_required_texts_do_not_replace_the_golden_set(stocked: Desk) -> None:
    rows = [{"query_id": f"q{number}", "output": "yes", "must_contain": ["yes"]} for number in range(3)]
    stocked.lines("answers.jsonl", rows)

    stocked.must("load", "answers.jsonl", "--dataset", "kb")

    assert len(golden_queries(stocked)) == 20
    assert stored_results(stocked, "answers") == 3


def test_a_file_of_labels_replaces_a_golden_set_only_if_it_is_declared_as_one(stocked: Desk) -> None:
    changed = [{"query_id": f"q{number}", "expected_chunk_ids": ["other"]} for number in range(20)]
    stocked.lines("labels.jsonl", changed)

    output = stocked("load", "labels.jsonl", "--dataset", "kb")

    assert expected_chunks(stocked) == {f"c{number}" for number in range(20)}
    assert output.code == 5 and "--golden" in output.text and "--replace-labels" in output.text
    stocked.must("load", "labels.jsonl", "--dataset", "kb", "--golden")
    assert expected_chunks(stocked) == {"other"}


RESULTS_WITH_LABELS = [
    {
        "query_id": f"q{n}",
        "query": "Q?",
        "retrieved": [f"c{n}"],
        "response": "y",
        "expected_chunk_ids": ["other"],
    }
    for n in range(20)
]


def test_results_in_a_file_with_the_name_of_a_golden_set_do_not_replace_it(stocked: Desk) -> None:
    stocked.lines("queries.jsonl", RESULTS_WITH_LABELS)

    stocked("load", "queries.jsonl", "--dataset", "kb", "--run-id", "wed")

    assert expected_chunks(stocked) == {f"c{number}" for number in range(20)}
    assert stored_results(stocked, "wed") == 20


def test_results_in_place_of_the_golden_set_of_a_bundle_are_rejected(stocked: Desk) -> None:
    stocked.lines("next/datasets/kb/queries.jsonl", RESULTS_WITH_LABELS)

    output = stocked("load", "next")

    assert expected_chunks(stocked) == {f"c{number}" for number in range(20)}
    assert output.code == 3
    assert "contains results (response, retrieved) and is no golden set" in output.text


@pytest.mark.parametrize("label", [{}, {"expected_chunk_ids": []}], ids=["no label", "an empty list"])
def test_a_golden_set_without_labels_does_not_replace_labels(stocked: Desk, label: dict[str, object]) -> None:
    stocked.golden([{"query_id": f"q{number}", **label} for number in range(20)], bundle="bare")

    output = stocked("load", "bare")

    assert expected_chunks(stocked) == {f"c{number}" for number in range(20)}
    assert output.code == 5
    assert "the labels of 20 of the 20 labelled queries" in output.text and "--replace-labels" in output.text
    stocked.must("load", "bare", "--replace-labels")
    assert expected_chunks(stocked) == set()


def test_a_loss_of_queries_and_labels_that_is_accepted_is_reported(stocked: Desk) -> None:
    stocked.golden([*labels(*range(17)), {"query_id": "q17"}, {"query_id": "q18"}], bundle="next")

    output = stocked.must("load", "next")

    assert "1 of 20 queries in force are gone" in output.text
    assert "2 of 20 labelled queries have no labels now" in output.text


def test_labels_in_results_of_the_bundles_form_are_used(desk: Desk) -> None:
    rows = [{**row, **label} for row, label in zip(results(0, 1), labels(0, 1), strict=True)]
    desk.lines("night.jsonl", rows)

    output = desk.must("load", "night.jsonl", "--dataset", "kb")

    assert golden_queries(desk) == ["q0", "q1"]
    assert stored_results(desk, "night") == 2
    assert "labels of 2 queries" in output.text


def test_labels_of_rows_without_an_id_are_used(desk: Desk) -> None:
    rows = [
        {"question": f"Where is {number}?", "retrieved": [f"c{number}"], "expected_chunk_ids": [f"c{number}"]}
        for number in range(3)
    ]
    desk.lines("mine.jsonl", rows)

    output = desk.must("load", "mine.jsonl", "--dataset", "kb")

    assert len(golden_queries(desk)) == 3
    assert "labels of 3 queries" in output.text
    scored = "select count(*) as n from ledger.scored_results"
    assert desk.must("query", scored, "--json").json == [{"n": 3}]


def test_rows_with_id_hits_labels_and_answers_are_results(desk: Desk) -> None:
    rows = [
        {"id": f"q{number}", "hits": ["c0"], "expected_chunk_ids": [f"c{number}"], "response": "yes"}
        for number in range(2)
    ]
    desk.lines("mine.jsonl", rows)

    output = desk.must("load", "mine.jsonl", "--dataset", "kb")

    assert "2 results of mine and labels of 2 queries" in output.text
    assert stored_results(desk, "mine") == 2
    assert golden_queries(desk) == ["q0", "q1"]


def test_labels_that_are_used_are_not_reported_as_unused(desk: Desk) -> None:
    header = "query_id,retrieved,response,expected_chunk_ids,reference,comment\n"
    desk.text("mine.csv", header + 'q1,["c1"],yes,c1,Yes.,good\n'.replace('["c1"]', '"[""c1""]"'))

    output = desk.must("load", "mine.csv", "--dataset", "kb")

    unused = next(line for line in output.stderr.splitlines() if "not used:" in line)
    assert "labels of 1 query" in output.text
    assert "expected_chunk_ids" not in unused and "reference" not in unused
    assert "comment (1 row)" in unused


def test_an_index_column_without_a_name_is_not_called_a_dot(desk: Desk) -> None:
    desk.text("frame.csv", ",query_id,answer\n0,q1,yes\n1,q2,no\n")

    output = desk.must("load", "frame.csv", "--dataset", "kb")

    unused = next(line for line in output.stderr.splitlines() if "not used:" in line)
    assert "not used: . " not in unused
    assert "Unnamed: 0" in unused


def test_misspelled_fields_of_a_golden_set_in_yaml_are_reported(desk: Desk) -> None:
    rows = "- query_id: q1\n  expected_chunks: [c1]\n- query_id: q2\n  expected_chunk_ids: [c2]\n"
    desk.text("bundle/datasets/kb/queries.yaml", rows)

    output = desk.must("load", "bundle")

    assert "expected_chunks (1 row) is no field; did you mean expected_chunk_ids?" in output.text


def test_a_row_per_hit_with_one_hit_for_each_question_is_recognized(desk: Desk) -> None:
    desk.text("hits.csv", "query_id,chunk_id,rank,score\nq1,c1,1,0.9\nq2,c7,1,0.8\n")

    output = desk.must("load", "hits.csv", "--dataset", "kb")

    assert "2 results of hits" in output.text
    found = "select chunk_id from raw.hits join raw.chunk_ids using (chunk_key) order by 1"
    assert [row["chunk_id"] for row in desk.must("query", found, "--json").json] == ["c1", "c7"]


def expected_chunks(desk: Desk) -> set[str]:
    """The expected chunks of the golden set in force."""
    sql = (
        "select chunk_id from labels.expected_chunks join ledger.golden_sets_in_force using (golden_key) "
        "join raw.chunk_ids using (chunk_key)"
    )
    return {row["chunk_id"] for row in desk.must("query", sql, "--json").json}


def test_empty_results_do_not_replace_stored_ones(stocked: Desk) -> None:
    stocked.run("mon", [], bundle="cut")

    output = stocked("load", "cut")

    assert stored_results(stocked, "mon") == 20
    assert output.code == 3
    assert "20 stored results of mon were not replaced" in output.text


def test_results_in_which_every_row_is_bad_do_not_replace_stored_ones(stocked: Desk) -> None:
    stocked.run("mon", [{"query_id": 1}, {"query_id": 2}], bundle="bad")

    assert "20 stored results of mon were not replaced" in stocked("load", "bad", "--dry-run").text
    assert stocked("load", "bad").code == 3
    assert stored_results(stocked, "mon") == 20
    stocked.must("rebuild", "--yes")
    assert stored_results(stocked, "mon") == 20


def test_fewer_results_than_before_are_reported_with_both_counts(stocked: Desk) -> None:
    stocked.run("mon", results(*range(7)), bundle="part")

    for options in (("--dry-run",), ()):
        assert "mon: 7 results replace 20" in stocked.must("load", "part", *options).text
    assert stored_results(stocked, "mon") == 7


def test_a_bundle_whose_only_run_has_no_run_file_is_not_loaded_with_success(desk: Desk) -> None:
    (desk.run("mon", results(0)) / "run.json").unlink()

    output = desk("load", "bundle")

    assert output.code == 3
    assert "bundle/runs/mon: run.json is missing" in output.text


def test_a_run_folder_without_a_run_file_is_named_beside_runs_that_are_loaded(desk: Desk) -> None:
    desk.golden(labels(0))
    desk.run("mon", results(0))
    (desk.run("tue", results(0)) / "run.json").unlink()

    for code in ("Loaded 1 run", "2 parts unchanged"):
        output = desk.must("load", "bundle")
        assert code in output.text
        assert "bundle/runs/tue: run.json is missing" in output.text


def test_an_empty_bundle_is_not_loaded_with_success(desk: Desk) -> None:
    (desk.folder / "bundle" / "runs").mkdir(parents=True)

    output = desk("load", "bundle")

    assert output.code == 3
    assert "bundle: nothing in it could be loaded" in output.text


def test_a_missing_store_beside_kept_deliveries_is_not_replaced_by_an_empty_one(stocked: Desk) -> None:
    (stocked.folder / "data" / "eval.duckdb").unlink()
    stocked.run("wed", results(0), bundle="next")

    for words in (("load", "next"), ("forget", "mon", "--yes"), ("run",), ("show", "mon")):
        output = stocked(*words)
        assert output.code != 0, words
        assert "rebuild" in output.text and "--new" in output.text, words
        assert not (stocked.folder / "data" / "eval.duckdb").exists()
    stocked.must("load", "next", "--new")
    assert stored_results(stocked, "wed") == 1


def test_a_missing_store_is_rebuilt_from_kept_deliveries(stocked: Desk) -> None:
    (stocked.folder / "data" / "eval.duckdb").unlink()
    stocked.run("wed", results(0), bundle="next")
    stocked("load", "next")

    stocked.must("rebuild")

    assert stored_results(stocked, "mon") == 20


def test_doctor_reports_deliveries_that_the_store_does_not_have(stocked: Desk) -> None:
    store = stocked.folder / "data" / "eval.duckdb"
    before = store.read_bytes()
    stocked.run("wed", results(0), bundle="next")
    stocked.must("load", "next")
    store.write_bytes(before)

    findings = stocked("doctor", "--json").json["findings"]

    missing = [finding for finding in findings if "not in the store" in finding["what"]]
    assert len(missing) == 1 and "run wed" in missing[0]["what"]
    assert "load" in missing[0]["mend"]


def test_doctor_reports_rows_of_the_ledger_without_a_kept_delivery(stocked: Desk) -> None:
    for folder in (stocked.folder / "data" / "eval.duckdb.deliveries").glob("d*"):
        shutil.rmtree(folder)

    findings = stocked("doctor", "--json").json["findings"]

    assert any("is missing" in finding["what"] for finding in findings)


def langsmith(number: int, answer: str) -> dict[str, object]:
    run = {"id": f"run{number}", "inputs": {"question": f"Q{number}?"}, "outputs": {"answer": answer}}
    return {"run": run, "example": {"id": f"q{number}", "inputs": {"question": f"Q{number}?"}}}


def promptfoo(number: int, answer: str) -> dict[str, object]:
    return {
        "gradingResult": None,
        "promptIdx": 0,
        "testIdx": number,
        "provider": {"id": "demo"},
        "success": True,
        "vars": {"question": f"Q{number}?"},
        "testCase": {
            "vars": {"question": f"Q{number}?"},
            "metadata": {"query_id": f"q{number}", "text": "x"},
        },
        "metadata": {"result": "not the answer"},
        "prompt": {"raw": f"Q{number}?"},
        "response": {"output": answer},
    }


def ragas(number: int, answer: str) -> dict[str, object]:
    return {"query_id": f"q{number}", "user_input": f"Q{number}?", "response": answer}


def mlflow(number: int, answer: str) -> dict[str, object]:
    return {"trace_id": f"q{number}", "request": f"Q{number}?", "response": answer, "words/value": 1.0}


def otlp(number: int, answer: str) -> dict[str, object]:
    texts = {"openinference.span.kind": "CHAIN", "input.value": f"Q{number}?", "output.value": answer}
    span = {
        "traceId": f"q{number}",
        "spanId": f"s{number}",
        "attributes": [{"key": key, "value": {"stringValue": text}} for key, text in texts.items()],
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def phoenix(number: int, answer: str) -> dict[str, object]:
    return {
        "context.trace_id": f"q{number}",
        "context.span_id": f"s{number}",
        "parent_id": None,
        "span_kind": "CHAIN",
        "attributes.input.value": f"Q{number}?",
        "attributes.output.value": answer,
    }


ANSWERS = ("", "", "yes", "")


def share_of_empty_answers(desk: Desk, path: str) -> dict[str, float]:
    """The shares of empty answers and of errors after a file with `ANSWERS` was loaded as the run `night`."""
    desk.must("load", path, "--dataset", "kb", "--run-id", "night")
    desk.load("nothing")
    sql = "select metric, value, n from run_metrics where slice = '' and metric in ('empty_response_rate', 'error_rate')"
    return {row["metric"]: row["value"] for row in desk.must("query", sql, "--json").json if row["n"] == 4}


@pytest.mark.parametrize("row", [langsmith, promptfoo, ragas, mlflow, otlp, phoenix])
def test_an_empty_answer_in_a_file_of_a_tool_is_an_answer(desk: Desk, row: Any) -> None:
    (desk.folder / "nothing" / "runs").mkdir(parents=True)
    desk.lines("night.jsonl", [row(number, answer) for number, answer in enumerate(ANSWERS)])

    assert share_of_empty_answers(desk, "night.jsonl") == {"empty_response_rate": 0.75, "error_rate": 0.75}


def test_an_empty_answer_in_a_deepeval_run_is_an_answer(desk: Desk) -> None:
    (desk.folder / "nothing" / "runs").mkdir(parents=True)
    cases = [
        {"name": f"q{number}", "input": f"Q{number}?", "actualOutput": answer, "metricsData": []}
        for number, answer in enumerate(ANSWERS)
    ]
    desk.text("night.json", json.dumps({"testCases": cases}))

    assert share_of_empty_answers(desk, "night.json") == {"empty_response_rate": 0.75, "error_rate": 0.75}


def test_an_empty_answer_in_a_langfuse_export_is_an_answer(desk: Desk) -> None:
    (desk.folder / "nothing" / "runs").mkdir(parents=True)
    traces = [
        {"id": f"q{number}", "timestamp": "2026-09-01T00:00:00Z", "input": f"Q{number}?", "output": answer}
        for number, answer in enumerate(ANSWERS)
    ]
    desk.lines("export/traces/0.jsonl", traces)

    assert share_of_empty_answers(desk, "export") == {"empty_response_rate": 0.75, "error_rate": 0.75}


@pytest.fixture
def watched(stocked: Desk) -> Iterator[Watch]:
    """The sensor of the inbox of a store with a golden set and two runs, which are computed."""
    stocked.load("bundle")
    settings = replace(
        load_settings({}, db=stocked.folder / "data" / "eval.duckdb"),
        inbox=stocked.folder / "inbox",
        config=stocked.folder / "eval-pipeline.toml",
        dagster_home=stocked.folder / "dagster_home",
    )
    settings.inbox.mkdir()
    with dg.DagsterInstance.ephemeral() as instance:
        yield Watch(new_runs(make_jobs(), NAMES), instance, StoreResource.of(settings))


def run_events(watch: Watch) -> str:
    """Tick until nothing is requested; every requested run is recorded as done. Returns why nothing is left."""
    for _ in range(5):
        requests, reason = watch.tick()
        if not requests:
            return str(reason)
        for request in requests:
            record(watch.instance, request)
    raise AssertionError("the sensor requests runs again and again")


def test_the_sensor_names_a_run_folder_without_a_run_file(stocked: Desk, watched: Watch) -> None:
    (stocked.run("wed", results(0), bundle="inbox") / "run.json").unlink()

    reasons = [run_events(watched), run_events(watched)]

    assert all("run.json is missing" in reason and "inbox/runs/wed" in reason for reason in reasons)


def test_the_sensor_does_not_replace_a_missing_store_by_an_empty_one(stocked: Desk, watched: Watch) -> None:
    store = stocked.folder / "data" / "eval.duckdb"
    store.unlink()
    stocked.run("wed", results(0), bundle="inbox")

    with pytest.raises(Exception, match=r"rebuild") as failed:
        watched.tick()
    assert "deliveries" in str(failed.value)
    assert not store.exists()


def test_the_sensor_launches_a_run_again_for_another_store(stocked: Desk, watched: Watch) -> None:
    store = stocked.folder / "data" / "eval.duckdb"
    run_events(watched)
    aside = store.rename(store.with_name("aside.duckdb"))
    with open_writer(store.with_name("empty.duckdb")):
        pass
    store.with_name("empty.duckdb").rename(store)
    stocked.run("wed", results(*range(20)), bundle="inbox")
    assert any("wed" in str(request.tags) for request in recorded(watched))
    aside.replace(store)

    assert any("wed" in str(request.tags) for request in recorded(watched))


def recorded(watch: Watch) -> list[dg.RunRequest]:
    """The runs that one tick requests, recorded as done."""
    requests, _ = watch.tick()
    for request in requests:
        record(watch.instance, request)
    return requests
