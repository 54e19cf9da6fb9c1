"""Input that contains less than it seems: nothing that is stored is lost, and the message counts what is missing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.situations.desk import Desk

SHIPS = ("metrics.hit_at_k", "metrics.failures", "metrics.empty_results", "aggregates.run_metrics")


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


def desk_with_golden_set(desk: Desk, n_queries: int = 20) -> Desk:
    """A golden set and two runs are in the store."""
    desk.golden(labels(*range(n_queries)))
    for run_id in ("mon", "tue"):
        desk.run(run_id, results(*range(n_queries)))
    desk.must("load", "bundle")
    return desk


def test_a_golden_set_of_one_row_does_not_replace_a_golden_set_of_twenty(desk: Desk) -> None:
    desk_with_golden_set(desk)
    desk.golden(labels(3), bundle="short")

    output = desk("load", "short")

    assert len(golden_queries(desk)) == 20
    assert output.code == 5
    assert "19 of the 20 queries" in output.text and "2 runs" in output.text
    assert "--replace-labels" in output.text


def test_a_dry_run_reports_that_a_golden_set_would_lose_queries(desk: Desk) -> None:
    desk_with_golden_set(desk)
    desk.golden(labels(3), bundle="short")

    output = desk("load", "short", "--dry-run")

    assert output.code == 5
    assert "19 of the 20 queries" in output.text and "2 runs" in output.text
    assert desk.must("quarantine", "--json").json["rows"] == []


def test_a_smaller_golden_set_is_refused_until_replace_labels_accepts_it(desk: Desk) -> None:
    desk_with_golden_set(desk)
    desk.golden(labels(3), bundle="short")
    desk("load", "short")
    assert len(golden_queries(desk)) == 20

    desk.must("load", "short", "--replace-labels")

    assert golden_queries(desk) == ["q3"]
    assert desk.must("quarantine", "--json").json["rows"] == []


def test_a_golden_set_that_loses_a_tenth_is_loaded(desk: Desk) -> None:
    desk_with_golden_set(desk)
    desk.golden([*labels(*range(18)), {"query_id": "new", "expected_chunk_ids": ["c1"]}], bundle="next")

    desk.must("load", "next")

    assert len(golden_queries(desk)) == 19


def test_a_golden_set_with_bad_rows_does_not_replace_a_good_one(desk: Desk) -> None:
    desk_with_golden_set(desk, 10)
    bad = [{"query_id": f"q{number}", "expected_chunk_ids": "c"} for number in range(1, 10)]
    desk.golden([*labels(0), *bad], bundle="broken")

    output = desk("load", "broken")

    assert len(golden_queries(desk)) == 10
    assert output.code == 5
    assert "9 of the 10 queries" in output.text and "9 rows cannot be read" in output.text


def test_a_golden_set_without_a_readable_row_does_not_replace_a_good_one(desk: Desk) -> None:
    desk_with_golden_set(desk, 10)
    desk.golden([{"query_id": f"q{number}", "expected_chunk_ids": "c"} for number in range(10)], bundle="bad")

    for options in ((), ("--replace-labels",)):
        desk("load", "bad", *options)
        assert len(golden_queries(desk)) == 10


def test_a_smaller_golden_set_in_the_inbox_is_quarantined_once(desk: Desk) -> None:
    from eval_pipeline.loading.inbox import take_in_runs, take_in_sources
    from eval_pipeline.settings import load_settings
    from tests.projects import project_of

    desk_with_golden_set(desk)
    settings = load_settings({}, db=desk.folder / "data" / "eval.duckdb")
    project = project_of(replace(settings, inbox=desk.folder / "inbox"))
    desk.golden(labels(3), bundle="inbox")
    take_in_sources(project)
    for run_id in ("wed", "thu"):
        desk.run(run_id, results(*range(20)), bundle="inbox")
        take_in_runs(project, [run_id])

    assert len(golden_queries(desk)) == 20
    assert stored_results(desk, "thu") == 20
    rows = desk.must("quarantine", "--json").json["rows"]
    assert [(row["dataset"], row["line"]) for row in rows] == [("kb", None)]


def test_rebuild_loads_a_smaller_golden_set_that_was_accepted(desk: Desk) -> None:
    desk_with_golden_set(desk)
    desk.golden(labels(3), bundle="short")
    desk("load", "short")
    assert len(golden_queries(desk)) == 20
    desk.must("load", "short", "--replace-labels")

    desk.must("rebuild", "--yes")

    assert golden_queries(desk) == ["q3"]
    assert desk.must("quarantine", "--json").json["rows"] == []
