"""A run written row by row from Python, and its numbers read back as frames."""

from __future__ import annotations

import datetime as dt
import doctest
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import eval_pipeline
from eval_pipeline import BundleWriter
from eval_pipeline.bundle.layout import find_bundle
from eval_pipeline.computing.measure import measure
from eval_pipeline.errors import UnknownName, UsageError
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.settings import Settings, load_settings
from eval_pipeline.showing.show import show_queries
from tests.computing.building import NOW
from tests.few_definitions import shipping, write_few
from tests.projects import project_of

LONG = {"run_id": pl.String, "query_id": pl.String, "metric": pl.String, "value": pl.Float64}
OF_RUNS = {
    **dict.fromkeys(("run_id", "slice", "slice_value", "metric"), pl.String),
    "value": pl.Float64,
    "n": pl.Int64,
}


def follow(shown: object, **names: object) -> None:
    """Do what a docstring shows, and see what it says."""
    (example,) = [
        one for one in doctest.DocTestFinder(recurse=False).find(shown, globs=names) if one.examples
    ]
    runner = doctest.DocTestRunner()
    printed: list[str] = []
    runner.run(example, out=printed.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(printed)


@pytest.fixture(scope="module")
def settings(tmp_path_factory) -> Settings:
    """The store of a reader who has followed the example of the writer."""
    folder = tmp_path_factory.mktemp("written")
    few = write_few(folder / "few", "metrics.hit_at_k", "metrics.reciprocal_rank", "aggregates.run_metrics")
    with pytest.MonkeyPatch.context() as here, shipping(few):
        here.chdir(folder)
        follow(BundleWriter, BundleWriter=BundleWriter, Path=Path)
        settings = load_settings({}, db=folder / "eval.duckdb")
        project = project_of(settings, now=NOW)
        assert load_bundles([folder / "results"], project).quarantined == 0
        with BundleWriter("results", run_id="tuesday", dataset="shop") as bundle:
            bundle.result("reset", hits=["account#2"])
            bundle.result("unknown", hits=["x"])
        load_bundles([folder / "results"], project)
        measure(project)
    return settings


@pytest.fixture
def few(settings):
    with shipping(settings.db.parent / "few"):
        yield


@pytest.mark.parametrize("name", ["per_query_metrics", "run_metrics"])
def test_the_examples_of_the_frames_hold(settings, few, monkeypatch, name) -> None:
    monkeypatch.setenv("EVAL_PIPELINE_DB", str(settings.db))
    function = getattr(eval_pipeline, name)
    follow(function, **{name: function})


def test_a_frame_holds_every_number_that_show_prints(settings, few) -> None:
    frame = eval_pipeline.per_query_metrics(["tuesday", "monday"], db=settings.db)
    assert dict(frame.schema) == LONG
    assert frame["run_id"].unique(maintain_order=True).to_list() == ["tuesday", "monday"]
    for run_id in ("monday", "tuesday"):
        ((query_id, metrics),) = (
            (row["query_id"], row["metrics"]) for row in show_queries(project_of(settings), run_id)
        )
        rows = frame.filter(run_id=run_id).select("query_id", "metric", "value").rows()
        assert {metric: value for _, metric, value in rows} == metrics
        assert {one for one, _, _ in rows} == {query_id}


def test_the_aggregates_come_in_run_order_and_with_how_many_are_behind_them(settings, few) -> None:
    frame = eval_pipeline.run_metrics(db=settings.db)
    assert dict(frame.schema) == OF_RUNS
    whole = frame.filter(slice="", metric="mrr")
    assert whole.select("run_id", "value", "n").rows() == [("monday", 0.5, 1), ("tuesday", 1.0, 1)]
    assert eval_pipeline.run_metrics("tuesday", db=settings.db).equals(frame.filter(run_id="tuesday"))


def test_a_frame_without_rows_has_its_columns_all_the_same(tmp_path) -> None:
    settings = load_settings({}, db=tmp_path / "eval.duckdb")
    with project_of(settings).write():
        pass
    assert dict(eval_pipeline.run_metrics(db=settings.db).schema) == OF_RUNS
    assert dict(eval_pipeline.per_query_metrics([], db=settings.db).schema) == LONG


def test_a_run_or_metric_that_is_not_there_is_named_with_what_is(settings, few) -> None:
    with pytest.raises(UnknownName, match="did you mean monday"):
        eval_pipeline.per_query_metrics("mondy", db=settings.db)
    with pytest.raises(UnknownName, match="did you mean hit@1"):
        eval_pipeline.per_query_metrics("monday", ["hit@11"], db=settings.db)
    with pytest.raises(UnknownName, match="did you mean tuesday"):
        eval_pipeline.run_metrics(["tuesda"], db=settings.db)


# ------------------------------------------------------------------ the writer


def files_in(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text("utf-8") for path in folder.rglob("*") if path.is_file()
    }


def test_what_is_written_is_what_the_format_says(tmp_path) -> None:
    config = {"chunker_version": "v1", "top_k": np.int64(2), "of our own": {"x": 1}}
    created = dt.datetime(2026, 3, 1, 2, tzinfo=dt.UTC)
    with BundleWriter(
        tmp_path, run_id="a", dataset="d", config=config, suite="s", created_at=created
    ) as bundle:
        hit = {"chunk_id": "c", "doc_id": "f", "score": np.float32(0.5)}
        bundle.result(
            "q", hits=[hit], answer={"text": "x", "abstained": False}, latency_ms={"total": 1.5}, error=None
        )
        bundle.archive("c", doc_id="f", text="ü", source_spans=[{"start": 0, "end": 1}])
        bundle.golden("q", tags={"one"})
    found = files_in(tmp_path)
    assert json.loads(found["runs/a/run.json"]) == {
        "run_id": "a",
        "dataset": "d",
        "config": {**config, "top_k": 2},
        "suite": "s",
        "created_at": "2026-03-01T02:00:00+00:00",
    }
    (row,) = map(json.loads, found["runs/a/results.jsonl"].splitlines())
    assert row["hits_top_k"] == [{"chunk_id": "c", "doc_id": "f", "score": 0.5}]
    assert row["latency_ms"] == {"total": 1.5} and "error" not in row
    assert json.loads(found["datasets/d/inventories/v1.jsonl"])["text"] == "ü"
    assert json.loads(found["datasets/d/queries.jsonl"]) == {"query_id": "q", "tags": ["one"]}
    assert len(found) == 4


def test_until_the_block_is_left_there_is_no_run_that_would_be_loaded(tmp_path) -> None:
    with BundleWriter(tmp_path, run_id="a", dataset="d") as bundle:
        bundle.result("q")
        assert find_bundle(tmp_path).runs == []
    assert [run.path.name for run in find_bundle(tmp_path).runs] == ["a"]


def test_an_exception_leaves_what_stood_there_before(tmp_path) -> None:
    with BundleWriter(tmp_path, run_id="kept", dataset="d") as bundle:
        bundle.result("q", answer="first")
        bundle.golden("q")
    before = files_in(tmp_path)
    for run_id in ("kept", "new"):
        with pytest.raises(ZeroDivisionError), BundleWriter(tmp_path, run_id=run_id, dataset="d") as bundle:
            bundle.result("q", answer="second")
            bundle.golden("other")
            1 / 0  # noqa: B018
    assert files_in(tmp_path) == before
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["kept"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"query_id": ""}, "empty"),
        ({"query_id": "x", "hits": [{"chunk_id": 5, "doc_id": "d"}]}, r"hits_top_k\[0\].*chunk_id"),
        ({"query_id": "x", "latency_ms": float("nan")}, "finite"),
        ({"query_id": "q"}, "already"),
    ],
)
def test_a_row_that_would_go_to_quarantine_is_refused_at_once(tmp_path, row, said) -> None:
    with BundleWriter(tmp_path, run_id="a", dataset="d") as bundle:
        bundle.result("q")
        with pytest.raises(UsageError, match=said):
            bundle.result(**row)
    assert len(files_in(tmp_path)["runs/a/results.jsonl"].splitlines()) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"run_id": "a/b"}, "run_id: 'a/b' cannot be a name"),
        ({"dataset": ""}, "dataset: '' cannot be a name"),
        ({"suit": "s"}, "has no suit; there is: .*suite"),
        ({"created_at": "yesterday"}, "created_at: 'yesterday'"),
        ({"config": {"top_k": "five"}}, "config.top_k"),
    ],
)
def test_what_cannot_be_said_of_a_run_is_refused_before_the_first_row(tmp_path, given, said) -> None:
    words = {"run_id": "a", "dataset": "d", **given}
    with pytest.raises(UsageError, match=said), BundleWriter(tmp_path, **words):
        pytest.fail("the block is never entered")
    assert files_in(tmp_path) == {}


def test_a_part_in_another_packing_and_an_archive_without_a_name_are_refused(tmp_path) -> None:
    (tmp_path / "datasets" / "d").mkdir(parents=True)
    (tmp_path / "datasets" / "d" / "queries.yaml").write_text("[]", "utf-8")
    with BundleWriter(tmp_path, run_id="a", dataset="d") as bundle:
        with pytest.raises(UsageError, match=r"queries\.yaml is there already"):
            bundle.golden("q")
        with pytest.raises(UsageError, match="chunker_version"):
            bundle.archive("c", doc_id="f")
    with pytest.raises(UsageError, match="with BundleWriter"):
        bundle.result("q")
