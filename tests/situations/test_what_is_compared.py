"""Which runs are compared, in which order, and what a comparison and a gate print about them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.bundle_files import hits
from tests.situations.desk import Desk

SHIPS = (
    "facts.chunk_ranks",
    "facts.found_chunks",
    "facts.outcomes",
    "metrics.hit_at_k",
    "metrics.reciprocal_rank",
    "metrics.latency",
    "metrics.failures",
    "metrics.scores",
    "aggregates.run_metrics",
    "aggregates.latency_summary",
)
QUERIES = 40


def golden(n: int = QUERIES) -> list[dict[str, Any]]:
    return [
        {"query_id": f"q{i}", "query": f"Question {i}?", "expected_chunk_ids": [f"d{i}/1"]} for i in range(n)
    ]


def results(found: int, *, n: int = QUERIES, first: int = 0, **more: Any) -> list[dict[str, Any]]:
    """The first `found` queries find their chunk."""
    return [
        {"query_id": f"q{i}", "hits_top_k": hits(f"d{i}/1" if i < found else f"x{i}/1"), **more}
        for i in range(first, n)
    ]


def trec(tag: str, found: int) -> str:
    return "".join(f"q{i} Q0 {f'd{i}/1' if i < found else f'x{i}/1'} 1 9.5 {tag}\n" for i in range(QUERIES))


def test_arguments_of_load_are_in_time_order(desk: Desk) -> None:
    desk.golden(golden())
    desk.load()
    desk.text("before.run", trec("before", found=10))
    desk.text("after.run", trec("after", found=30))
    desk.must("load", "before.run", "after.run", "--dataset", "kb")
    desk.load()
    report = desk.must("compare", "--json").json
    assert (report["run_a"], report["run_b"]) == ("before", "after")
    assert desk("gate").code != 1


def test_runs_of_one_file_are_in_time_order(desk: Desk) -> None:
    desk.golden(golden())
    desk.load()
    desk.text("both.run", trec("zero", found=10) + trec("one", found=30))
    desk.must("load", "both.run", "--dataset", "kb")
    desk.load()
    report = desk.must("compare", "--json").json
    assert [run.removeprefix("both.") for run in (report["run_a"], report["run_b"])] == ["zero", "one"]


def test_bundles_with_the_same_time_are_in_the_order_of_arguments(desk: Desk) -> None:
    desk.golden(golden())
    desk.load()
    for run_id, found in (("before", 10), ("after", 30)):
        desk.run(run_id, results(found), bundle=run_id, created_at="2026-09-01T06:00:00Z")
    desk.must("load", "before", "after")
    desk.load()
    report = desk.must("compare", "--json").json
    assert (report["run_a"], report["run_b"]) == ("before", "after")


def test_the_order_of_arguments_survives_a_rebuild(desk: Desk) -> None:
    desk.golden(golden())
    desk.load()
    for run_id, found in (("before", 10), ("after", 30)):
        desk.run(run_id, results(found), bundle=run_id)
    desk.must("load", "before", "after")
    desk.must("rebuild", "--yes")
    desk.load()
    report = desk.must("compare", "--json").json
    assert (report["run_a"], report["run_b"]) == ("before", "after")


@pytest.mark.parametrize(
    "times", [{}, {"created_at": "2026-09-01T06:00:00Z"}], ids=["one bundle", "two loads"]
)
def test_runs_whose_order_is_unknown_are_not_compared_by_name(desk: Desk, times: dict[str, str]) -> None:
    desk.golden(golden())
    for run_id, found in (("before", 10), ("after", 30)):
        desk.run(run_id, results(found), **times)
        if times:
            desk.load()
    desk.load()
    for command in ("compare", "gate"):
        output = desk(command)
        assert output.code == 5
        assert "before" in output.text and "after" in output.text and "--created-at" in output.text
    assert desk.must("compare", "before", "after", "--json").json["run_a"] == "before"
