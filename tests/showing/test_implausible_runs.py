"""A run whose ids nobody knows shows no zeros, and says why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.exporting.documents import export_run
from eval_pipeline.planning.status import find_status
from eval_pipeline.settings import Settings
from eval_pipeline.showing.run_state import run_states
from eval_pipeline.showing.show import show_queries, show_run
from tests.bundle_files import (
    Row,
    ask,
    compute,
    hits,
    load,
    settings_in,
    write_archive,
    write_golden,
    write_run,
)
from tests.projects import project_of

FEW = ["metrics.hit_at_k", "metrics.empty_results", "aggregates.run_metrics"]
GOLDEN = [{"query_id": f"q{number}", "expected_chunk_ids": [f"doc{number}/1"]} for number in range(3)]


def retrieving(prefix: str, queries: str = "q") -> list[Row]:
    return [
        {"query_id": f"{queries}{number}", "hits_top_k": hits(f"{prefix}{number}/1")} for number in range(3)
    ]


def computed(folder: Path, **runs: list[Row]) -> Settings:
    """Runs in the order given, a night each."""
    bundle = folder / "bundle"
    write_golden(bundle, GOLDEN)
    for night, (run_id, results) in enumerate(runs.items(), start=1):
        write_run(bundle, run_id, results, created_at=f"2026-09-{night:02}T02:00:00Z")
    settings = settings_in(folder)
    load(settings, bundle)
    compute(settings, definitions=FEW)
    return settings


def states(settings: Settings) -> dict[str, str]:
    with project_of(settings).read() as store:
        return run_states(store)


def shown(settings: Settings, run_id: str = "run") -> Any:
    return show_run(project_of(settings), run_id)


def test_ids_that_nobody_knows_are_no_zeros(tmp_path: Path) -> None:
    settings = computed(tmp_path, run=retrieving("x"))
    report = shown(settings)
    assert report.state == "implausible"
    assert report["plausibility"] == {
        "retrieved_ids": 3,
        "named_by_labels": 0,
        "query_ids": 3,
        "in_golden": 3,
    }
    assert report.metrics["hit@5"].value is None
    assert report.metrics["hit@5"].n == 0
    assert report.undefined["hit@5"] == "implausible: 0 of 3 retrieved ids are named by a label of kb"
    # What is lacking anyway stays the reason.
    assert report.undefined["span_iou"] != report.undefined["hit@5"]
    assert "labels: doc0/1, doc1/1, …; hits: x0/1, x1/1, …" in report.plausibility_in_words
    # What needs no label stays, and so does what is stored.
    assert report.metrics["empty_result_rate"].value == 0.0
    assert ask(
        settings, "select value from run_metrics where metric = 'hit@5' and slice is null or slice = ''"
    )


def test_no_door_gives_the_zeros_away(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    settings = computed(tmp_path, run=retrieving("x"))
    assert [line["metrics"]["hit@5"] for line in show_queries(project_of(settings), "run")] == [None] * 3
    export_run(project_of(settings), "run", tmp_path / "out")
    table = pq.read_table(tmp_path / "out" / "per_query.parquet")
    assert table["hit@5"].to_pylist() == [None] * 3
    assert table["empty_result_rate"].to_pylist() == [0.0] * 3


@pytest.mark.parametrize(
    ("results", "because"),
    [
        ([{"query_id": f"q{number}", "hits_top_k": []} for number in range(3)], "nothing was retrieved"),
        (
            [{"query_id": f"q{number}", "hits_top_k": hits(f"doc{number + 1}/1")} for number in range(3)],
            "the ids are known and wrong",
        ),
    ],
    ids=["without hits", "all wrong"],
)
def test_a_bad_run_keeps_its_zeros(tmp_path: Path, results: list[Row], because: str) -> None:
    report = shown(computed(tmp_path, run=results))
    assert report.metrics["hit@5"].value == 0.0, because
    assert report.state != "implausible"


def test_an_archive_makes_unlabelled_ids_known(tmp_path: Path) -> None:
    settings = computed(tmp_path, run=retrieving("x"))
    later = tmp_path / "later"
    write_archive(
        later, "v1", [{"chunk_id": "x2/1", "doc_id": "x2", "spans": [{"doc_id": "x2", "start": 0, "end": 4}]}]
    )
    load(settings, later)
    assert shown(settings).metrics["hit@5"].value == 0.0
    assert "an archive or an earlier run knows" in shown(settings).plausibility_in_words


def test_a_run_is_known_by_earlier_ones_and_not_by_implausible_or_later_ones(tmp_path: Path) -> None:
    seen = [*retrieving("doc")[:2], {"query_id": "q2", "hits_top_k": hits("x2/1")}]
    then = [{"query_id": "q0", "hits_top_k": hits("x2/1", "y0/1")}, *retrieving("y")[1:]]
    settings = computed(
        tmp_path,
        before=retrieving("x"),
        good=seen,
        follows=then,
        chained=retrieving("y"),
        odd=retrieving("z"),
    )
    odd = {run_id for run_id, state in states(settings).items() if state == "implausible"}
    assert odd == {"before", "odd"}
    assert set(find_status(project_of(settings)).implausible) == {"before", "odd"}


def test_queries_that_nobody_asks_are_told_with_theirs(tmp_path: Path) -> None:
    report = shown(computed(tmp_path, run=retrieving("doc", queries="row-")))
    assert report.state == "implausible"
    assert report["plausibility"]["in_golden"] == 0
    assert "golden set: q0, q1, …; results: row-0, row-1, …" in report.plausibility_in_words
